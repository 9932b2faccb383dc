"""Forecasts in plain numbers: what limits make of time, what tokens make of cost, and what has to be said."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.lanes.lane_memory import FoundRecord, LaneRecord, MeterRecord
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.model import Costs, Dimension, LaneLimits, LaneSpec, Price
from headway.core.scheduler import Scheduler
from headway.forecast.answer_model import ASSUMED, AnswerModel, model_of
from headway.forecast.assumed_provider import assumed_provider
from headway.forecast.figures import Forecast, ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.lane_forecasts import forecast
from headway.forecast.survey import Load, Sampled
from headway.forecast.trial import choose, restored_scheduler
from headway.stores.records import UsageSample

#: Every request: 100 tokens in, 50 out, half a second.
SEEN = model_of([UsageSample(400, 0, 100, 50, 0, 0.5)] * 100)
UTC = 1_000_000.0


def load(n: int, model: str = "m", max_tokens: int = 100, **row: Any) -> Load:
    rows = [
        Sampled(index, 400, max_tokens, row.get("priority", 0), row.get("serial", False))
        for index in range(n)
    ]
    return Load("alpha", model, n, 400 * n, max(0, max_tokens) * n, n * (not max_tokens), rows)


def known(
    key: str = "lane", record: LaneRecord | None = None, starts: Any = (), **limits: Any
) -> LaneKnowledge:
    return LaneKnowledge(LaneSpec(key, LaneLimits(**limits)), f"alpha/{key}", "openai", record, list(starts))


def record(*meters: MeterRecord, **more: Any) -> LaneRecord:
    return LaneRecord("lane", UTC, meters=meters, **more)


def told(
    lane: LaneKnowledge, n: int, way: RunOptions | None = None, model: AnswerModel = SEEN, **row: Any
) -> Forecast:
    route = ForecastRoute(lane.spec.key, Price(2.0, 10.0), model)
    return forecast([load(n, **row)], [route], {lane.spec.key: lane}, way or RunOptions(), utc=UTC)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_requests_a_minute_make_the_time() -> None:
    found = told(known(rpm=600, burst_s=5.0), 400)
    [lane] = found.lanes
    assert lane.time_s.estimate == pytest.approx((400 - 50) / 10 + 0.5, rel=0.05)
    assert lane.binding == "600 requests per minute"
    assert (found.requests, found.simulated, lane.refused) == (400, 400, 0)


def test_tokens_are_counted_as_the_provider_counts_them() -> None:
    """Input and max_tokens: 200 a request."""
    [lane] = told(known(rpm=6000, tpm=60_000, burst_s=2.0), 200).lanes
    assert lane.binding == "60,000 tokens per minute"
    assert lane.time_s.estimate == pytest.approx((200 * 200 - 2000) / 1000, rel=0.07)


def test_a_window_makes_the_time() -> None:
    [lane] = told(known(max_concurrency=4), 200).lanes
    assert lane.binding == "4 in flight"
    assert lane.time_s.estimate == pytest.approx(200 * 0.5 / 4, rel=0.02)


def test_one_at_a_time_with_a_delay() -> None:
    [lane] = told(known(rpm=6000), 20, RunOptions(serial=True, delay_s=1.0)).lanes
    assert lane.binding == "one at a time"
    assert lane.time_s.estimate == pytest.approx(19 * 1.0 + 0.5, rel=0.02), "from start to start"


def test_a_cap_over_all_lanes() -> None:
    lanes = {key: known(key, rpm=60_000, burst_s=60.0) for key in ("a", "b")}
    routes = [ForecastRoute(key, None, SEEN) for key in lanes]
    found = forecast([load(100), load(100)], routes, lanes, RunOptions(concurrency=2), utc=UTC)
    assert found.time_s.estimate == pytest.approx(200 * 0.5 / 2, rel=0.05)
    assert [lane.binding for lane in found.lanes] == ["--concurrency", "--concurrency"]


def test_lanes_do_not_delay_each_other() -> None:
    lanes = {"a": known("a", rpm=60, burst_s=1.0), "b": known("b", rpm=6000, burst_s=1.0)}
    routes = [ForecastRoute("a", None, SEEN), ForecastRoute("b", None, SEEN)]
    found = forecast([load(60), load(300)], routes, lanes, RunOptions(), utc=UTC)
    slow, quick = found.lanes
    assert slow.time_s.estimate == pytest.approx(59.5, rel=0.05)
    assert quick.time_s.estimate < 6.0
    assert found.time_s == slow.time_s
    assert found.cost_usd is None


def test_a_hold_is_waited_for() -> None:
    held = record(held_until_utc=UTC + 600.0, hold_reason="per-day quota")
    [lane] = told(known(record=held, rpm=6000), 20).lanes
    assert lane.time_s.estimate > 600.0
    assert "per-day quota" in lane.binding


def test_a_reported_limit_binds_below_a_configured_one() -> None:
    reported = record(MeterRecord(Dimension.REQUESTS, 60.0, 600.0, 1.0, True, ceiling_s=5.0))
    [lane] = told(known(record=reported, rpm=6000), 400).lanes
    assert lane.binding == "600 requests per minute"
    assert lane.time_s.estimate == pytest.approx(35.5, rel=0.05), "headers imply 5 s"
    assert lane.time_s.high > 38.0, "only one is proven"


def test_a_bottom_that_was_found_leaves_no_doubt_about_the_depth() -> None:
    found = record(MeterRecord(Dimension.REQUESTS, 60.0, 600.0, 2.0, True, ceiling_s=60.0, bottom=True))
    [lane] = told(known(record=found), 400).lanes
    assert lane.time_s.low == pytest.approx(38.5, rel=0.03)


def test_recent_usage_is_missing_from_the_bucket() -> None:
    spent: list[tuple[float, Costs]] = [(0.1, (1.0, 200.0, 100.0, 50.0))] * 50
    full = told(known(rpm=600, burst_s=5.0), 200).time_s.estimate
    drained = told(known(rpm=600, burst_s=5.0, starts=spent), 200).time_s.estimate
    assert drained == pytest.approx(full + 5.0, rel=0.05)


def test_a_pace_that_was_found_is_gone_on_with() -> None:
    found = record(found=FoundRecord((10.0, 2000.0, 1000.0, 500.0), Dimension.REQUESTS, 2.0, 100.0))
    [lane] = told(known(record=found), 400).lanes
    assert lane.binding == f"600 {LEARNED}"
    assert lane.time_s.estimate == pytest.approx(38.5, rel=0.1)


def test_a_days_quota_is_there_to_be_used() -> None:
    [lane] = told(known(rpd=100, rpm=6000), 120).lanes
    assert lane.binding == "100 requests per day"
    assert lane.time_s.estimate == pytest.approx(20 * 864.0, rel=0.05)


# -- what nobody knows -------------------------------------------------------------------------------------------------


def test_nothing_is_known_and_it_says_so() -> None:
    found = told(known(), 320, model=ASSUMED)
    [lane] = found.lanes
    assert lane.binding == "32 in flight"
    assert lane.time_s.low < lane.time_s.estimate / 4 < lane.time_s.high / 16
    first, second = found.notes
    assert "no answers to learn from" in first
    assert "no limit is known" in second
    assert "32 requests in flight" in second


def test_a_lane_that_met_no_limit_says_so() -> None:
    found = told(known(record=record()), 320)
    assert found.time_s.estimate < found.time_s.high / 2
    [note] = found.notes
    assert "no request was refused" in note


def test_units_that_can_never_fit_are_named() -> None:
    found = told(known(tpm=150, burst_s=60.0), 3)
    assert "3 of its requests are larger than a limit" in found.notes[0]


# -- money and tokens --------------------------------------------------------------------------------------------------


def test_tokens_and_cost_with_their_ranges() -> None:
    [lane] = told(known(rpm=6000), 100).lanes
    assert lane.input_tokens.estimate == pytest.approx(10_000)
    assert lane.output_tokens.estimate == pytest.approx(5_000)
    assert lane.cost_usd is not None
    assert lane.cost_usd.estimate == pytest.approx((10_000 * 2.0 + 5_000 * 10.0) / 1e6)
    assert lane.cost_usd.low < lane.cost_usd.estimate < lane.cost_usd.high
    assert (lane.learned_from, lane.max_output_tokens, lane.open_ended) == (100, 10_000, 0)


def test_a_price_that_is_missing_is_no_cost_of_nothing() -> None:
    lane = known(rpm=6000)
    found = forecast([load(5)], [ForecastRoute("lane", None, SEEN)], {"lane": lane}, RunOptions(), utc=UTC)
    assert found.cost_usd is None
    assert "the price is unknown" in found.notes[0]


def test_long_requests_are_priced_one_by_one() -> None:
    """A hundred tokens in are above fifty, and two hundred such requests are no request of twenty thousand."""
    lane = known(rpm=6000)
    dear = Price(1.0, 0.0, above=((50.0, Price(2.0, 0.0)), (10_000.0, Price(9.0, 0.0))))
    [one] = forecast(
        [load(200)], [ForecastRoute("lane", dear, SEEN)], {"lane": lane}, RunOptions(), utc=UTC
    ).lanes
    assert one.cost_usd is not None
    assert one.cost_usd.estimate == pytest.approx(200 * 100 * 2.0 / 1e6)


def test_two_models_of_a_pool_share_its_limit() -> None:
    lane = known(rpm=600, burst_s=1.0)
    routes = [ForecastRoute("lane", Price(1.0, 0.0), SEEN), ForecastRoute("lane", Price(3.0, 0.0), SEEN)]
    found = forecast([load(100), load(100, "n")], routes, {"lane": lane}, RunOptions(), utc=UTC)
    [one] = found.lanes
    assert one.requests == 200
    assert one.time_s.estimate == pytest.approx(19.5, rel=0.05)
    assert one.cost_usd is not None
    assert one.cost_usd.estimate == pytest.approx(100 * 100 * 4.0 / 1e6)


# -- a part instead of the whole ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"rpm": 3000}, {"rpm": 3000, "burst_s": 60.0}, {"max_concurrency": 20}])
def test_a_sample_comes_to_the_same_as_the_whole(limits: dict[str, Any]) -> None:
    lane, route = known(**limits), ForecastRoute("lane", None, SEEN)
    whole, part = (
        forecast([load(9_000)], [route], {"lane": lane}, RunOptions(), utc=UTC, most=most)
        for most in (9_000, 1_500)
    )
    assert (whole.simulated, part.simulated) == (9_000, 1_500)
    assert part.time_s.estimate == pytest.approx(whole.time_s.estimate, rel=0.03)
    assert part.output_tokens.estimate == pytest.approx(whole.output_tokens.estimate)


def test_lanes_that_share_something_are_thinned_alike() -> None:
    routes = [ForecastRoute("a", None, SEEN), ForecastRoute("b", None, SEEN)]
    loads = [load(1000), load(100)]
    assert [len(rows) for rows in choose(loads, routes, 200, together=False)] == [200, 100]
    assert [len(rows) for rows in choose(loads, routes, 200, together=True)] == [200, 20]


# -- the account -------------------------------------------------------------------------------------------------------


def scheduler(lane: LaneKnowledge) -> Scheduler:
    return restored_scheduler({"lane": lane}, RunOptions(), "estimate", UTC)


def test_the_assumed_provider_has_the_known_limits() -> None:
    lane = known(
        record=record(MeterRecord(Dimension.TOKENS, 60.0, 60_000.0, 1.0, True, UTC + 2.0, 5.0)),
        rpm=600,
        burst_s=3.0,
    )
    provider, buckets = assumed_provider(scheduler(lane).lanes["lane"], lane, "estimate", 0.0)
    assert (provider.headers, provider.counting, provider.max_concurrency) == ("openai", "reserved", 0)
    requests, tokens = buckets[Dimension.REQUESTS], buckets[Dimension.TOKENS]
    assert (requests.rate, requests.capacity, requests.level) == (10.0, 30.0, 30.0)
    assert tokens.rate == 1000.0
    assert tokens.level == pytest.approx(tokens.capacity - 2000.0)


def test_an_account_that_reports_nothing_sends_no_headers() -> None:
    lane = known(rpm=600)
    provider, _ = assumed_provider(scheduler(lane).lanes["lane"], lane, "estimate", 0.0)
    assert provider.headers == "none"


def test_a_limit_that_was_met_and_not_measured_makes_a_cautious_time() -> None:
    met = record(glimpsed=(5.0, 20.0))
    found = told(known(record=met), 200)
    [lane] = found.lanes
    assert lane.time_s.estimate == pytest.approx(200 / 10.0, rel=0.15)
    assert lane.time_s.low < 200 / 20.0 * 1.4, "a lane that searches for its rate is slower at first"
    assert lane.time_s.high > 200 / 5.0 * 0.9
    assert lane.binding == "about 600 requests per minute"
    [note] = [note for note in found.notes if "a limit that is not measured yet" in note]
    assert "between 300 and 1,200 requests per minute" in note


def test_a_total_without_some_prices_is_the_least_and_names_them() -> None:
    lanes = {"a": known("a", rpm=6000), "b": known("b", rpm=6000)}
    routes = [
        ForecastRoute("a", Price(2.0, 10.0), SEEN, "alpha/a"),
        ForecastRoute("b", None, SEEN, "alpha/b", '[providers.alpha.models."b".prices]'),
    ]
    found = forecast([load(10), load(10)], routes, lanes, RunOptions(), utc=UTC)
    assert found.unpriced == ["alpha/b"]
    assert found.cost_usd == found.lanes[0].cost_usd
    [note] = [note for note in found.notes if "price" in note]
    assert '[providers.alpha.models."b".prices]' in note
