"""Bugs to plant: each a small change to one core class, of the kind that a hurried edit makes.

Each says which properties must be the ones to notice it; `test_seeded_bugs.py` lets the properties loose on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from headway.core import commands, retry
from headway.core.budget import Budget
from headway.core.lanes import lane_memory, settling
from headway.core.lanes.breaker import Breaker
from headway.core.lanes.in_flight.window import Window
from headway.core.lanes.lane import LaneState
from headway.core.lanes.meters.meter import Meter
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry, Queue
from headway.core.lanes.queueing.stock import Stock
from headway.core.model import Dimension, Kind
from headway.core.reasons import StopReason
from headway.core.scheduler import Scheduler
from headway.core.scheduling import attempts as attempts_module
from headway.core.scheduling import verdict
from headway.core.scheduling.attempts import Attempts
from headway.core.scheduling.dependencies import Dependencies
from headway.core.scheduling.lane_control import LaneControl
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.spending import Spending
from headway.core.scheduling.starting import Starting
from headway.core.scheduling.supply import Supply
from headway.core.scheduling.unit_moves import UnitMoves

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Bug:
    """How to plant it, and the names of the properties that catch it."""

    plant: Callable[[Patch], None]
    caught_by: frozenset[str]

    @property
    def name(self) -> str:
        return self.plant.__name__.replace("_", "-")


BUGS: list[Bug] = []


def bug(*caught_by: str) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS.append(Bug(plant, frozenset(caught_by)))
        return plant

    return register


# -- permits, meters, windows --------------------------------------------------------------------------------


@bug("invariant")
def permit_kept_after_a_failure(patch: Patch) -> None:
    right = LaneState.release

    def wrong(self: LaneState, entry: Entry, outcome: Any, now: float) -> None:
        right(self, entry, outcome, now)
        self.in_flight += outcome.kind is not None

    patch.setattr(LaneState, "release", wrong)


@bug("held lane")
def hold_ignored_by_when(patch: Patch) -> None:
    right = LaneState.when

    def wrong(self: LaneState, entry: Entry, now: float) -> tuple[float, str]:
        until, self.hold.until = self.hold.until, ALWAYS
        answer = right(self, entry, now)
        self.hold.until = until
        return answer

    patch.setattr(LaneState, "when", wrong)


@bug("bucket")
def tokens_not_reserved(patch: Patch) -> None:
    right = Meter.reserve

    def wrong(self: Meter, cost: float, now: float) -> float:
        return right(self, 0.0 if self.dimension is Dimension.TOKENS else cost, now)

    patch.setattr(Meter, "reserve", wrong)


@bug("bucket")
def success_refunded_like_a_refusal(patch: Patch) -> None:
    right = LaneState.release

    def wrong(self: LaneState, entry: Entry, outcome: Any, now: float) -> None:
        right(self, entry, outcome, now)
        if outcome.kind is None and outcome.usage is None:
            settling.refund(self, entry)

    patch.setattr(LaneState, "release", wrong)


@bug("window")
def window_not_cut(patch: Patch) -> None:
    def wrong(self: Window, epoch: int, in_flight: int) -> bool:
        self.epoch += epoch == self.epoch
        return True

    patch.setattr(Window, "refused", wrong)


@bug("lane cap", "invariant")
def window_grows_past_its_maximum(patch: Patch) -> None:
    right = Window.succeeded

    def wrong(self: Window, in_flight: int, *, first_try: bool) -> None:
        right(self, in_flight, first_try=first_try)
        self.size += self.size == in_flight

    patch.setattr(Window, "succeeded", wrong)


@bug("global cap")
def global_cap_off_by_one(patch: Patch) -> None:
    right = Starting._take_turns

    def wrong(self: Starting, now: float, most: int) -> None:
        right(self, now, most + 1)

    patch.setattr(Starting, "_take_turns", wrong)


@bug("breaker")
def breaker_announced_and_left_closed(patch: Patch) -> None:
    right = Breaker.failed

    def wrong(self: Breaker, now: float, **facts: Any) -> bool:
        opened = right(self, now, **facts)
        self.opened_at = None
        return opened

    patch.setattr(Breaker, "failed", wrong)


@bug("reopened")
def reopened_without_a_probe(patch: Patch) -> None:
    patch.setattr(Breaker, "probe_first", lambda self, now, sent, probe_seq: None)


@bug("retries")
def every_probe_is_free(patch: Patch) -> None:
    patch.setattr(verdict, "is_lanes_fault", lambda outcome: True)


# -- the budget ------------------------------------------------------------------------------------------------


@bug("budget", "invariant")
def budget_not_reserved(patch: Patch) -> None:
    patch.setattr(Budget, "reserve", lambda self, estimate: None)
    patch.setattr(Budget, "release", lambda self, estimate: None)


@bug("budget")
def lanes_budget_not_minded(patch: Patch) -> None:
    patch.setattr(Spending, "_affordable", lambda self, entry, lane: True)


@bug("budget")
def lanes_budget_forgets_earlier_runs(patch: Patch) -> None:
    patch.setattr(
        Budget,
        "of",
        classmethod(lambda cls, lane_budget: cls(lane_budget.max_cost_usd, name=lane_budget.name)),
    )


@bug("budget")
def lane_stopped_while_its_money_is_in_flight(patch: Patch) -> None:
    right = Spending._affordable

    def wrong(self: Spending, entry: Entry, lane: LaneState) -> bool:
        out = [lane_budget.out for lane_budget in lane.lane_budgets]
        for lane_budget in lane.lane_budgets:
            lane_budget.out = 0
        answer = right(self, entry, lane)
        for lane_budget, was in zip(lane.lane_budgets, out, strict=True):
            lane_budget.out = was
        return answer

    patch.setattr(Spending, "_affordable", wrong)


# -- where a unit goes -------------------------------------------------------------------------------------------


@bug("invariant", "twice", "not before")
def unit_requeued_twice(patch: Patch) -> None:
    right = Queue.delay

    def wrong(self: Queue, entry: Entry) -> None:
        right(self, entry)
        self.push(entry)

    patch.setattr(Queue, "delay", wrong)


@bug("lost")
def unit_dropped_when_its_lane_stops(patch: Patch) -> None:
    right = UnitMoves.put_back

    def wrong(self: UnitMoves, entry: Entry, move: Any, at: float, kind: Kind | None, reason: str) -> None:
        right(self, entry, move, at, kind, reason)
        if kind in (Kind.QUOTA, Kind.AUTH):
            entry.lane.queue.delayed.clear()

    patch.setattr(UnitMoves, "put_back", wrong)


@bug("not before")
def not_before_ignored(patch: Patch) -> None:
    patch.setattr(Queue, "delay", Queue.push)


@bug("hint")
def hint_ignored_by_the_backoff(patch: Patch) -> None:
    right = verdict.judge

    def wrong(entry: Entry, outcome: Any, hinted_at: float, now: float) -> Any:
        return right(entry, outcome, ALWAYS, now)

    patch.setattr(attempts_module, "judge", wrong)


@bug("retries")
def attempt_counted_twice(patch: Patch) -> None:
    right = verdict.judge

    def wrong(entry: Entry, outcome: Any, hinted_at: float, now: float) -> Any:
        entry.attempts += 1
        return right(entry, outcome, hinted_at, now)

    patch.setattr(attempts_module, "judge", wrong)


@bug("after end")
def late_result_counted_again(patch: Patch) -> None:
    right, ended = Attempts.finished, UnitMoves.end

    def noting(self: Any, entry: Entry, *details: Any, **more: Any) -> None:
        ended(self, entry, *details, **more)
        self._run.__dict__.setdefault("ended", {})[entry.unit.index] = entry

    def wrong(self: Any, event: Any, now: float) -> None:
        entry = self._run.__dict__.get("ended", {}).get(event.index)
        if entry is not None:
            self._run.commands.append(commands.Finish(entry.unit, entry.status))
        right(self, event, now)

    patch.setattr(UnitMoves, "end", noting)
    patch.setattr(Attempts, "finished", wrong)


@bug("retries")
def cancelled_attempt_goes_back(patch: Patch) -> None:
    right = Attempts._after_cancel

    def wrong(self: Attempts, entry: Entry, now: float) -> None:
        entry.cancel_reason = "aborted"
        right(self, entry, now)

    patch.setattr(Attempts, "_after_cancel", wrong)


@bug("cancel")
def cancelled_unit_runs_if_it_was_not_read_yet(patch: Patch) -> None:
    right = Supply._take_in

    def wrong(self: Supply, unit: Any, now: float) -> Entry | None:
        self._run.unwanted.clear()
        return right(self, unit, now)

    patch.setattr(Supply, "_take_in", wrong)


# -- whose turn it is ----------------------------------------------------------------------------------------------


@bug("dependency")
def dependency_released_by_a_failure(patch: Patch) -> None:
    right = Dependencies.ended

    def wrong(self: Dependencies, index: int, *, good: bool) -> Iterator[Entry]:
        return right(self, index, good=True)

    def queue_all(self: UnitMoves, entry: Entry, upstream: int) -> None:
        entry.lane.queue.push(entry)
        self._run.dirty[entry.lane.key] = entry.lane

    patch.setattr(Dependencies, "ended", wrong)
    patch.setattr(UnitMoves, "skip", queue_all)


@bug("render", "invariant")
def a_request_is_made_again_and_again(patch: Patch) -> None:
    right = Starting._render

    def wrong(self: Starting, entry: Entry, lane: LaneState) -> bool:
        made = right(self, entry, lane)
        if made:
            lane.queue.push(entry)
        return made

    patch.setattr(Starting, "_render", wrong)


#: Which unit stands first also decides whether a lane's money is enough for it.
@bug("order", "done")
def priority_ignored(patch: Patch) -> None:
    right = Queue.push

    def wrong(self: Queue, entry: Entry) -> None:
        right(self, entry)
        key, item = self.ready, (0, 0.0, entry.unit.index, entry)
        key[:] = sorted([(0, 0.0, one[2], one[3]) for one in key if one[3] is not entry] + [item])

    patch.setattr(Queue, "push", wrong)


@bug(
    "serial", "done"
)  # A serial unit that waits for its retry may also be left behind when the end is reported.
def serial_units_not_awaited(patch: Patch) -> None:
    right = Starting._advance_serial

    def wrong(self: Starting, now: float) -> None:
        right(self, now)
        if self._run.out:
            self._run.serial_phase = False
            self._run.dirty.update(self._run.lanes)

    patch.setattr(Starting, "_advance_serial", wrong)


# -- fetches ---------------------------------------------------------------------------------------------------------


@bug("fetch")
def fetch_under_way_forgotten(patch: Patch) -> None:
    right = Stock.fetch

    def wrong(self: Stock) -> int:
        n = right(self)
        self.fetching = False
        return n

    patch.setattr(Stock, "fetch", wrong)


@bug("done", "liveness", "lost")
def more_work_forgotten_during_a_fetch(patch: Patch) -> None:
    def wrong(self: Stock) -> None:
        self.exhausted = False

    patch.setattr(Stock, "more_work", wrong)


@bug("done")
def end_reported_while_units_are_on_their_way(patch: Patch) -> None:
    idle = property(lambda self: not self.in_flight and (bool(self.stopped) or not self.queue))
    patch.setattr(LaneState, "idle", idle)


@bug("fetch")
def deadline_does_not_wait_for_fetches(patch: Patch) -> None:
    patch.setattr(RunState, "fetching", property(lambda self: False))


@bug("lost")
def units_dropped_that_come_during_a_pause(patch: Patch) -> None:
    right = Supply._take_in

    def wrong(self: Supply, unit: Any, now: float) -> Entry | None:
        return None if self._run.paused else right(self, unit, now)

    patch.setattr(Supply, "_take_in", wrong)


# -- the run ---------------------------------------------------------------------------------------------------------


@bug("paused", "done")
def pause_forgotten(patch: Patch) -> None:
    patch.setattr(Scheduler, "_pause", lambda self, event, now: None)


@bug("closed lane")
def stop_forgotten(patch: Patch) -> None:
    right = LaneControl.stop

    def wrong(self: LaneControl, lane: LaneState, reason: StopReason) -> None:
        right(self, lane, reason)
        lane.stopped = None

    patch.setattr(LaneControl, "stop", wrong)


@bug("liveness")
def wake_lost_when_it_moves(patch: Patch) -> None:
    right = Starting._sleep

    def wrong(self: Starting, lane: LaneState, at: float) -> bool:
        if lane.wake_at != NEVER:
            lane.wake_at = at
            return False
        return right(self, lane, at)

    patch.setattr(Starting, "_sleep", wrong)


@bug("done", "over")
def end_reported_while_units_wait(patch: Patch) -> None:
    patch.setattr(LaneState, "spent", property(lambda self: self.stock.exhausted and not self.queue.ready))


# -- for the other properties ----------------------------------------------------------------------------------------


def a_suspect_runs_among_the_others(patch: Patch) -> None:
    """Caught by hand: a unit that kills two workers is rare among all that can happen."""
    patch.setattr(Entry, "suspect", property(lambda self: False))


def one_lane_pauses_all(patch: Patch) -> None:
    """Caught by independence: a Retry-After of one lane slows down the others."""
    right = Attempts._failed

    def wrong(self: Attempts, entry: Entry, outcome: Any, kind: Kind, now: float) -> None:
        right(self, entry, outcome, kind, now)
        for lane in self._run.lanes.values():
            lane.hold.pause(entry.lane.hold.paused_until)

    patch.setattr(Attempts, "_failed", wrong)


def jitter_from_a_counter(patch: Patch) -> None:
    """Caught by replay: the wait depends on how often it was asked for, not on the unit."""
    right, asked = retry.backoff_s, [0]

    def wrong(how: Any, index: int, attempt: int) -> float:
        asked[0] += 1
        return right(how, index + asked[0], attempt)

    patch.setattr(verdict, "backoff_s", wrong)


def hold_not_imported(lane: LaneState, record: Any, now: float, utc: float) -> None:
    """Caught by the record's property: the next life of a lane knows no hold."""
    lane_memory.import_lane(lane, record, now, utc)
    lane.hold.until = ALWAYS
