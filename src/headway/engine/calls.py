"""Runs calls through lanes, without records. `headway.map`, worker pools, the HTTP transports and `headway.Lane` use it.

Calls may be submitted at any time. A call starts when its lane lets it, is tried again as the scheduler decides, and its end
is reported once. Everything happens on one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import LaneState
from headway.core.model import Hint, Kind, LaneSpec, Outcome, Settings, Unit, Usage
from headway.core.reasons import StopReason, StopRequested, WaitCode
from headway.core.scheduler import Scheduler
from headway.core.scheduling.verdict import GIVE_UP
from headway.core.snapshot import Snapshot, snapshot
from headway.core.unit_source import ListSource, answer
from headway.core.unit_states import Status
from headway.engine.flights import Flight
from headway.engine.scheduler_driver import SchedulerDriver
from headway.engine.sharing.cluster_places import ClusterHosts
from headway.engine.sharing.lane_sharing import LISTEN_S, LaneSharing, Look
from headway.engine.sharing.process_sharing import ProcessSharing
from headway.providers.error_messages import describe_exception
from headway.providers.scrubber import NO_SECRETS, Scrubber
from headway.reason_text import unit_error
from headway.stores.claims import ClaimNews
from headway.stores.write_batch import WriteBatch

#: Describes a lane when its first call is submitted.
SpecOf = Callable[[str], LaneSpec]


class CallEnd(msgspec.Struct, frozen=True, gc=False):
    """How a unit ended: `code` is empty on success, otherwise an error kind, or `interrupted`, `deadline`, `budget`."""

    status: Status
    code: str = ""
    message: str = ""


DONE: Final = CallEnd(Status.SUCCEEDED)
#: How an interruption ends a unit that never ran, one that runs, and one that waits for another attempt.
_UNSTARTED: Final = CallEnd(Status.SKIPPED, "interrupted", "the run was interrupted before it could start")
_CUT_SHORT: Final = CallEnd(Status.CANCELLED, "interrupted", "it was cancelled while it ran")
_UNTRIED: Final = CallEnd(
    Status.SKIPPED, "interrupted", "the run was interrupted before it could be tried again"
)


class _Stop(msgspec.Struct, frozen=True, gc=False):
    """Why a lane is stopped; `until` when, if it is parked on a hold."""

    reason: StopReason
    until: float | None = None


_STOPPED: Final = _Stop(StopRequested("its lane was stopped"))
#: The advice for an exhausted unit, for programs: they have no command-line flags.
GIVE_UP_HERE: Final = GIVE_UP.replace("--", "")


class SubmittedCall(Flight, eq=False, kw_only=True):
    """A call from its submission to its end: one flight for all of its attempts. `call` makes one attempt and returns its
    outcome.
    """

    call: Callable[[SubmittedCall], Awaitable[Outcome]]
    ended: Ended
    #: What the last attempt returned or raised.
    value: Any = None
    error: BaseException | None = None
    #: The number of the last attempt that is on record, so that none is recorded twice.
    recorded: int = 0
    #: Whether we cancelled the attempt that is under way.
    cancelled_by_us: bool = False
    #: Whether the attempt that is under way is the last one, however it ends: only its lane learns from it.
    final: bool = False
    #: Why the value of a successful attempt cannot be used; the call is tried again, and its lane has succeeded. A call
    #: that cannot do better next time sets `final`, too.
    rejected: str = ""
    #: Whether `details` go on record.
    keeps_details: bool = False
    #: The name of its conversation, if an agent has one with it: the same for all attempts.
    session: str = ""
    #: Whether its lane is shared with other calls and jobs of that name. What it calls has its place there already.
    shares_lane: bool = False


Ended = Callable[[SubmittedCall, CallEnd], None]


class Calls(SchedulerDriver):
    """Lanes for calls. Use it on one running event loop, and close it.

    `scrub` removes secrets from the message of every failed attempt, before a lane or a record gets it.
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
        self._join_process()
        self._flights: dict[int, SubmittedCall] = {}
        #: Lanes that calls were submitted to since the last turn.
        self._fed: set[str] = set()
        self._stopped: dict[str, _Stop] = {}
        self._next = 0
        #: How every further call ends, once nothing more will start.
        self._last: CallEnd | None = None
        self._closed = False
        #: Called with notices about lanes.
        self.noted: Callable[[commands.Notice], None] | None = None
        #: Called for every attempt after which the unit waits for another.
        self.requeued: Callable[[SubmittedCall, commands.Requeue], None] | None = None
        self._beside: ProcessSharing | None = None
        self._cluster: ClusterHosts | None = None
        self._cluster_places = 0
        self._next_look: asyncio.TimerHandle | None = None

    @property
    def lanes(self) -> Snapshot:
        """The present state of every lane."""
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
        """Add a call. `unit` has more fields of its `Unit`: an estimate, a priority, its length."""
        if self._closed:
            raise RuntimeError("closed")
        if self._last is None and lane not in self._scheduler.lanes:
            self._open(lane)  # First: if it raises, the call was not submitted and has no end.
        index = self._next
        if self._scheduler.settings.max_wait_s:
            unit["submitted_at"] = self._loop.time()
        made = Unit(index, lane, **unit)
        self._next = index + 1
        flight = self._flights[index] = SubmittedCall(index, lane, call=call, ended=ended)
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

    def open(self, lane: str) -> LaneState | None:
        """Open a lane before its first call; None if nothing will start any more."""
        if self._last is None and lane not in self._scheduler.lanes:
            self._open(lane)
        return self._scheduler.lanes.get(lane)

    def _open(self, lane: str) -> None:
        """What the scheduler decides on this occasion waits for the turn: the caller must not be called back from here."""
        opened: list[events.Event] = [events.OpenLane(self._spec_of(lane))]
        if self._cluster is not None:
            opened.append(events.SetClusterPlaces(lane, self._cluster.places))
        self._decided += self._scheduler.handle(opened, self._loop.time())
        if self._beside is not None:  # Before its first start.
            self._decided += self._scheduler.handle(self._beside.look(), self._loop.time())
        self.tell()

    def lane(self, name: str) -> LaneState:
        """A lane that is open."""
        return self._scheduler.lanes[name]

    def share(self, sharing: LaneSharing, news: ClaimNews, batch: WriteBatch) -> Look:
        """What changes because of others that use our lanes, too."""
        return sharing.look(news, batch, self._scheduler, self._loop.time())

    def share_in_process(self) -> None:
        """Share all lanes with other calls of this process that use lanes of the same names, from now on."""
        self._beside = ProcessSharing(self._scheduler)
        self._look_beside()

    def follow_cluster(self, hosts: ClusterHosts) -> None:
        """Keep to what a cluster can run, from now on, in all lanes together."""
        self._cluster, self._cluster_places = hosts, 0
        self._look_at_cluster()

    def _look_at_cluster(self) -> None:
        if self._closed or self._cluster is None:
            return
        self._loop.call_later(LISTEN_S, self._look_at_cluster)
        places = self._cluster.places
        if self._scheduler.lanes and places != self._cluster_places:
            self._cluster_places = places
            self.tell(*(events.SetClusterPlaces(lane, places) for lane in self._scheduler.lanes))

    def _look_beside(self) -> None:
        if self._beside is not None and not self._closed:
            self._next_look = self._loop.call_later(LISTEN_S, self._look_beside)
            shares = self._beside.look()
            if shares:
                self.tell(*shares)

    def admitted(self, flight: SubmittedCall, hint: Hint | None, usage: Usage | None) -> None:
        """The provider accepted the attempt: its headers have arrived, the answer has not."""
        self.tell(events.RequestAccepted(flight.index, hint, usage))

    def delayed(self, flight: SubmittedCall) -> None:
        """The attempt waits for a connection."""
        self.tell(events.Delayed(flight.index))

    def written(self, flight: SubmittedCall) -> None:
        """An attempt that waited for a connection has just been written: that is when it began."""
        flight.started_at = monotonic()
        self.tell(events.Written(flight.index))

    def reopen(self, lane: str, *, force: bool = False) -> None:
        """Let a stopped lane try again. A lane that is parked on a hold is reopened only after the hold, or with `force`."""
        stop = self._stopped.get(lane)
        if stop is not None and (force or stop.until is None or stop.until <= self._loop.time()):
            del self._stopped[lane]
            # Units that ended when the lane stopped must not start now.
            waiting = (entry.unit.index for entry in self._scheduler.lanes[lane].queue.entries())
            stale = [events.CancelUnit(index) for index in waiting if index not in self._flights]
            self.tell(*stale, events.ReopenLane(lane))

    def cancel(self, flight: SubmittedCall) -> None:
        """Cancel a call; its end is reported like any other."""
        if flight.index in self._flights:
            self.tell(events.CancelUnit(flight.index))

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; what is in flight finishes, or is cancelled too. What has not started is skipped."""
        self.tell(events.Abort("cancel" if cancel else "drain"))
        for flight in [flight for flight in self._flights.values() if flight.task is None]:
            self._end(flight, _left(flight))

    async def close(self) -> None:
        """Cancel what is left, and wait for it."""
        self._closed = True
        flying = [flight for flight in self._flights.values() if flight.task is not None]
        tasks = [task for flight in flying if (task := _cancel_attempt(flight)) is not None]
        for timer in (self._wake, self._next_look):
            if timer is not None:
                timer.cancel()
        if self._beside is not None:
            self._beside.leave()
        cancelled = CallEnd(Status.CANCELLED, "interrupted", "cancelled")
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:  # The caller may be cancelled, too.
            self._leave_process()
            for flight in list(self._flights.values()):
                # A call may have its value already, and the scheduler not yet the event: the value is kept.
                good = flight.outcome is not None and flight.outcome.kind is None
                self._end(flight, DONE if good else cancelled)

    # -- acting -----------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        return self._closed

    def _turn(self) -> None:
        self._events += self._new_units()
        super()._turn()

    def _new_units(self) -> list[events.Event]:
        """The units submitted since the last turn, for lanes that had fetched everything. The other lanes will fetch them."""
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
        """Whether every waiting lane waits for the budget: then nothing will ever start."""
        waits = [lane.wait for lane in self.lanes.lanes if lane.remaining]
        return bool(waits) and all(wait is not None and wait.code is WaitCode.BUDGET for wait in waits)

    def _broke(self, error: BaseException) -> None:
        """Nothing more can be done (the scheduler has a bug, or the program ends): end every call with this error."""
        self._closed = True
        for flight in list(self._flights.values()):
            flight.error = error
            self._end(flight, CallEnd(Status.FAILED, str(Kind.CRASH), describe_exception(error)))

    def _start(self, command: commands.Start) -> None:
        flight = self._flights.get(command.unit.index)
        if flight is None:  # It ended when its lane stopped, and the lane is open again.
            self.tell(events.CancelUnit(command.unit.index), events.Cancelled(command.unit.index))
            return
        flight.attempts, flight.alone = command.attempt, command.alone
        flight.started_at = monotonic()
        flight.charged = self._scheduler.out[flight.index].charged
        flight.error = flight.usage = flight.outcome = flight.rate_limit = None
        flight.details, flight.worker = b"", None
        flight.cancelled_by_us = False
        flight.rejected = ""
        flight.task = self._loop.create_task(self._attempt(flight))

    async def _attempt(self, flight: SubmittedCall) -> None:
        try:
            flight.outcome = await flight.call(flight)
        except asyncio.CancelledError:
            if flight.cancelled_by_us:
                flight.task = None
                self.tell(events.Cancelled(flight.index))
                return
            flight.outcome = Outcome(Kind.INVALID, message="it raised CancelledError itself")
        except (KeyboardInterrupt, SystemExit) as error:
            self._abandon(flight, error)
            raise
        except BaseException as error:  # A call returns an outcome. One that raises has a bug.
            flight.error = error
            flight.outcome = Outcome(Kind.CRASH, message=describe_exception(error))
        if flight.outcome.kind is not None:
            flight.outcome = self._scrub.outcome(flight.outcome)
            flight.rate_limit = self._scrub.rate_limit(flight.rate_limit)
            if flight.outcome.exhausted:
                self._exhausted()
        if flight.rejected and flight.outcome.kind is None:
            self._reject(flight, flight.outcome)
            return
        # It stays in flight until the scheduler has the event: an interruption meanwhile must not lose its value.
        self.tell(events.Finished(flight.index, flight.outcome))

    def _reject(self, flight: SubmittedCall, outcome: Outcome) -> None:
        """The attempt succeeded for its lane, and failed for its unit."""
        message = self._scrub.message(flight.rejected)
        flight.outcome = Outcome(Kind.INVALID, outcome.usage, message=message, worked=True)
        again = None if flight.final else self._scheduler.out[flight.index].unit
        self.tell(events.AnswerRejected(flight.index, outcome, message, again))

    def _abandon(self, flight: SubmittedCall, error: BaseException) -> None:
        """A call raises KeyboardInterrupt or SystemExit only for a signal, which ends the program.

        Nothing may run while the loop cleans up, including what uvloop still has to do in this round.
        """
        if flight.task is not None:
            flight.task.add_done_callback(_mark_retrieved)
        for other in self._flights.values():
            if other is not flight:
                _cancel_attempt(other)
        self._broke(error)

    def _requeue(self, command: commands.Requeue) -> None:
        """A unit waits for another attempt, and holds no permit."""
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
            None  # Its context refers to the flight: a cycle that only the garbage collector could free.
        )
        flight.ended(flight, end)

    def _cancel(self, command: commands.CancelAttempt) -> None:
        flight = self._flights.get(command.unit.index)
        if flight is not None and (task := _cancel_attempt(flight)) is not None:
            task.add_done_callback(partial(self._never_began, flight))

    def _never_began(self, flight: SubmittedCall, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs none of its own code: this callback tells the scheduler."""
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
        """End a call whose lane is stopped, with the lane's reason."""
        if flight.index not in self._flights:
            return
        code, message = unit_error(self._stopped.get(flight.lane, _STOPPED).reason)
        self._end(flight, CallEnd(Status.SKIPPED, code, message))

    def _done_all(self, command: commands.Done) -> None:
        """After an interruption, a deadline or a spent budget: the calls that are left have not started."""
        codes = {"deadline": "the deadline passed", "budget": "the budget is used up"}
        code = command.reason
        self._last = CallEnd(Status.SKIPPED, code, codes[code]) if code in codes else _UNSTARTED
        for flight in list(self._flights.values()):
            self._end(flight, _left(flight) if self._last is _UNSTARTED else self._last)

    def _end_late(self, flight: SubmittedCall, end: CallEnd) -> None:
        if flight.index in self._flights:
            self._end(flight, end)


def reason_of(flight: SubmittedCall, end: CallEnd) -> str:
    """Why a unit failed, if its last attempt does not say so itself; empty otherwise."""
    attempt_message = "" if flight.outcome is None else flight.outcome.message
    return "" if end.message == attempt_message else end.message


def _failed(command: commands.Finish) -> CallEnd:
    return CallEnd(command.status, str(command.code), command.message.replace(GIVE_UP, GIVE_UP_HERE))


def _mark_retrieved(task: asyncio.Task[None]) -> None:
    """The loop raises the exception of this task, so asyncio must not report it as never retrieved."""
    if not task.cancelled():
        task.exception()


def _cancel_attempt(flight: SubmittedCall) -> asyncio.Task[None] | None:
    """Cancel the attempt that is under way; returns its task."""
    if flight.task is not None:
        flight.cancelled_by_us = True
        flight.task.cancel()
    return flight.task


def _left(flight: SubmittedCall) -> CallEnd:
    """How an interruption ends a call that is left."""
    if not flight.attempts:
        return _UNSTARTED
    return _CUT_SHORT if flight.outcome is None else _UNTRIED
