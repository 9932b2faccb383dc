"""Defects that the properties found in the core, each as small as it gets and mended since.

The machine would find them again; these tests say at once which one is back, and why.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headway.core import commands, events
from headway.core.commands import Command
from headway.core.invariants import check
from headway.core.model import (
    DAY_S,
    SUCCESS,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    Outcome,
    RetryPolicy,
    Settings,
    Unit,
    Usage,
)
from headway.core.reasons import WaitCode
from headway.core.scheduler import Scheduler
from headway.core.scheduling import run_end as run_end_module
from headway.core.snapshot import snapshot
from headway.core.unit_source import FedScheduler, ListSource, answer


def starts(told: list[Command]) -> list[int]:
    return [command.unit.index for command in told if isinstance(command, commands.Start)]


def wakes(told: list[Command]) -> list[float]:
    return [command.at for command in told if isinstance(command, commands.Wake)]


def _fed(lanes: Iterable[LaneSpec], units: Iterable[Unit], settings: Settings | None = None) -> FedScheduler:
    """A scheduler whose fetches are answered at once."""
    return FedScheduler(Scheduler(lanes, settings), ListSource(units))


def ends(told: list[Command]) -> list[str]:
    return [command.reason for command in told if isinstance(command, commands.Done)]


def test_blind_without_tokens() -> None:
    """A lane of unknown limits, units without estimates (any `headway.map`), the first 429: ZeroDivisionError.

    The finder paces by tokens to begin with; units that cost none give it a pace of nothing.
    """
    scheduler = _fed([LaneSpec("a")], ([Unit(index, "a") for index in range(5)]))
    assert 0 in starts(scheduler.handle([], 0.0))
    told = scheduler.handle([events.Finished(0, Outcome(Kind.RATE))], 1.0)
    check(scheduler.scheduler)
    assert 0 in starts(scheduler.handle([], wakes(told)[0] + 60.0))


def test_blind_overflow() -> None:
    """A blind lane after its first 429, and one answer far longer than estimated: OverflowError an hour later.

    The debt of the long answer is waited out; `RateFinder.advance` takes that time for time at full pace and doubles the
    pace every two seconds of it. (Below 2,000 s it does not break, but the pace it then believes in is absurd.)
    """
    units = [Unit(index, "a", Estimate(input_tokens=10.0)) for index in range(2)]
    scheduler = _fed([LaneSpec("a")], (units[:1]))
    scheduler.handle([], 0.0)
    scheduler.handle([events.Finished(0, Outcome(Kind.RATE))], 1.0)
    assert starts(scheduler.handle([], 10.0)) == [0]
    scheduler = FedScheduler(scheduler.scheduler, ListSource(units[1:]))
    long = Outcome(usage=Usage(input_tokens=10.0, output_tokens=100_000.0))
    told = scheduler.handle([events.Finished(0, long), events.MoreWork("a")], 20.0)
    assert starts(scheduler.handle([], wakes(told)[0])) == [1]


def test_blind_cap() -> None:
    """A blind lane suspects a number in flight, then is given a maximum of two: a third goes out.

    `Window.probe_at` outlives the finder, so `permit_at` lets one beyond the *configured* window go; where it is
    accepted `doubt` makes the window larger than what is configured.
    """
    units = [Unit(index, "a", Estimate(input_tokens=5.0)) for index in range(60)]
    scheduler = _fed([LaneSpec("a")], (units))
    scheduler.handle([], 0.0)
    scheduler.handle([events.Finished(3, Outcome(Kind.RATE))], 0.5)
    scheduler.handle([events.SetLimits("a", LaneLimits(max_concurrency=2))], 1.0)
    told = scheduler.handle([events.Finished(index, SUCCESS) for index in scheduler.scheduler.out], 2.0)
    assert len(starts(told)) == 2


def test_ramp_overflow() -> None:
    """A lane with a cap on acceleration after 19 days (a proxy runs that long): OverflowError.

    `GrowthRule.limit` raises its growth to the power of the elapsed periods, and nothing ends that.
    """
    units = [Unit(index, "a", Estimate(input_tokens=20.0)) for index in range(9)]
    scheduler = _fed([LaneSpec("a", LaneLimits(max_concurrency=1))], (units))
    assert starts(scheduler.handle([], 0.0)) == [0]
    grown = Outcome(Kind.RATE, hint=Hint(growing=True))
    assert starts(scheduler.handle([events.Finished(0, grown)], 1.0)) == [1]
    assert starts(scheduler.handle([events.Finished(1, SUCCESS)], 20.0 * DAY_S)) != []


def test_cancel_refill() -> None:
    """128 queued units are cancelled at once: nobody reads the other 72, and the run sleeps for ever.

    `_step` does not refill because the dead entries still count in `len(queue.ready)`; `head()` then drops them.
    """
    units = [Unit(index, "a") for index in range(200)]
    scheduler = _fed([LaneSpec("a", LaneLimits(max_concurrency=1))], (units))
    scheduler.scheduler.lanes["a"].hold.extend(10.0, "on record")
    scheduler.handle([], 0.0)
    scheduler.handle([events.CancelUnit(index) for index in range(128)], 1.0)
    assert starts(scheduler.handle([], 10.0)) == [128]


def test_budget_end_leaves_no_unit_that_would_fit() -> None:
    """The unit in backoff stands before the one that is too dear, and fits; the run ends all the same.

    `_start` sleeps for ever where the head does not fit, and forgets what is delayed in the same lane.
    """
    units = [Unit(0, "a", Estimate(cost_usd=0.1)), Unit(1, "a", Estimate(cost_usd=2.0))]
    lane = LaneSpec("a", LaneLimits(max_concurrency=1))
    scheduler = _fed([lane], (units), Settings(max_cost_usd=1.0))
    assert starts(scheduler.handle([], 0.0)) == [0]
    told = scheduler.handle([events.Finished(0, Outcome(Kind.OVERLOAD))], 1.0)
    assert ends(told) == []
    assert starts(scheduler.handle([], wakes(told)[0])) == [0]


def test_budget_end_is_not_claimed_when_everything_has_ended() -> None:
    """The only unit beyond the budget was cancelled, and so was the other: that is no end by the budget.

    `_broke` still names the lane; only a release clears it.
    """
    units = [Unit(0, "a", Estimate(cost_usd=2.0)), Unit(1, "b")]
    lanes = [LaneSpec("a"), LaneSpec("b")]
    scheduler = _fed(lanes, (units), Settings(max_cost_usd=1.0))
    scheduler.scheduler.lanes["b"].hold.extend(10.0, "on record")
    scheduler.handle([], 0.0)
    told = scheduler.handle([events.CancelUnit(0), events.CancelUnit(1)], 1.0)
    assert ends(told) == ["complete"]


def test_min_gap_refund() -> None:
    """A refused request was sent all the same: the next one keeps the gap.

    `_refund` gives the request back to the minimum gap's meter too.
    """
    lane = LaneSpec("a", LaneLimits(max_concurrency=0, min_gap_s=10.0))
    scheduler = _fed([lane], ([Unit(0, "a"), Unit(1, "a")]))
    assert starts(scheduler.handle([], 0.0)) == [0]
    told = scheduler.handle([events.Finished(0, Outcome(Kind.INVALID))], 1.0)
    assert (starts(told), wakes(told)) == ([], [10.0])


def test_deadline_spin() -> None:
    """Past the deadline of an aborted run nothing is left to wake up for but the attempt's end.

    `_ask_for_wake` goes on naming the deadline, which is over: an engine that obeys spins until the attempt ends.
    """
    scheduler = _fed([LaneSpec("a")], ([Unit(0, "a")]), Settings(deadline_at=10.0))
    scheduler.handle([], 0.0)
    scheduler.handle([events.Abort("cancel")], 1.0)
    assert wakes(scheduler.handle([], 10.0)) == []


def test_expiry_double_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit that is cancelled twice while a deadline is being reported in portions: the scheduler breaks.

    The second `CancelUnit` puts the ended unit on `_unwanted`, and `_expire` ends it again: KeyError. With the real
    portion this takes more than 10,000 units.
    """
    monkeypatch.setattr(run_end_module, "EXPIRY_BATCH", 2)
    units = [Unit(index, "a") for index in range(5)]
    scheduler, source = Scheduler([LaneSpec("a")], Settings(deadline_at=10.0)), ListSource(units)
    scheduler.lanes["a"].hold.extend(100.0, "on record")
    FedScheduler(scheduler, source).handle([], 0.0)
    [fetch] = [command for command in scheduler.handle([], 10.0) if isinstance(command, commands.FetchRest)]
    scheduler.handle([events.CancelUnit(3), events.CancelUnit(3)], 10.0)
    assert ends(scheduler.handle([answer(source, fetch)], 10.0)) == ["deadline"]


