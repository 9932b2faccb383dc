"""The forecast of programs: places, and what earlier units took."""

from __future__ import annotations

from typing import Any

import pytest

from headway.forecast.program_forecasts import ProgramLane, program_forecast, program_notes, with_programs
from headway.stores.records import ProgramRun


def lane(units: int, *took: float, cost: float | None = 0.5, **more: Any) -> ProgramLane:
    runs = [ProgramRun(one, cost) for one in took]
    return ProgramLane(
        **{"name": "claude/m", "places": 3, "binding": "3 in flight", **more}, units=units, runs=runs
    )


def test_places_share_the_time_of_earlier_units() -> None:
    found = program_forecast(lane(30, 58.0, 60.0, 62.0))
    assert found.time_s.estimate == pytest.approx(30 * 60.0 / 3, rel=0.05)
    assert found.time_s.low < found.time_s.estimate < found.time_s.high
    assert found.cost_usd is not None
    assert found.cost_usd.estimate == pytest.approx(15.0)
    assert (found.binding, found.learned_from) == ("3 in flight", 3)


def test_one_unit_runs_ahead_of_the_others() -> None:
    found = program_forecast(lane(4, 10.0, 10.0, one_ahead=True))
    assert found.time_s.estimate == pytest.approx(20.0), "one, then three at once"


def test_one_earlier_unit_leaves_a_wide_range() -> None:
    found = program_forecast(lane(3, 10.0))
    assert (found.time_s.low, found.time_s.estimate, found.time_s.high) == pytest.approx((5.0, 10.0, 20.5))


def test_without_earlier_units_nothing_is_assumed() -> None:
    one = lane(30)
    found = with_programs(None, [one])
    assert not found.time_known
    assert found.cost_usd is None
    [note] = found.notes
    assert "--first 1" in note
    assert not any(word in note for word in ("token", "price", "--limit"))


def test_units_that_reported_no_cost_have_none() -> None:
    one = lane(3, 1.0, 2.0, cost=None)
    assert program_forecast(one).cost_usd is None
    assert program_notes(one) == ["claude/m: learned from 2 earlier units of it; they reported no cost"]


def test_a_hold_is_waited_for() -> None:
    found = program_forecast(lane(3, 10.0, 10.0, hold_s=600.0, hold_reason="5-hour limit"))
    assert found.time_s.estimate == pytest.approx(610.0)
    assert found.binding == "a hold (5-hour limit)"


def test_one_directory_is_shared_one_after_the_other_by_all_lanes() -> None:
    shared: dict[str, Any] = {"places": 1, "directory": "/repo", "places_apart": 3}
    first, second = lane(3, 10.0, 10.0, **shared), lane(3, 10.0, 10.0, name="codex/m", **shared)
    found = with_programs(None, [first, second])
    assert found.time_s.estimate == pytest.approx(60.0)
    assert "with --worktree (or --shared-directory) 3 run at once, in about 10 s" in found.notes[1]
