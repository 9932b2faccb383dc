"""Sends the requests of a job's units, and records each attempt.

A unit is sent once the scheduler has started it, its intent is durable and its request is read. The answer goes to the
scheduler, which decides whether the unit ends or waits; then the attempt, its answer and the new state go into one batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import nsmallest

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import Lane
from headway.core.model import Hint, Kind, Outcome, Unit, Usage
from headway.core.scheduler import Scheduler
from headway.core.unit_states import Status
from headway.engine.attempt_records import attempt_record
from headway.engine.flights import RequestFlight
from headway.engine.prices import RoutePrices
from headway.engine.recorder import Recorder
from headway.engine.run_spec import RunSpec
from headway.engine.units.late_requests import LateRequests
from headway.engine.units.repairs import Repairs, unfit
from headway.engine.units.requests import RequestsAhead
from headway.engine.units.unit_cursors import StoreSource, route_of
from headway.providers.adapter import Answer, Request, is_unsent
from headway.providers.error_messages import describe_exception
from headway.stores.records import UnitChange


class RequestSender:
    """The attempts of one run. `tell` takes events for the scheduler; `is_over` says whether nothing may be sent any more."""

    def __init__(
        self,
        spec: RunSpec,
        recorder: Recorder,
        scheduler: Scheduler,
        source: StoreSource,
        tell: Callable[[events.Event], None],
        is_over: Callable[[], bool],
    ) -> None:
        self._spec, self._recorder, self._scheduler, self._source = spec, recorder, scheduler, source
        self._tell, self._is_over = tell, is_over
        self._loop = asyncio.get_running_loop()
        self._flights: dict[int, RequestFlight] = {}
        self.prices = RoutePrices(spec.routes)
        self._repairs = Repairs()
        self._repairs.restore(recorder.store, recorder.job, source)
        self._late = LateRequests(spec.render, recorder, source, tell)
        self._requests = RequestsAhead(recorder, self._other_request, self._send_ready)

    def _other_request(self, index: int) -> Request | None:
        """The request of a unit that does not send its own."""
        return self._repairs.requests.get(index) or self._late.requests.get(index)

    # -- before the start -----------------------------------------------------------------------------------------

    def make_request(self, unit: Unit) -> None:
        """Make the request of a unit that depends on the answers of others."""
        self._late.make(unit)

    def look_ahead(self) -> None:
        """Record the intents of what each lane is about to start, and read the requests."""
        scheduler, recorder, now = self._scheduler, self._recorder, self._loop.time()
        if scheduler.mode != "run" or scheduler.paused:
            return
        for key, lane in scheduler.lanes.items():
            handle = recorder.lanes[key]
            if handle.orders != lane.queue.orders:  # Other units are next.
                handle.orders = lane.queue.orders
                self.drop(recorder.intents.release_ahead(handle))
            if lane.queue.ready:
                next_units = partial(_next_units, lane)
                self._requests.read(recorder.intents.look_ahead(handle, next_units, now))

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
        flight = RequestFlight(index, unit.lane, route_of(unit.family), entry.estimate)
        self._flights[index] = flight
        flight.attempts = command.attempt + self._source.tries.get(index, 0)
        flight.alone = command.alone
        flight.charged = entry.charged
        self._requests.read((index,))
        intents = self._recorder.intents
        if not intents.start(index, self._recorder.lanes[unit.lane]):
            intents.waiting[index] = partial(self._send_ready, (index,))
        elif (request := self._requests.take(index)) is not None:
            self._send(flight, request)

    def _send_ready(self, indexes: Iterable[int]) -> None:
        """Send those of the units that have started, if the intent is durable and the request is read."""
        if self._is_over():
            return  # They stay pending, or unknown if the run broke off.
        waiting = self._recorder.intents.waiting
        for index in indexes:
            flight = self._flights.get(index)
            if flight is None or flight.task is not None or index in waiting:
                continue
            request = self._requests.take(index)
            if request is not None:
                self._send(flight, request)

    def _send(self, flight: RequestFlight, request: Request) -> None:
        # Not the loop's time, which stands still for a whole round: records must show the order of events.
        flight.started_at = time.monotonic()
        self._recorder.batch.running[flight.index] = time.time()
        if flight.alone:
            request = msgspec.structs.replace(request, alone=True)
        flight.task = self._loop.create_task(self._attempt(flight, request))
        flight.task.add_done_callback(partial(self._attempt_cancelled, flight))

    def _attempt_cancelled(self, flight: RequestFlight, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step runs none of its own code: this callback reports that, too."""
        if task.cancelled():
            self._tell(events.Cancelled(flight.index, flight.sent))

    async def _attempt(self, flight: RequestFlight, request: Request) -> None:
        index = flight.index

        def admitted(hint: Hint | None, usage: Usage | None) -> None:
            self._tell(events.RequestAccepted(index, hint, usage))

        flight.sent = True
        try:
            send = self._spec.lanes[flight.lane].adapter.send
            answer = flight.answer = await send(request, self._spec.timeout_s, admitted)
            if self.prices.is_awaited_by(answer):
                await self.prices.wait()
            answer = flight.answer = self.prices.with_cost(answer, flight.route)
        except asyncio.CancelledError as cancelled:
            if flight.task is None or flight.task.cancelling():
                flight.sent = not is_unsent(cancelled)
                raise
            message = "it ended with a CancelledError of its own"
            answer = flight.answer = Answer(Outcome(Kind.INVALID, message=message))
        except BaseException as error:
            # An adapter never raises. One that does has a bug, which fails this unit alone. No signal raises here: the
            # loop has the handlers.
            answer = flight.answer = Answer(Outcome(Kind.CRASH, message=describe_exception(error)))
        if answer.complaint is None:
            self._tell(events.Finished(index, answer.outcome))
        else:
            unit, price = self._scheduler.out[index].unit, self.prices[flight.route]
            self._tell(unfit(unit, answer, answer.complaint, price))

    def cancel(self, index: int) -> None:
        """Cancel an attempt."""
        flight = self._flights[index]
        if flight.task is not None:
            flight.task.cancel()
            return
        self._recorder.intents.release(index, self._recorder.lanes[flight.lane])
        self.drop((index,))
        self._tell(events.Cancelled(index, sent=False))

    async def close(self) -> None:
        """Cancel what is left, and wait for it."""
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.prices.close()

    # -- records --------------------------------------------------------------------------------------------------

    def requeued(self, index: int, change: UnitChange) -> None:
        """An attempt has ended, and its unit waits for another."""
        self._record(self._flights.pop(index), change)

    def ended(self, unit: Unit, status: Status, change: UnitChange) -> None:
        """A unit has ended, with an attempt or without one."""
        index, batch = unit.index, self._recorder.batch
        self._late.ended(index)
        if self._repairs.requests:
            self._repairs.ended(batch, index, status)
        flight = self._flights.pop(index, None)
        if flight is not None:
            self._record(flight, change)
            return
        self._recorder.intents.forget(index, self._recorder.lanes[unit.lane])
        self.drop((index,))
        batch.change(index, change)

    def _record(self, flight: RequestFlight, change: UnitChange) -> None:
        """Put an attempt, its answer and the new state of its unit into one batch."""
        recorder, answer, index = self._recorder, flight.answer, flight.index
        batch = recorder.batch
        if flight.task is None:  # It was cancelled before it was sent.
            batch.change(index, change)
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
        if answer is not None and change.status == Status.SUCCEEDED:
            batch.answers.append((index, answer.status, answer.request_id or None, answer.body))


def _next_units(lane: Lane, n: int) -> Iterator[int]:
    """The units of a lane's queue that start next."""
    entries = (item[3] for item in nsmallest(n, lane.queue.ready))
    ready = (entry.unit for entry in entries if entry.status is Status.PENDING)
    return (unit.index for unit in ready if not unit.late)
