"""Decides which unit starts when. Events in, commands out, time as an argument; nothing else.

`handle(events, now)` first applies every event to the state, then starts every unit that may start, lane by lane, and
last says when it must be called again. It looks only at lanes that an event touched or whose wake-up is due, so an idle
lane costs nothing. Units arrive as events too: a lane that runs low asks for more with a `Fetch`, and `Units` brings them.

This file takes the events and joins the parts: `attempts` (what an attempt's end means), `lane_control` (hold, stop,
reopen, limits), `supply` (units come into memory), `starting` (the start loop), `spending` (budgets), `unit_moves` (a unit goes back or ends)
and `run_end`. What they share is in `run_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headway.core import commands, events
from headway.core.commands import Command
from headway.core.events import Event
from headway.core.lanes.queueing.queue import NEVER
from headway.core.model import LaneSpec, Settings
from headway.core.scheduling.attempts import Attempts
from headway.core.scheduling.lane_control import LaneControl
from headway.core.scheduling.run_end import RunEnd
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.spending import Spending
from headway.core.scheduling.starting import Starting
from headway.core.scheduling.supply import Supply
from headway.core.scheduling.unit_moves import UnitMoves
from headway.core.unit_states import Move


class Scheduler(RunState):
    """The pure core: the state of a run and the one method that changes it."""

    def __init__(self, lanes: Iterable[LaneSpec], settings: Settings | None = None, now: float = 0.0) -> None:
        super().__init__(settings or Settings(), now)
        moves = self._moves = UnitMoves(self)
        control = LaneControl(self)
        supply = Supply(self, moves)
        spending = Spending(self, control)
        self._starting = Starting(self, control, moves, supply, spending)
        self._end = RunEnd(self, moves)
        attempts = Attempts(self, control, moves, spending)
        self._react: dict[type, Callable[[Any, float], None]] = {
            events.Delayed: attempts.delayed,
            events.Written: attempts.written,
            events.RequestAccepted: attempts.admitted,
            events.Finished: attempts.finished,
            events.AnswerRejected: attempts.rejected,
            events.Cancelled: attempts.cancelled,
            events.ReopenLane: control.reopen_lane,
            events.OpenLane: control.open_lane,
            events.SetLimits: control.set_limits,
            events.SetBudget: spending.set_cap,
            events.SetMaxInFlight: self._set_max_in_flight,
            events.Granted: self._granted,
            events.HoldAccount: control.hold_account,
            events.HoldLane: control.hold_lane,
            events.SetMemoryPlaces: control.set_memory_places,
            events.SetClusterPlaces: control.set_cluster_places,
            events.Share: control.share,
            events.Units: supply.units,
            events.ExtraUnits: supply.extra_units,
            events.SerialUnits: supply.serial_units,
            events.RestUnits: self._end.rest_units,
            events.Rendered: supply.rendered,
            events.MoreWork: supply.more_work,
            events.InputClosed: self._input_closed,
            events.CancelUnit: self._cancel_unit,
            events.Pause: self._pause,
            events.Resume: self._resume,
            events.Abort: self._end.abort,
        }
        for spec in lanes:
            control.open_lane(events.OpenLane(spec), now)

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """Apply events at `now`; returns the commands to carry out, with at most one `Wake` among them."""
        self.commands = []
        self.now = now
        react = self._react
        for event in happened:
            react[type(event)](event, now)
        self._advance(now)
        return self.commands

    def _set_max_in_flight(self, event: events.SetMaxInFlight, now: float) -> None:
        self.max_in_flight = event.limit

    def _input_closed(self, event: events.InputClosed, now: float) -> None:
        self.input_open = False

    def _cancel_unit(self, event: events.CancelUnit, now: float) -> None:
        entry = self.out.get(event.index)
        if entry is not None:
            if not entry.cancel_reason:
                self.commands.append(commands.CancelAttempt(entry.unit))
            entry.cancel_reason = "unwanted"
            return
        entry = next((one for one in self.in_memory() if one.unit.index == event.index), None)
        if entry is None:
            self.unwanted.add(event.index)  # Not fetched yet.
            return
        self.waiting.drop(entry)
        self._moves.end(entry, Move.CANCEL, "interrupted", "cancelled")
        self.dirty[entry.lane.key] = entry.lane

    def _pause(self, event: events.Pause, now: float) -> None:
        self.paused, self.done = True, False  # A paused run is not at its end.

    def _resume(self, event: events.Resume, now: float) -> None:
        self.paused = False
        self.free_all(now)

    def _granted(self, event: events.Granted, now: float) -> None:
        if now >= self.granted_until:
            self.free_all(now)
        self.granted_until = event.until

    def _advance(self, now: float) -> None:
        """Start what may start now, then request the next call or report the end."""
        deadline_at = self.settings.deadline_at
        if (
            deadline_at is not None and now >= deadline_at and not self.done
        ):  # A run that has ended meets no deadline.
            self._end.meet_deadline()
        self._starting.advance(now)
        if not self.paused and now < self.granted_until:
            self.dirty.clear()
        if self.mode == "deadline":
            self._end.expire()
        if self.out or self._end.expiring or not self._end.finish_run():
            self.done = False
            self._ask_for_wake(now)

    def _ask_for_wake(self, now: float) -> None:
        """Request one wake-up: when the first lane is due, or at the deadline."""
        starts = self.mode == "run" and not self.paused and now < self.granted_until
        at = self._starting.next_at() if starts else NEVER
        deadline_at = self.settings.deadline_at
        if deadline_at is not None and deadline_at > now:
            at = min(at, deadline_at)
        if at != NEVER:
            self.commands.append(commands.Wake(at))