def test_second_end() -> None:
    """A run that had ended, and waits for something again, says so when it has ended again.

    `done` stays true from the first end on until a unit starts or ends; here the lane is reopened and closed.
    """
    scheduler = _fed([LaneSpec("a")], ([Unit(0, "a")]))
    scheduler.handle([], 0.0)
    failed = events.Finished(0, Outcome(Kind.AUTH))
    assert ends(scheduler.handle([failed], 1.0)) == ["stopped"]
    assert starts(scheduler.handle([events.ReopenLane("a")], 1.0)) == [0]
    assert ends(scheduler.handle([failed], 1.0)) == ["stopped"]


def test_unnamed_wait() -> None:
    """Promise 10: a lane that the global cap keeps waiting says so, also where nothing of it was read yet."""
    units = [Unit(0, "a"), Unit(1, "b")]
    scheduler = _fed([LaneSpec("a"), LaneSpec("b")], (units), Settings(concurrency=1))
    assert starts(scheduler.handle([], 0.0)) == [0]
    wait = snapshot(scheduler.scheduler, 0.0, scheduler.source.remaining).lanes[1].wait
    assert wait is not None
    assert wait.code is WaitCode.GLOBAL_CAP


def test_snapshot_drops() -> None:
    """A snapshot changes nothing.

    `_wait` asks `queue.head()`, which drops cancelled entries; the lane then reads on earlier than it would have,
    and where the longest goes first another unit may start for having been looked at.
    """
    lane, units = LaneSpec("a"), [Unit(index, "a") for index in range(3)]
    scheduler = _fed([lane], (units), Settings(concurrency=1))
    scheduler.handle([], 0.0)
    scheduler.handle([events.CancelUnit(1)], 0.0)
    before = len(scheduler.scheduler.lanes["a"].queue.ready)
    snapshot(scheduler.scheduler, 0.0, scheduler.source.remaining)
    assert len(scheduler.scheduler.lanes["a"].queue.ready) == before


