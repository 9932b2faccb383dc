"""The forecast of a review: files at a time, what is assumed before any answer, and what corrected answers add."""

from __future__ import annotations

import msgspec
import pytest

from headway.core.model import LaneLimits, LaneSpec, Price
from headway.engine.run_spec import UnitGroups
from headway.forecast.answer_model import ASSUMED, AnswerModel, model_of
from headway.forecast.figures import Forecast, ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.lane_forecasts import forecast
from headway.forecast.review_forecast import EFFICIENCY, Corrections, review_forecast
from headway.forecast.survey import Load, Sampled
from headway.stores.records import TurnTotals, UsageSample

#: Every request: 100 tokens in, 50 out, half a second.
SEEN = model_of([UsageSample(400, 0, 100, 50, 0, 0.5)] * 100)
LANE = LaneKnowledge(LaneSpec("lane", LaneLimits(rpm=600_000, burst_s=60.0)), "alpha/m", "openai")
NO_CORRECTIONS = Corrections()


def of_files(files: int, axes: int, at_once: int, model: AnswerModel = SEEN) -> Forecast:
    """The forecast of so many files, each with a request on each axis."""
    rows = [Sampled(index, 400, 100, 0, False) for index in range(files * axes)]
    load = Load("alpha", "m", len(rows), 400 * len(rows), 100 * len(rows), 0, rows)
    groups = UnitGroups(at_once, lambda index: index // axes + 1) if at_once else None
    route = ForecastRoute("lane", Price(2.0, 10.0), model)
    return forecast([load], [route], {"lane": LANE}, RunOptions(groups=groups), utc=1_000_000.0)


def test_files_at_a_time_make_the_time() -> None:
    found = of_files(40, 3, 4)
    assert found.time_s.estimate == pytest.approx(40 * 0.5 / 4, rel=0.02), "the axes of a file run at once"
    assert found.lanes[0].binding == "--concurrency"
    assert of_files(40, 3, 0).time_s.estimate < 1.0


def test_before_any_answer_three_quarters_count() -> None:
    found = of_files(40, 3, 4, ASSUMED)
    shown = review_forecast(found, 4, NO_CORRECTIONS)
    assert shown.time_s.estimate == pytest.approx(found.time_s.estimate / EFFICIENCY)
    assert shown.time_s.low == found.time_s.low, "it may be better than assumed"
    assert shown.notes[-1].endswith("4 files at a time are taken for 3")
    assert (shown.cost_usd, shown.requests) == (found.cost_usd, found.requests)
    for concurrency in (1, 0):
        same = review_forecast(found, concurrency, NO_CORRECTIONS)
        assert (same.time_s, same.cost_usd, same.requests) == (found.time_s, found.cost_usd, found.requests)


def test_after_a_review_only_corrections_are_added() -> None:
    found = of_files(40, 3, 4)
    assert review_forecast(found, 4, NO_CORRECTIONS) == found
    more = Corrections(TurnTotals(100.0, 50.0, 10.0, 2.0), TurnTotals(50.0, 5.0, 1.0, 0.5))
    shown = review_forecast(found, 4, more)
    assert found.cost_usd is not None
    assert shown.cost_usd is not None
    assert shown.input_tokens.estimate == pytest.approx(1.5 * found.input_tokens.estimate)
    assert shown.output_tokens.estimate == pytest.approx(1.1 * found.output_tokens.estimate)
    assert shown.time_s.high == pytest.approx(1.1 * found.time_s.high)
    assert shown.cost_usd.estimate == pytest.approx(1.25 * found.cost_usd.estimate)
    assert shown.lanes[0].time_s == shown.time_s


def test_an_unknown_price_stays_unknown() -> None:
    lanes = [msgspec.structs.replace(lane, cost_usd=None) for lane in of_files(4, 1, 2).lanes]
    found = msgspec.structs.replace(of_files(4, 1, 2), cost_usd=None, lanes=lanes)
    shown = review_forecast(found, 2, Corrections(TurnTotals(1, 1, 1, 0), TurnTotals(1, 1, 1, 0)))
    assert (shown.cost_usd, shown.lanes[0].cost_usd) == (None, None)


def test_nothing_to_send_takes_no_time() -> None:
    groups = UnitGroups(4, lambda index: index + 1)
    assert forecast([], [], {}, RunOptions(groups=groups), utc=0.0).requests == 0
    assert forecast([], [], {}, RunOptions(concurrency=4), utc=0.0).requests == 0
