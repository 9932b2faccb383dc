"""Sends the requests of a job's units, and records each attempt.

A unit is sent once the scheduler has started it, its intent is durable and its request is read. The answer goes to the
scheduler, which decides whether the unit ends or waits; then the attempt, its answer and the new state go into one batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import LaneState
from headway.core.model import Hint, Kind, Outcome, Unit, Usage
from headway.core.retry import LANE_STOPPERS
from headway.core.scheduler import Scheduler
from headway.core.unit_states import Status
from headway.engine.flights import RequestFlight
from headway.engine.prices import RoutePrices
from headway.engine.ready_connections import ReadyConnections
from headway.engine.recorder import Recorder
from headway.engine.recording.attempt_log import AttemptLogs
from headway.engine.recording.attempt_records import attempt_record, uncounted
from headway.engine.run_spec import RunSpec
from headway.engine.units.attachment_reader import AttachmentReader
from headway.engine.units.late_requests import LateRequests
from headway.engine.units.repairs import Repairs, unfit
from headway.engine.units.requests import RequestsAhead
from headway.engine.units.unit_cursors import StoreSource, route_of
from headway.providers.adapter import Answer, Request, is_unsent
from headway.providers.attached_body import marks_in
from headway.providers.error_messages import describe_exception
from headway.stores.records import Attempt, UnitChange


class RequestSender:
    """The attempts of one run.

    `tell` takes events for the scheduler, `is_over` says whether nothing may be sent any more, and `exhausted` is called if the
    process could not open what an attempt needed.
    """

    def __init__(
        self,
        spec: RunSpec,
        recorder: Recorder,
        scheduler: Scheduler,
        source: StoreSource,
        tell: Callable[[events.Event], None],
        is_over: Callable[[], bool],
        exhausted: Callable[[], None],
        logs: AttemptLogs,
    ) -> None:
        self._spec, self._recorder, self._scheduler, self._source = spec, recorder, scheduler, source
        self._tell, self._is_over, self._exhausted, self._logs = tell, is_over, exhausted, logs
        self._check = spec.check_answer
        self._loop = asyncio.get_running_loop()
        self._flights: dict[int, RequestFlight] = {}
        self.prices = RoutePrices(spec.routes)
        #: The timeouts of routes that have their own.
        self._timeouts = {number: route.timeout_s for number, route in spec.routes.items() if route.timeout_s}
        self._repairs = Repairs()
        self._repairs.restore(recorder.store, recorder.job, source)
        self._late = LateRequests(spec.render, recorder, source, tell)
        self._requests = RequestsAhead(recorder, self._other_request, self._send_ready)
        self._session_lanes = {
            key for key, lane in spec.lanes.items() if getattr(lane.adapter, "has_sessions", False)
        }
        for lane in spec.lanes.values():
            if (watch_workers := getattr(lane.adapter, "watch_workers", None)) is not None:
                watch_workers(logs.workers)
        self._log_lanes = {
            key for key, lane in spec.lanes.items() if getattr(lane.adapter, "takes_log", False)
        }
        has_files = recorder.store.has_attachments(recorder.job)
        self._attachments = AttachmentReader(recorder) if has_files else None
        #: Lanes whose requests are sent as they are, unless they go alone.
        self._plain_lanes = set(spec.lanes) - self._session_lanes - self._log_lanes
        if self._attachments is not None or spec.listener is not None or spec.tracer is not None:
            self._plain_lanes.clear()
        self._connections = ReadyConnections(spec.lanes, source.remaining)

    def _other_request(self, index: int) -> Request | None:
        """The request of a unit that does not send its own."""
        return self._repairs.requests.get(index) or self._late.requests.get(index)

    # -- before the start -----------------------------------------------------------------------------------------

    def make_request(self, unit: Unit) -> None:
        """Make the request of a unit that depends on the answers of others."""
        self._late.make(unit)

    def look_ahead(self) -> None:
        """Record the intents of what each lane is about to start, read the requests, and have connections opened."""
        scheduler, now = self._scheduler, self._loop.time()
        if scheduler.mode == "run" and not scheduler.paused:
            self._connections.look(scheduler, now)
            self._look_at_lanes(now)
        else:
            self._connections.stop()
        self._requests.read()

    def _look_at_lanes(self, now: float) -> None:
        scheduler, recorder = self._scheduler, self._recorder
        for key, lane in scheduler.lanes.items():
            handle = recorder.lanes[key]
            if handle.orders != lane.queue.orders:  # Other units are next.
                handle.orders = lane.queue.orders
                self.drop(recorder.intents.release_ahead(handle))
            if ready := lane.queue.ready:
                next_units = partial(_next_units, lane)
                self._requests.want(recorder.intents.look_ahead(handle, next_units, len(ready), now))

    def release_ahead(self) -> None:
        """No lane starts anything for a while."""
        for handle in self._recorder.lanes.values():
            self.drop(self._recorder.intents.release_ahead(handle))

    def drop(self, indexes: Iterable[int]) -> None:
        """Forget the requests of units whose intents were released."""
        self._requests.drop(indexes)

    # -- attempts -------------------------------------------------------------------------------------------------

    def start(self, command: commands.Start) -> None:
        """Send a unit as soon as its intent is durable and its request is read."""
        unit = command.unit
        index, entry = unit.index, self._scheduler.out[unit.index]
        flight = RequestFlight(
            index, unit.lane, command.attempt + self._source.tries.get(index, 0), command.alone,
            charged=entry.charged, route=route_of(unit.family), estimate=entry.estimate,
        )  # fmt: skip
        self._flights[index] = flight
        intents = self._recorder.intents
        if not intents.start(index, self._recorder.lanes[unit.lane]):
            self._requests.want((index,))
            intents.waiting[index] = partial(self._send_ready, (index,))
        elif (request := self._requests.take_or_want(index)) is not None:
            self._send(flight, request)
            return
        flight.delayed = True
        self._tell(events.Delayed(index))

    def _send_ready(self, indexes: Iterable[int]) -> None:
        """Send those of the units that have started, if the intent is durable and the request is read."""
        if self._is_over():
            return  # They stay pending, or unknown if the run broke off.
        waiting = self._recorder.intents.waiting
        for index in indexes:
            flight = self._flights.get(index)
            if flight is None or flight.task is not None or index in waiting:
                continue
            if self._loop.time() >= self._scheduler.granted_until:
                self.cancel(index)  # Its intent was long under way: others have our part of the lane by now.
                continue
            request = self._requests.take(index)
            if request is not None:
                self._send(flight, request)

    def _send(self, flight: RequestFlight, request: Request) -> None:
        # Not the loop's time, which stands still for a whole round: records must show the order of events.
        flight.started_at = time.monotonic()
        self._recorder.batch.running[flight.index] = self._recorder.clock.utc()
        if flight.alone or flight.lane not in self._plain_lanes:
            request = self._completed(flight, request)
        flight.task = self._loop.create_task(self._attempt(flight, request))
        if flight.delayed:
            # Without a connection the task says at once that it is delayed again: the scheduler gets both together.
            self._tell(events.Written(flight.index))

    def _completed(self, flight: RequestFlight, request: Request) -> Request:
        """The request with what it has beside its body."""
        if flight.alone:
            request = msgspec.structs.replace(request, alone=True)
        if flight.lane in self._session_lanes:
            job = self._spec.job
            session = f"{job.name} {job.created_utc} {flight.index}"
            request = msgspec.structs.replace(request, session=session, attempt=flight.attempts)
        if flight.lane in self._log_lanes:
            flight.log = self._logs.open(flight)
            request = msgspec.structs.replace(request, log=flight.log)
        if self._spec.listener is not None:
            on_text = self._spec.listener.started(flight.index, flight.attempts)
            request = msgspec.structs.replace(request, on_text=on_text)
        if self._attachments is not None and marks_in(request.body):
            request = msgspec.structs.replace(request, attachments=self._attachments)
        if self._spec.tracer is not None and (traceparent := self._spec.tracer.started(flight, request)):
            request = msgspec.structs.replace(request, traceparent=traceparent)
        return request

    def _attempt_cancelled(self, flight: RequestFlight, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs none of its own code: this callback reports that, too."""
        if task.cancelled():
            self._tell(events.Cancelled(flight.index, flight.sent))

    async def _attempt(self, flight: RequestFlight, request: Request) -> None:
        index = flight.index
        flight.sent = True
        try:
            send = self._spec.lanes[flight.lane].adapter.send
            timeout_s = self._spec.timeout_s
            if self._timeouts:
                timeout_s = self._timeouts.get(flight.route, timeout_s)
            answer = flight.answer = await send(request, timeout_s, _Reports(self, flight))
            if self.prices.is_awaited_by(answer):
                await self.prices.wait()
            answer = flight.answer = self.prices.with_cost(answer, flight.route)
            if self._check is not None and answer.outcome.kind is None:
                answer = flight.answer = self._check(flight.route, request, answer)
        except asyncio.CancelledError as cancelled:
            if flight.task is None or flight.task.cancelling():
                flight.sent = not is_unsent(cancelled)
                raise
            message = "it raised CancelledError itself"
            answer = flight.answer = Answer(Outcome(Kind.INVALID, message=message))
        except BaseException as error:
            # An adapter never raises. One that does has a bug, which fails this unit alone. No signal raises here: the
            # loop has the handlers.
            answer = flight.answer = Answer(Outcome(Kind.CRASH, message=describe_exception(error)))
        if answer.outcome.exhausted:
            self._exhausted()
        if answer.complaint is None:
            self._tell(events.Finished(index, answer.outcome))
        else:
            unit, price = self._scheduler.out[index].unit, self.prices[flight.route]
            self._tell(unfit(unit, answer, answer.complaint, price))

    def accepted(self, flight: RequestFlight, hint: Hint | None, usage: Usage | None) -> None:
        """The provider accepted a request."""
        self._tell(events.RequestAccepted(flight.index, hint, usage))

    def delayed(self, flight: RequestFlight) -> None:
        """A request waits for a connection."""
        self._tell(events.Delayed(flight.index))

    def written(self, flight: RequestFlight) -> None:
        """A request that waited has just been written: that is when its attempt began, also for the records."""
        flight.started_at = time.monotonic()
        self._recorder.batch.running[flight.index] = self._recorder.clock.utc()
        self._tell(events.Written(flight.index))

    def cancel(self, index: int) -> None:
        """Cancel an attempt."""
        flight = self._flights[index]
        if flight.task is not None:
            if flight.task.cancel():
                flight.task.add_done_callback(partial(self._attempt_cancelled, flight))
            return
        self._recorder.intents.release(index, self._recorder.lanes[flight.lane])
        self.drop((index,))
        self._tell(events.Cancelled(index, sent=False))

    def give_up_unsent(self) -> None:
        """The run is to stop and its database is away: units that have started and wait for it are not sent."""
        for index in [flight.index for flight in self._flights.values() if flight.task is None]:
            self.cancel(index)

    async def close(self) -> None:
        """Cancel what is left, and wait for it."""
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._logs.close()
        await self.prices.close()

    # -- records --------------------------------------------------------------------------------------------------

    def requeued(self, index: int, change: UnitChange) -> None:
        """An attempt has ended, and its unit waits for another."""
        self._record(self._flights.pop(index), change)
        if self._spec.listener is not None:
            wait_s = max(0.0, (change.not_before_utc or 0.0) - self._recorder.clock.utc())
            stops = change.code in LANE_STOPPERS
            self._spec.listener.requeued(index, change.message or "", None if stops else wait_s)

    def ended(self, unit: Unit, status: Status, change: UnitChange) -> None:
        """A unit has ended, with an attempt or without one."""
        index, batch = unit.index, self._recorder.batch
        if self._late.requests:
            self._late.ended(index)
        if self._repairs.requests:
            self._repairs.ended(batch, index, status)
        flight = self._flights.pop(index, None)
        if flight is not None:
            self._record(flight, change)
            return
        if self._spec.tracer is not None:
            self._spec.tracer.unit_ended(index, change)
        self._recorder.intents.forget(index, self._recorder.lanes[unit.lane])
        self.drop((index,))
        batch.change(index, change)

    def _record(self, flight: RequestFlight, change: UnitChange) -> None:
        """Put an attempt, its answer and the new state of its unit into one batch."""
        recorder, answer, index = self._recorder, flight.answer, flight.index
        batch = recorder.batch
        if flight.log is not None:
            flight.log.close()
        if flight.task is None or uncounted(None if answer is None else answer.outcome, change):
            batch.change(index, change)  # Nothing was sent.
            self._trace(flight, None, change)
            return
        if answer is not None:
            flight.outcome, flight.rate_limit, flight.details = answer.outcome, answer.rate_limit, answer.note
            flight.usage = answer.outcome.usage
        cost_usd = self.prices.cost_of(flight, batch)
        if answer is not None and answer.complaint is not None:
            flight.outcome = Outcome(Kind.INVALID, message=answer.complaint.message)
            goes_on = change.status == Status.PENDING
            self._repairs.keep(batch, index, flight.attempts, answer, goes_on=goes_on)
        attempt = attempt_record(flight, index, flight.attempts, recorder.lanes[flight.lane], cost_usd)
        recorder.add_attempt(attempt, flight.route, change, flight.details)
        self._trace(flight, attempt, change)
        if answer is not None and change.status == Status.SUCCEEDED:
            batch.answers.append((index, answer.status, answer.request_id or None, answer.body))

    def _trace(self, flight: RequestFlight, attempt: Attempt | None, change: UnitChange) -> None:
        if self._spec.tracer is not None:
            self._spec.tracer.ended(flight, attempt, change)


class _Reports:
    """What the adapter reports of one attempt, for the sender (`adapter.Admitted`)."""

    __slots__ = ("_flight", "_sender")

    def __init__(self, sender: RequestSender, flight: RequestFlight) -> None:
        self._sender, self._flight = sender, flight

    def __call__(self, hint: Hint | None, usage: Usage | None) -> None:
        self._sender.accepted(self._flight, hint, usage)

    def delayed(self) -> None:
        self._sender.delayed(self._flight)

    def written(self) -> None:
        self._sender.written(self._flight)


def _next_units(lane: LaneState, n: int) -> list[int]:
    """The units of a lane's queue that start next."""
    following = sorted(lane.queue.ready)[:n]  # Faster than `nsmallest`, unless `n` is small.
    entries = [item[3] for item in following]
    return [entry.unit.index for entry in entries if entry.status is Status.PENDING and not entry.unit.late]