def test_ripe_within_the_same_instant() -> None:
    """Instants closer than 1e-9 s are the same: also for a unit whose backoff ends.

    Another lane's alarm may ring this lane a hair early (sums of floats). Its meter is then ready, but `ripen` takes
    `now` to the last bit, and the unit that stands behind goes first: what starts depends on the other lane.
    """
    lane = LaneSpec("a", LaneLimits(rpm=60, burst_s=0.0), RetryPolicy(base_s=0.0))
    scheduler = _fed([lane], ([Unit(0, "a"), Unit(1, "a")]))
    assert starts(scheduler.handle([], 0.0)) == [0]
    failed = Outcome(Kind.TRANSIENT, hint=Hint(retry_after_s=1.0))
    assert wakes(scheduler.handle([events.Finished(0, failed)], 0.0)) == [1.0]
    assert starts(scheduler.handle([], 1.0 - 1e-12)) == [0]


def test_blind_refused_for_ever() -> None:
    """A lane of unknown limits whose every request gets a 429 (an account without quota): it must end, with a reason.

    A lane of known limits opens its breaker and stops after fifteen minutes, its units pending. A blind one is never
    `at_floor`, so its breaker counts no refusal: every unit is sent 51 times and fails. (At first it was worse: the
    pace fell to nothing, the meter to no number, and the run slept for ever.)
    """
    units = [Unit(index, "a", Estimate(input_tokens=5.0)) for index in range(20)]
    scheduler = _fed([LaneSpec("a")], (units))
    now, told = 0.0, scheduler.handle([], 0.0)
    while not ends(told) and now < DAY_S:
        now = now + 0.05 if scheduler.scheduler.out else wakes(told)[0]
        refused = [events.Finished(index, Outcome(Kind.RATE)) for index in scheduler.scheduler.out]
        told = scheduler.handle(refused, now)
        check(scheduler.scheduler)
    assert ends(told) == ["stopped"]


