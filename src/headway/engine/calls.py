"""Runs calls through lanes with nothing on record: what `headway.map`, the HTTP transports and `Lane` stand on.

Whoever has work submits it at any time; a call starts when its lane lets it, is tried again as the scheduler says, and
its end is told once. Everything happens on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import Lane
from headway.core.model import Hint, Kind, LaneSpec, Outcome, Settings, Unit, Usage
from headway.core.reasons import StopReason, StopRequested, WaitCode
from headway.core.scheduler import Scheduler
from headway.core.scheduling.verdict import GIVE_UP
from headway.core.snapshot import Snapshot, snapshot
from headway.core.unit_source import ListSource, answer
from headway.core.unit_states import Status
from headway.engine.flights import Flight
from headway.engine.scheduler_driver import SchedulerDriver
from headway.providers.error_messages import describe_exception
from headway.providers.scrubber import NO_SECRETS, Scrubber
from headway.reason_text import unit_error

#: Makes a lane the first time that its name is met.
SpecOf = Callable[[str], LaneSpec]


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """How a unit ended: `code` is empty on success, otherwise an error kind, or `interrupted`, `deadline`, `budget`."""

    status: Status
    code: str = ""
    message: str = ""


DONE: Final = CallEnd(Status.SUCCEEDED)
#: What an interruption makes of a unit: one that never ran, one that ran, and one that waited for another try.
_UNSTARTED: Final = CallEnd(Status.SKIPPED, "interrupted", "the run was interrupted before it could start")
_CUT_SHORT: Final = CallEnd(Status.CANCELLED, "interrupted", "it was cancelled while it ran")
_UNTRIED: Final = CallEnd(
    Status.SKIPPED, "interrupted", "the run was interrupted before it could be tried again"
)


class _Stop(msgspec.Struct, frozen=True, gc=False):
    """Why a lane takes nothing, and until when where it is parked on a hold."""

    reason: StopReason
    until: float | None = None


_STOPPED: Final = _Stop(StopRequested("its lane was stopped"))
#: The advice of an exhausted unit without the flag: a program has no command line.
GIVE_UP_HERE: Final = GIVE_UP.replace("--", "")


class SubmittedCall(Flight):
    """A call from its submission to its end: one flight for all of its attempts. `call` makes one attempt and returns its
    outcome.
    """

    __slots__ = ("call", "called_off", "ended", "error", "final", "recorded", "value")

    def __init__(
        self, index: int, lane: str, call: Callable[[SubmittedCall], Awaitable[Outcome]], ended: Ended
    ) -> None:
        super().__init__(index, lane)
        self.call = call
        self.ended = ended
        #: What the last attempt returned or raised.
        self.value: Any = None
        self.error: BaseException | None = None
        #: The number of the last attempt that is on record, so that none is recorded twice.
        self.recorded = 0
        #: Whether we cancelled the attempt that is under way.
        self.called_off = False
        #: Whether the attempt that is under way is the last one, however it ends: only its lane learns from it.
        self.final = False


Ended = Callable[[SubmittedCall, CallEnd], None]


class Calls(SchedulerDriver):
    """Lanes for calls. Use it on one running event loop, and close it.

    `scrub` blots secrets out of the message of every attempt that failed, before a lane or a record gets it.
    """

    def __init__(
        self, spec_of: SpecOf, settings: Settings | None = None, scrub: Scrubber = NO_SECRETS
    ) -> None:
        super().__init__()
        self._scrub = scrub
        self._loop = asyncio.get_running_loop()
        self._spec_of = spec_of
        self._source = ListSource(())
        settings = msgspec.structs.replace(settings or Settings(), input_open=True)
        self._capped = settings.max_cost_usd > 0
        self._scheduler = Scheduler((), settings, self._loop.time())
        self._flights: dict[int, SubmittedCall] = {}
        #: Lanes that calls were submitted to since the last turn.
        self._fed: set[str] = set()
        self._stopped: dict[str, _Stop] = {}
        self._next = 0
        #: How whatever comes now ends, once nothing more will start.
        self._last: CallEnd | None = None
        self._closed = False
        #: Told what a person wants to know of lanes.
        self.noted: Callable[[commands.Notice], None] | None = None
        #: Called for every attempt after which the unit waits for another.
        self.requeued: Callable[[SubmittedCall, commands.Requeue], None] | None = None

    @property
    def lanes(self) -> Snapshot:
        """What every lane does and waits for."""
        return snapshot(self._scheduler, self._loop.time(), self._source.remaining)

    def __len__(self) -> int:
        return len(self._flights)

    # -- work -------------------------------------------------------------------------------------------------

    def submit(
        self,
        lane: str,
        call: Callable[[SubmittedCall], Awaitable[Outcome]],
        ended: Ended,
        **unit: Any,
    ) -> SubmittedCall:
        """Add a call; `unit` has what else the scheduler may know of it (an estimate, a priority, its length)."""
        if self._closed:
            raise RuntimeError("closed")
        if self._last is None and lane not in self._scheduler.lanes:
            self._open(lane)  # First: if it raises, the call was not submitted and has no end.
        index = self._next
        made = Unit(index, lane, **unit)
        self._next = index + 1
        flight = self._flights[index] = SubmittedCall(index, lane, call, ended)
        if self._last is not None:
            self._loop.call_soon(self._end_late, flight, self._last)
            return flight
        if lane in self._stopped:
            self._loop.call_soon(self._end_stopped, flight)
            return flight
        self._source.add(made)
        self._fed.add(lane)
        self.tell()
        return flight

    def open(self, lane: str) -> Lane | None:
        """Open a lane before its first call; None if nothing will start any more."""
        if self._last is None and lane not in self._scheduler.lanes:
            self._open(lane)
        return self._scheduler.lanes.get(lane)

    def _open(self, lane: str) -> None:
        """What the scheduler decides on this occasion waits for the turn: the caller must not be called back from here."""
        opened = events.OpenLane(self._spec_of(lane))
        self._decided += self._scheduler.handle([opened], self._loop.time())
        self.tell()

    def lane(self, name: str) -> Lane:
        """A lane that is open."""
        return self._scheduler.lanes[name]

    def admitted(self, flight: SubmittedCall, hint: Hint | None, usage: Usage | None) -> None:
        """The provider took the attempt: its first headers are here, the answer is not yet."""
        self.tell(events.RequestAccepted(flight.index, hint, usage))

    def reopen(self, lane: str, *, force: bool = False) -> None:
        """Let a lane that was stopped try again; one that is parked on a hold only after it, or if forced."""
        stop = self._stopped.get(lane)
        if stop is not None and (force or stop.until is None or stop.until <= self._loop.time()):
            del self._stopped[lane]
            # Those that ended with the lane are not to be started now.
            waiting = (entry.unit.index for entry in self._scheduler.lanes[lane].queue.entries())
            stale = [events.CancelUnit(index) for index in waiting if index not in self._flights]
            self.tell(*stale, events.ReopenLane(lane))

    def cancel(self, flight: SubmittedCall) -> None:
        """Nobody wants it any more; its end is told like any other."""
        if flight.index in self._flights:
            self.tell(events.CancelUnit(flight.index))

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; what is in flight finishes, or is cancelled too. What has not started is skipped."""
        self.tell(events.Abort("cancel" if cancel else "drain"))
        for flight in [flight for flight in self._flights.values() if flight.task is None]:
            self._end(flight, _left(flight))

    async def close(self) -> None:
        """Call off whatever is left, and wait until it is gone."""
        self._closed = True
        flying = [flight for flight in self._flights.values() if flight.task is not None]
        tasks = [task for flight in flying if (task := _call_off(flight)) is not None]
        if self._wake is not None:
            self._wake.cancel()
        called_off = CallEnd(Status.CANCELLED, "interrupted", "cancelled")
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:  # Whoever closes may be called off himself.
            for flight in list(self._flights.values()):
                # One may have its value, and only the scheduler has not heard of it: that is not thrown away.
                good = flight.outcome is not None and flight.outcome.kind is None
                self._end(flight, DONE if good else called_off)

    # -- acting -----------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        return self._closed

    def _turn(self) -> None:
        self._events += self._new_units()
        super()._turn()

    def _new_units(self) -> list[events.Event]:
        """What was submitted since the last turn, for lanes that have fetched all there was; the others will fetch it."""
        fed, self._fed = self._fed, set()
        dry = [lane for lane in map(self._scheduler.lanes.__getitem__, fed) if lane.stock.exhausted]
        return [answer(self._source, commands.Fetch(lane.key, lane.stock.batch)) for lane in dry]

    def _fetch(self, command: commands.AnyFetch) -> None:
        self._answers.append(answer(self._source, command))

    def _after_turn(self) -> None:
        if self._capped and self._flights and not self._scheduler.out and self._out_of_money():
            self._capped = False
            self.tell(events.InputClosed())

    def _out_of_money(self) -> bool:
        """Whether only more money could start anything: whatever comes later, that is the end."""
        waits = [lane.wait for lane in self.lanes.lanes if lane.remaining]
        return bool(waits) and all(wait is not None and wait.code is WaitCode.BUDGET for wait in waits)

    def _broke(self, error: BaseException) -> None:
        """Nothing more can be done (the scheduler has a bug, the program ends): everybody who waits must hear of it."""
        self._closed = True
        for flight in list(self._flights.values()):
            flight.error = error
            self._end(flight, CallEnd(Status.FAILED, str(Kind.CRASH), describe_exception(error)))

    def _start(self, command: commands.Start) -> None:
        flight = self._flights.get(command.unit.index)
        if flight is None:  # It ended with its lane, which is open again.
            self.tell(events.CancelUnit(command.unit.index), events.Cancelled(command.unit.index))
            return
        flight.attempts, flight.alone = command.attempt, command.alone
        flight.started_at = monotonic()
        flight.charged = self._scheduler.out[flight.index].charged
        flight.error = flight.usage = flight.outcome = flight.rate_limit = None
        flight.details = b""
        flight.called_off = False
        flight.task = self._loop.create_task(self._attempt(flight))

    async def _attempt(self, flight: SubmittedCall) -> None:
        try:
            flight.outcome = await flight.call(flight)
        except asyncio.CancelledError:
            if flight.called_off:
                flight.task = None
                self.tell(events.Cancelled(flight.index))
                return
            flight.outcome = Outcome(Kind.INVALID, message="it ended with a CancelledError of its own")
        except (KeyboardInterrupt, SystemExit) as error:
            self._abandon(flight, error)
            raise
        except BaseException as error:  # A call says how it went; one that raises has a bug.
            flight.error = error
            flight.outcome = Outcome(Kind.CRASH, message=describe_exception(error))
        if flight.outcome.kind is not None:
            flight.outcome = self._scrub.outcome(flight.outcome)
            flight.rate_limit = self._scrub.rate_limit(flight.rate_limit)
        # It stays in flight until the scheduler has heard of it: an interruption meanwhile must not take its value away.
        self.tell(events.Finished(flight.index, flight.outcome))

    def _abandon(self, flight: SubmittedCall, error: BaseException) -> None:
        """A call raises KeyboardInterrupt or SystemExit only for a signal, which ends the program.

        Nothing runs any further while the loop tidies up: also not what uvloop has yet to do in this round.
        """
        if flight.task is not None:
            flight.task.add_done_callback(_heard)
        for other in self._flights.values():
            if other is not flight:
                _call_off(other)
        self._broke(error)

    def _requeue(self, command: commands.Requeue) -> None:
        """It waits, and holds nothing."""
        flight = self._flights.get(command.unit.index)
        if flight is None:
            return
        flight.task = None
        if self.requeued is not None:
            self.requeued(flight, command)
        if flight.final:
            self.tell(events.CancelUnit(flight.index))
            self._end(flight, CallEnd(Status.FAILED, str(command.kind or "interrupted"), command.reason))
        elif flight.lane in self._stopped:
            self._end_stopped(flight)

    def _finish(self, command: commands.Finish) -> None:
        flight = self._flights.get(command.unit.index)
        if flight is not None:
            good = command.status is Status.SUCCEEDED
            self._end(flight, DONE if good else _failed(command))

    def _end(self, flight: SubmittedCall, end: CallEnd) -> None:
        del self._flights[flight.index]
        flight.task = (
            None  # Its context knows the flight: a ring that only the garbage collector could break.
        )
        flight.ended(flight, end)

    def _cancel(self, command: commands.CancelAttempt) -> None:
        flight = self._flights.get(command.unit.index)
        if flight is not None and (task := _call_off(flight)) is not None:
            task.add_done_callback(partial(self._never_began, flight))

    def _never_began(self, flight: SubmittedCall, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs nothing that could tell the scheduler."""
        if task.cancelled():
            flight.task = None
            self.tell(events.Cancelled(flight.index, sent=False))

    def _notice(self, command: commands.Notice) -> None:
        if isinstance(command.reason, StopReason):
            self._stopped[command.lane] = _Stop(command.reason, command.until)
            for flight in [each for each in self._flights.values() if each.lane == command.lane]:
                if flight.task is None:
                    self._end_stopped(flight)
        elif command.what == "reopened":
            self._stopped.pop(command.lane, None)
        if self.noted is not None:
            self.noted(command)

    def _end_stopped(self, flight: SubmittedCall) -> None:
        """Its lane takes nothing any more: the reason is the lane's."""
        if flight.index not in self._flights:
            return
        code, message = unit_error(self._stopped.get(flight.lane, _STOPPED).reason)
        self._end(flight, CallEnd(Status.SKIPPED, code, message))

    def _done_all(self, command: commands.Done) -> None:
        """Only after an interruption, a deadline or a spent budget: whoever is left has not started."""
        codes = {"deadline": "the deadline passed", "budget": "the budget is used up"}
        code = command.reason
        self._last = CallEnd(Status.SKIPPED, code, codes[code]) if code in codes else _UNSTARTED
        for flight in list(self._flights.values()):
            self._end(flight, _left(flight) if self._last is _UNSTARTED else self._last)

    def _end_late(self, flight: SubmittedCall, end: CallEnd) -> None:
        if flight.index in self._flights:
            self._end(flight, end)


def reason_of(flight: SubmittedCall, end: CallEnd) -> str:
    """Why a unit that did not succeed ended, where its last attempt does not say so itself; empty otherwise."""
    said_by_attempt = "" if flight.outcome is None else flight.outcome.message
    return "" if end.message == said_by_attempt else end.message


def _failed(command: commands.Finish) -> CallEnd:
    return CallEnd(command.status, str(command.code), command.message.replace(GIVE_UP, GIVE_UP_HERE))


def _heard(task: asyncio.Task[None]) -> None:
    """The loop raises the exception of this task: nothing else may report it."""
    if not task.cancelled():
        task.exception()


def _call_off(flight: SubmittedCall) -> asyncio.Task[None] | None:
    """Cancel the attempt that is under way; its task."""
    if flight.task is not None:
        flight.called_off = True
        flight.task.cancel()
    return flight.task


def _left(flight: SubmittedCall) -> CallEnd:
    """How a unit that an interruption leaves ends."""
    if not flight.attempts:
        return _UNSTARTED
    return _CUT_SHORT if flight.outcome is None else _UNTRIED
