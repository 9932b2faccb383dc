"""Handles the events of attempts: the lane learns, the unit spends its retry budget, and is requeued or ends."""

from __future__ import annotations

from typing import Final

from headway.core import events
from headway.core.lanes.breaker import LONGEST_PAUSE_S, MOSTLY, PATIENCE_S
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import ALWAYS, Entry
from headway.core.model import Kind, Outcome
from headway.core.reasons import (
    AccountRefused,
    AnswersAgain,
    FailuresInARow,
    GrowthLimited,
    LimitDisproved,
    NeverAnswered,
    OnlyFailures,
    ProcessExhausted,
    SameComplaint,
    TakesLess,
)
from headway.core.retry import HOPELESS, LANE_STOPPERS, THROTTLES, believed, is_lanes_fault
from headway.core.scheduling.lane_control import LaneControl
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.spending import Spending
from headway.core.scheduling.unit_moves import UnitMoves
from headway.core.scheduling.verdict import judge
from headway.core.unit_states import Move

#: A unit whose breaker probe failed may start so long after the next probe is due.
BEHIND_S: Final = 0.001
#: A unit that the process could not send waits so long.
EXHAUSTED_S: Final = 0.1
#: Failures that say nothing about a lane: a dead worker; with `own_failures`, everything that breaks off.
_CRASHES: Final = frozenset({Kind.CRASH})
_OWN: Final = frozenset({Kind.CRASH, Kind.TRANSIENT, Kind.TIMEOUT})
_CUT_SHORT: Final = Outcome(kind=Kind.TRANSIENT, message="cancelled")
_NEVER_SENT: Final = Outcome(kind=Kind.TRANSIENT, message="cancelled", sent=False)