def test_a_deadline_after_the_end_changes_nothing() -> None:
    """A run that was complete before its deadline was reported a second time, as one that had met its deadline."""
    scheduler = _fed([LaneSpec("a")], [Unit(0, "a")], Settings(deadline_at=10.0))
    scheduler.handle([], 0.0)
    assert ends(scheduler.handle([events.Finished(0, Outcome())], 1.0)) == ["complete"]
    assert ends(scheduler.handle([], 11.0)) == []


def test_what_comes_after_the_end_meets_the_deadline() -> None:
    """A lane that is reopened after the deadline starts nothing, even if the run had ended before it."""
    scheduler = _fed([LaneSpec("a")], [Unit(0, "a")], Settings(deadline_at=10.0))
    scheduler.handle([], 0.0)
    assert ends(scheduler.handle([events.Finished(0, Outcome(Kind.AUTH))], 1.0)) == ["stopped"]
    told = scheduler.handle([events.ReopenLane("a")], 11.0)
    assert not starts(told)
    assert ends(told) == ["deadline"]


def test_a_lane_that_waits_for_its_connections_says_so() -> None:
    """Requests that were not written yet kept the next ones back, and the lane named no wait."""
    scheduler = _fed([LaneSpec("a")], [Unit(index, "a", Estimate(input_tokens=10.0)) for index in range(8)])
    scheduler.handle([], 0.0)
    scheduler.handle([events.Finished(0, Outcome())], 0.0)
    told = scheduler.handle([events.Delayed(1)], 0.0)
    [wake_at] = wakes(told)
    assert not starts(scheduler.handle([], wake_at))
    wait = snapshot(scheduler.scheduler, wake_at, lambda lane: 0).lanes[0].wait
    assert wait is not None
    assert wait.code is WaitCode.CONNECTIONS


def test_a_unit_that_waits_for_one_that_the_deadline_cancels_is_reported() -> None:
    """It waited no longer, was skipped no more after the deadline, and was nowhere: no row said what became of it."""
    first, second = Unit(0, "a", leads=True), Unit(1, "a", after=(0,))
    scheduler = Scheduler([LaneSpec("a", LaneLimits(max_concurrency=1))], Settings(deadline_at=10.0))
    scheduler.handle([events.SerialUnits(())], 0.0)
    assert starts(scheduler.handle([events.Units("a", [first], more=True)], 0.0)) == [0]
    scheduler.handle([], 10.0)
    # A fetch was under way, so the report of all units has not begun.
    told = scheduler.handle([events.Units("a", [second], more=False), events.Cancelled(0)], 10.1)
    told += scheduler.handle([events.RestUnits(())], 10.2)
    ended = [command.unit.index for command in told if isinstance(command, commands.Finish)]
    assert (ends(told), ended) == (["deadline"], [0, 1])
