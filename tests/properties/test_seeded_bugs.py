"""The properties can fail: each bug of bugs.py is planted, and a property named beforehand must catch it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import reject
from hypothesis.stateful import run_state_machine_as_test

from headway.core import events
from headway.core.model import Estimate, Kind, LaneSpec, Outcome, Settings

from . import books, bugs, lanebook, machine, test_independence, test_replay
from .budgets import hunt
from .bugs import BUGS, Bug
from .lanebook import Violation
from .machine import Run, SchedulerMachine
from .strategies import Row, Scenario, Tuning

EXAMPLES = 2000


def caught(attempt: Callable[[], None]) -> str:
    """The name of the property that fails."""
    try:
        attempt()
    except Violation as violation:
        return violation.name
    pytest.fail("no property noticed the bug")


def run_machine() -> None:
    run_state_machine_as_test(SchedulerMachine, settings=hunt(EXAMPLES))


def watch_only(names: frozenset[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an example that another property fails.

    Several properties may notice one bug, and which of them is first depends on what Hypothesis draws: it picks numbers from
    all modules that happen to be loaded.
    """

    def require(holds: bool, name: str, text: str) -> None:
        if not holds and name not in names:
            reject()
        if not holds:
            raise Violation(name, text)

    for module in (books, lanebook, machine):
        monkeypatch.setattr(module, "require", require)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_machine_catches(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    watch_only(bug.caught_by, monkeypatch)
    assert caught(run_machine) in bug.caught_by


def test_the_books_catch_a_suspect_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.a_suspect_runs_among_the_others(monkeypatch)
    row = Row(0, Estimate(), 0, 0.0, None, (), (), False)
    run = Run(Scenario(0.0, (LaneSpec("a"),), (row, row), Settings(), Tuning(128, 32, 10_000, 10_000)))

    def kill_one_unit_over_and_over() -> None:
        run.step()
        for _ in range(10):
            run.batch = [events.Finished(0, Outcome(Kind.CRASH))] if 0 in run.books.flights else []
            run.step()
            run.now = max(run.now, run.books.wake_at or run.now)

    assert caught(kill_one_unit_over_and_over) == "alone"


def test_independence_catches_a_pause_of_all_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.one_lane_pauses_all(monkeypatch)
    prove = hunt(2000)(test_independence.independence(test_independence.lanes_are_independent))
    assert caught(prove) == "independence"


def test_records_catch_a_hold_that_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_replay, "import_lane", bugs.hold_not_imported)
    prove = hunt(100)(test_replay.records(test_replay.hold_survives))
    assert caught(prove) == "hold"


def test_replay_catches_a_jitter_that_is_not_a_function_of_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: Hypothesis itself would stumble over a scheduler that differs each time."""
    bugs.jitter_from_a_counter(monkeypatch)
    row = Row(0, Estimate(), 0, 0.0, None, (), (), False)
    run = Run(Scenario(0.0, (LaneSpec("a"),), (row,), Settings(), Tuning(128, 32, 10_000, 10_000)))
    run.step()
    run.batch = [events.Finished(0, Outcome(Kind.TRANSIENT))]
    run.step()
    assert caught(lambda: test_replay.judge_replay(run)) == "replay"
