"""Accounts: lanes with one login share the windows of its subscription, and a used-up window holds all of them."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, Step, lane_spec, ok, units

from headway.core.events import Finished, HoldAccount, ReopenLane, SetMemoryPlaces
from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_account, import_lane, reopened
from headway.core.model import AccountWindow, Hint, Kind, LaneLimits, LaneSpec, Outcome
from headway.core.reasons import MemoryBinds
from headway.reason_text import notice_text

TWO = LaneLimits(max_concurrency=2)
FIVE_HOURS = AccountWindow("five_hour", 1.0, 3600.0, "rejected")
OPUS = AccountWindow("seven_day_opus", 1.0, 3600.0, "rejected")


def lane(key: str, account: str = "login", model: str = "default") -> LaneSpec:
    return msgspec.structs.replace(lane_spec(key, TWO), account=account, account_model=model)


def rejected(index: int, window: AccountWindow, wait_s: float = 3600.0) -> Finished:
    hint = Hint(retry_after_s=wait_s, windows=(window,))
    return Finished(index, Outcome(Kind.HOLD, None, hint, "You've hit your limit"))


def three_lanes(**models: str) -> Run:
    """Two lanes of one account, and one of another; two units are in flight in each."""
    specs = (
        lane("a", model=models.get("a", "opus")),
        lane("b", model=models.get("b", "sonnet")),
        lane("c", account="other"),
    )
    work = [*units(9, "a"), *units(9, "b", first=10), *units(9, "c", first=20)]
    run = Run(work, *specs)
    assert sorted(run.at(0.0).started) == [0, 1, 10, 11, 20, 21]
    return run


def held(step: Step) -> set[str]:
    return {notice.lane for notice in step.notices if notice.what == "held"}


def test_a_used_up_window_holds_every_lane_of_the_account() -> None:
    run = three_lanes()
    assert held(run.at(10.0, rejected(0, FIVE_HOURS))) == {"a", "b"}
    assert run.at(20.0, ok(10), ok(20)).started == [22], "only the other account goes on"
    assert run.at(3611.0).started == []
    assert {index // 10 for index in run.at(3612.0).started} == {0, 1}, "the reset, and hold_margin"


def test_a_models_own_window_holds_only_that_model() -> None:
    run = three_lanes()
    assert held(run.at(10.0, rejected(0, OPUS))) == {"a"}
    run = three_lanes(b="opus")
    assert held(run.at(10.0, rejected(0, OPUS))) == {"a", "b"}, "another provider, the same model"


def test_a_hold_without_a_window_is_the_lanes_own() -> None:
    run = three_lanes()
    outcome = Outcome(Kind.HOLD, None, Hint(retry_after_s=3600.0), "429")
    assert held(run.at(10.0, Finished(0, outcome))) == {"a"}


def test_the_windows_of_an_account_are_known_to_all_its_lanes() -> None:
    run = three_lanes()
    window = AccountWindow("five_hour", 0.4, 9000.0)
    run.at(10.0, ok(0, hint=Hint(windows=(window,))))
    assert [run.lane(key).windows.all() for key in "abc"] == [(window,), (window,), ()]
    assert run.view(10.0, "b").windows == (window,)


def test_a_hold_that_another_process_was_told_of() -> None:
    run = three_lanes()
    event = HoldAccount("login", "opus", "account", 500.0, "You've hit your limit")
    assert held(run.at(10.0, event)) == {"a", "b"}
    assert held(run.at(11.0, event)) == set(), "it is the same hold"


def test_reopening_one_lane_reopens_the_account() -> None:
    run = three_lanes()
    run.at(10.0, rejected(0, FIVE_HOURS))
    step = run.at(20.0, ReopenLane("b"))
    assert {notice.lane for notice in step.notices if notice.what == "reopened"} == {"a", "b"}
    assert run.lane("a").windows.all() == ()


def record_after(window: AccountWindow) -> LaneRecord:
    run = three_lanes()
    run.at(10.0, rejected(0, window))
    written = msgspec.json.encode(export_lane(run.lane("a"), 10.0, 1000.0))
    return msgspec.json.decode(written, type=LaneRecord)


@pytest.mark.parametrize(
    ("window", "model", "holds"),
    [(FIVE_HOURS, "sonnet", True), (OPUS, "sonnet", False), (OPUS, "opus", True)],
)
def test_a_later_run_of_another_lane_keeps_to_the_recorded_hold(
    window: AccountWindow, model: str, holds: bool
) -> None:
    run = Run(units(3), lane("a", model=model))
    import_account(run.lane("a"), record_after(window), 0.0, 1000.0)
    assert (run.lane("a").hold.until == 3602.0) is holds
    assert [each.name for each in run.lane("a").windows.all()] == [window.name]


def test_windows_that_began_anew_are_forgotten_and_a_cleared_hold_stays_cleared() -> None:
    record = record_after(FIVE_HOURS)
    run = Run(units(3), lane("a"))
    import_lane(run.lane("a"), record, 0.0, 3600.5)
    assert run.lane("a").windows.all() == ()
    run = Run(units(3), lane("a"))
    import_account(run.lane("a"), reopened(record), 0.0, 1000.0)
    assert run.at(0.0).started == [0, 1]


def test_other_accounts_are_not_concerned() -> None:
    run = Run(units(3), lane("a", account="other"))
    import_account(run.lane("a"), record_after(FIVE_HOURS), 0.0, 1000.0)
    assert run.at(0.0).started == [0, 1]


# -- memory ---------------------------------------------------------------------------------------------------------


def test_only_as_many_start_as_fit_into_memory_and_one_notice_says_so() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(max_concurrency=4)))
    step = run.at(0.0, SetMemoryPlaces("a", 2, 400e6, 900e6))
    assert step.started == [0, 1]
    assert [notice.reason for notice in step.notices] == [MemoryBinds(2, 400e6, 900e6)]
    assert notice_text(step.notices[0].reason) == (
        "2 processes at once fit into the memory_budget of 900 MB: each takes about 400 MB"
    )
    assert run.view(0.0).memory_places == 2
    step = run.at(1.0, SetMemoryPlaces("a", 3, 300e6, 900e6))
    assert (step.started, step.told) == ([2], []), "said once"
    assert run.at(2.0, SetMemoryPlaces("a", 1, 900e6, 900e6)).started == []
    assert run.at(3.0, ok(0)).started == [], "what runs goes on, and nothing starts until one place is free"
    run.at(4.0, SetMemoryPlaces("a", 40, 20e6, 900e6))
    assert run.view(4.0).memory_places is None, "it does not bind any more"


def test_memory_that_suffices_is_not_mentioned() -> None:
    run = Run(units(3), lane_spec(limits=LaneLimits(max_concurrency=4)))
    step = run.at(0.0, SetMemoryPlaces("a", 4, 400e6, 1.7e9))
    assert (step.started, step.told) == ([0, 1, 2], [])
    assert run.view(0.0).memory_places is None
