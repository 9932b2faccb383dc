"""Ends a run: it is complete, nothing more can start, it is aborted, or its deadline passes."""

from __future__ import annotations

from typing import Final, Literal

from headway.core import commands, events
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import Entry
from headway.core.scheduling.expiry import Expiry
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.unit_moves import UnitMoves
from headway.core.unit_states import Move

#: Units that are fetched at once to be reported when a deadline closes a job of any size.
EXPIRY_BATCH: Final = 10_000


class RunEnd:
    """Cancels attempts, reports units that a deadline left, and issues `Done` once."""

    def __init__(self, run: RunState, moves: UnitMoves) -> None:
        self._run, self._moves = run, moves
        self._expiry: Expiry | None = None

    def abort(self, event: events.Abort, now: float) -> None:
        if self._run.mode == "run":
            self._run.mode = "aborted"
        if event.mode == "cancel":
            self._stop_flights("aborted")

    def _stop_flights(self, reason: str) -> None:
        for entry in self._run.out.values():
            if not entry.cancel_reason:
                entry.cancel_reason = reason
                self._run.commands.append(commands.CancelAttempt(entry.unit))

    def meet_deadline(self) -> None:
        """Start nothing more and cancel what is in flight. Units that an abort left pending stay pending."""
        if self._run.mode == "run":
            self._run.mode = "deadline"
        self._stop_flights("deadline")

    @property
    def expiring(self) -> bool:
        """Whether units that the deadline left are still to be reported."""
        return self._run.mode == "deadline" and (self._expiry is None or not self._expiry.over)

    def expire(self) -> None:
        """Fetch the next units to report, after fetches that were under way at the deadline."""
        if self._expiry is None and not self._run.fetching:
            self._expiry = Expiry(self._run.in_memory())
        if self._expiry is not None and not self._expiry.over and not self._expiry.fetching:
            self._expiry.fetching = True
            self._run.commands.append(commands.FetchRest(EXPIRY_BATCH))

    def rest_units(self, event: events.RestUnits, now: float) -> None:
        """Report a page of units that had not started at the deadline as timed out."""
        if self._expiry is None:
            return
        entries = [self._run.lanes[unit.lane].entry(unit) for unit in event.units]
        for entry in self._expiry.page(entries):
            if entry.unit.index in self._run.unwanted:
                self._moves.end(entry, Move.CANCEL, "interrupted", "cancelled")
            else:
                self._run.waiting.drop(entry)
                self._moves.end(entry, Move.TIME_OUT, "deadline", _deadline_text(entry))

    def finish_run(self) -> bool:
        """Report the end once nothing is in flight and nothing can start; returns whether the run has ended."""
        if self._run.mode == "run":
            if self._run.paused or self._run.input_open:
                return False
            if self._run.serial_phase and not (
                self._run.serial is not None and self._run.serial.lane.key in self._run.broke
            ):
                return False
            if not self._run.serial_phase and not all(
                lane.idle or self._is_broke(lane) for lane in self._run.lanes.values()
            ):
                return False
            if self._run.broke:
                self._run.mode = "budget"
        if not self._run.done:
            self._run.done = True
            self._run.commands.append(commands.Done(self._why_done()))
        return True

    def _is_broke(self, lane: LaneState) -> bool:
        """Whether the lane cannot start anything without more money."""
        fits = self._run.budget.fits
        return lane.key in self._run.broke and not any(fits(entry.estimate) for entry in lane.queue.waiting())

    def _why_done(self) -> Literal["complete", "stopped", "parked", "deadline", "budget", "aborted"]:
        if self._run.mode != "run":
            return self._run.mode
        stopped = [lane for lane in self._run.lanes.values() if lane.stopped and not lane.spent]
        if any(lane.parked for lane in stopped):
            return "parked"
        if stopped and all(lane.broke for lane in stopped):
            return "budget"
        if stopped or self._run.waiting.count:
            return "stopped"
        return "deadline" if self._run.waited_out else "complete"


def _deadline_text(entry: Entry) -> str:
    """Why a unit that is not in flight has no answer at the deadline."""
    if entry.tries:
        return f"the run's deadline passed before it could be tried again (the last attempt: {entry.why})"
    return "the run's deadline passed before it could start"