class Attempts:
    """Handles the events of attempts in flight."""

    def __init__(self, run: RunState, control: LaneControl, moves: UnitMoves, spending: Spending) -> None:
        self._run, self._control, self._moves, self._spending = run, control, moves, spending

    def delayed(self, event: events.Delayed, now: float) -> None:
        entry = self._run.out.get(event.index)
        if entry is not None:
            entry.lane.delayed(entry)

    def written(self, event: events.Written, now: float) -> None:
        entry = self._run.out.get(event.index)
        if entry is not None:
            entry.lane.written(entry, now)
            self._run.dirty[entry.lane.key] = entry.lane

    def admitted(self, event: events.RequestAccepted, now: float) -> None:
        entry = self._run.out.get(event.index)
        if entry is None:
            return
        lane = entry.lane
        meters = lane.limits.meters
        lane.headers_arrived(entry, now)
        others = lane.reported.others
        lane.admitted(entry, event.hint, now, event.usage)
        if lane.limits.meters is not meters:
            self._control.report_limits(lane)
        if lane.reported.others != others:
            self._control.report_other_clients(lane, others)
        if lane.breaker.troubled and lane.breaker.admitted(entry.seq):
            self._report_closed(lane)
        self._run.dirty[lane.key] = lane

    def finished(self, event: events.Finished, now: float) -> None:
        entry = self._run.out.pop(event.index, None)
        if entry is None:
            return  # A late answer to an attempt that was settled before.
        lane, outcome = entry.lane, event.outcome
        self._release(entry, outcome, now)
        if outcome.kind is None:
            lane.succeeded += 1
            lane.invalid_run.clear()
            self._recover(lane, entry)
            self._moves.end(entry, Move.SUCCEED)
        elif entry.cancel_reason:
            self._after_cancel(entry, now)
        elif outcome.exhausted and self._run.out:
            self._not_counted(entry, outcome, now)
        else:
            self._failed(entry, believed(outcome), outcome.kind, now)

    def rejected(self, event: events.AnswerRejected, now: float) -> None:
        """A rejected answer is never the fault of the lane: only the unit pays, with an attempt if it is not free."""
        entry = self._run.out.pop(event.index, None)
        if entry is None:
            return
        lane = entry.lane
        self._release(entry, event.outcome, now)
        lane.invalid_run.clear()
        self._recover(lane, entry)
        lane.drop_probe(entry)
        entry.attempts += not event.is_free
        if event.again is not None:
            entry.unit, entry.fits = event.again, None
        if entry.cancel_reason:
            self._after_cancel(entry, now)
        elif event.again is not None and entry.attempts < entry.retry.max_attempts:
            self._moves.put_back(entry, Move.RETRY, now, Kind.INVALID, event.message)
        else:
            self._moves.end(entry, Move.FAIL, Kind.INVALID, event.message)

    def cancelled(self, event: events.Cancelled, now: float) -> None:
        entry = self._run.out.pop(event.index, None)
        if entry is not None:
            self._release(entry, _CUT_SHORT if event.sent else _NEVER_SENT, now)
            self._after_cancel(entry, now)

    def _release(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Release what the attempt held: the permit of its lane, the global one, its reservation."""
        lane = entry.lane
        meters = lane.limits.meters
        others = lane.reported.others
        lane.release(entry, outcome, now)
        if outcome.disbelieved is not None:
            self._control.report_usage(lane, outcome.disbelieved)
        if entry.suspect:
            lane.queue.ended(entry)
        if lane.limits.meters is not meters:
            self._control.report_limits(lane)
        if lane.reported.others != others:
            self._control.report_other_clients(lane, others)
        self._run.dirty[lane.key] = lane
        if entry.unit.exclusive:
            self._run.exclusion.stopped(entry.unit.exclusive)
        if entry.unit.group:
            self._run.dirty.update(self._run.group_cap.stopped(entry.unit.group))
        self._spending.settle(entry, outcome)

    def _not_counted(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """The process could not send it because of what is in flight: the attempt counts for neither the unit nor the lane.

        With nothing else in flight waiting would not help, so the attempt counts like any other.
        """
        lane = entry.lane
        lane.drop_probe(entry)
        if not outcome.sent:
            entry.tries -= 1
        self._moves.put_back(entry, Move.RELEASE, now + EXHAUSTED_S, None, outcome.message)
        if not self._run.exhausted:
            self._run.exhausted = True
            self._run.notice(lane, "exhausted", ProcessExhausted(outcome.message))

    def _after_cancel(self, entry: Entry, now: float) -> None:
        """A cancelled attempt has ended: the reason for cancelling it decides what happens to its unit."""
        entry.lane.drop_probe(entry)
        if entry.cancel_reason == "unwanted":
            self._moves.end(entry, Move.CANCEL, "interrupted", "cancelled")
        elif entry.cancel_reason == "deadline":
            self._moves.end(
                entry, Move.TIME_OUT, "deadline", "the run's deadline passed while it was in flight"
            )
        else:
            self._moves.put_back(entry, Move.RELEASE, now, None, "interrupted")

    def _failed(self, entry: Entry, outcome: Outcome, kind: Kind, now: float) -> None:
        """The lane learns, the unit spends its retry budget, and is requeued or ends."""
        lane = entry.lane
        if outcome.reached or lane.succeeded:
            lane.breaker.ever_answered = True
        hinted_at = self._learn(entry, outcome, kind, now)
        verdict = judge(entry, outcome, hinted_at, now)
        probe = entry.probe == "breaker"
        lane.drop_probe(entry)
        if verdict.move is Move.RETRY:
            not_before = verdict.not_before
            if probe:
                not_before = self._behind_others(entry, not_before, now)
            self._moves.put_back(entry, Move.RETRY, not_before, kind, verdict.message or outcome.message)
        else:
            self._moves.end(entry, verdict.move, kind, verdict.message)
        self._judge_lane(entry, kind, outcome, now, probe=probe)
        if kind not in THROTTLES and kind not in LANE_STOPPERS:
            entry.failed_seq = min(entry.failed_seq, lane.seq)

    @staticmethod
    def _behind_others(entry: Entry, due_at: float, now: float) -> float:
        """When the unit of a failed probe may start: the others make the next probes first, because this one may be at fault itself."""
        entry.due_at = due_at
        lane = entry.lane
        others_s = LONGEST_PAUSE_S * max(0.0, len(lane.queue.ready) + lane.stock.left - 1)
        return max(due_at, now + lane.breaker.next_pause_s + min(others_s, PATIENCE_S) + BEHIND_S)

    def _learn(self, entry: Entry, outcome: Outcome, kind: Kind, now: float) -> float:
        """The lane learns from a failure; returns the instant at which the provider allows a retry."""
        lane = entry.lane
        if kind in THROTTLES:
            return self._throttled(entry, outcome, now)
        hinted_at = ALWAYS
        if kind not in LANE_STOPPERS and kind not in HOPELESS:
            hinted_at = lane.hold_as_told(outcome, now) or ALWAYS
        if kind is not Kind.OVERLOAD:
            lane.went_ahead(entry)
        return hinted_at

    def _judge_lane(self, entry: Entry, kind: Kind, outcome: Outcome, now: float, *, probe: bool) -> None:
        """Close the lane if the failure demands it: for this run, until an instant, or by its breaker."""
        lane, message = entry.lane, outcome.message
        if kind in LANE_STOPPERS:
            self._control.stop(lane, AccountRefused(kind, message, outcome.wrong_path, outcome.not_started))
        elif kind in HOPELESS:
            self._recover(lane, entry)
            self._count_invalid(entry, kind, message)
        elif lane.hold.until > now:
            self._control.announce_hold(lane, now)
            self._control.hold_others(lane, now)
        elif self._is_units_own(entry, outcome, kind):
            lane.breaker.failed_by_itself(now, entry.seq, probe=probe)
        else:
            self._count_failure(entry, kind, message, now, probe=probe)

    @staticmethod
    def _is_units_own(entry: Entry, outcome: Outcome, kind: Kind) -> bool:
        """Whether the failure says nothing about the lane. A unit that failed in an earlier run may fail by itself again."""
        if kind in (_OWN if entry.lane.spec.own_failures else _CRASHES):
            return True
        if kind in THROTTLES:
            return False
        return entry.outvoted or (entry.unit.failed_before and not is_lanes_fault(outcome))

    def _throttled(self, entry: Entry, outcome: Outcome, now: float) -> float:
        """The lane learns from a refusal; a notice reports what users should know."""
        lane = entry.lane
        rule, finder = lane.limits.growth_rule, lane.limits.finder
        fell_to = 1.0 if finder is None else finder.fell_to
        disproved = lane.limits.disproved
        hinted_at = lane.throttled(entry, outcome, now)
        if lane.limits.disproved is not None and lane.limits.disproved is not disproved:
            wrong = lane.limits.disproved
            self._run.notice(lane, "limit", LimitDisproved(wrong.dimension, wrong.configured, wrong.found))
        if lane.limits.growth_rule is not rule and lane.limits.growth_rule is not None:
            growth = lane.limits.growth_rule
            limited = GrowthLimited(growth.free_per_minute, growth.dimension, growth.period_s)
            self._run.notice(lane, "limit", limited)
        if finder is not None and finder.fell_to < min(1.0, fell_to):
            self._run.notice(lane, "shared", TakesLess(finder.fell_to))
        return hinted_at

    def _count_failure(self, entry: Entry, kind: Kind, message: str, now: float, *, probe: bool) -> None:
        """Count a failure for the breaker; report when it opens, and stop the lane if it has been open for too long."""
        lane = entry.lane
        breaker = lane.breaker
        breaker.note(message or str(kind), entry.started_at)
        refused = kind in THROTTLES
        if breaker.failed(
            now,
            refused=refused,
            at_floor=lane.at_floor,
            probe=probe,
            sent=lane.seq,
            admitted=entry.accepted,
            unanswered=self._unanswered(lane) if breaker.judges(entry.seq) else 0,
            in_flight=lane.in_flight,
        ):
            failures = FailuresInARow(breaker.failures + breaker.refusals, kind, message)
            self._run.notice(lane, "breaker_opened", failures, breaker.probe_at)
        elif breaker.out_of_patience(now) and breaker.ever_answered:
            self._control.stop(lane, OnlyFailures(kind, message, breaker.open_s(now)))
        elif breaker.out_of_patience(now):
            self._control.stop(lane, NeverAnswered(kind, message, now - breaker.began_at))

    def _unanswered(self, lane: LaneState) -> int:
        """How many were sent between the first and the last failed attempt of the present run, and may still succeed."""
        first, last = lane.breaker.first_seq, lane.breaker.last_seq
        return sum(other.lane is lane and first <= other.seq <= last for other in self._run.out.values())

    def _recover(self, lane: LaneState, entry: Entry) -> None:
        """The provider answers: forget the failures of the lane."""
        breaker = lane.breaker
        if breaker.troubled and breaker.succeeded(entry.seq):
            self._report_closed(lane)

    def _report_closed(self, lane: LaneState) -> None:
        """Its breaker has closed: units that let others probe first may start."""
        lane.queue.end_rotation(self._run.now)
        self._run.notice(lane, "breaker_closed", AnswersAgain())

    def _count_invalid(self, entry: Entry, kind: Kind, message: str) -> None:
        """Count `invalid` answers with the same message: many in a row are about the settings of the lane, not about the units.

        Errors arrive sooner than answers. So their number is weighed against the unanswered attempts that were sent before
        this one, or before the first such error arrived: each of them may still succeed.
        """
        lane, most = entry.lane, self._run.settings.max_identical_invalid
        if kind is not Kind.INVALID or not most:
            return
        invalid = lane.invalid_run
        invalid.add(message, lane.seq)
        if invalid.count < most or lane.spent:
            return
        newest = max(entry.seq, invalid.since)
        unanswered = sum(other.lane is lane and other.seq <= newest for other in self._run.out.values())
        if invalid.count >= MOSTLY * (invalid.count + unanswered):
            self._control.stop(lane, SameComplaint(invalid.count, message))
