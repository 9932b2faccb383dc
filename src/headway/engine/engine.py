"""Runs one job: tells the scheduler what happened, records what it decides, and acts on it.

Order is everything here. The intent to send is durable before the send (`intents` has it on record ahead). An answer, its
unit's new state and the job's counters are one transaction; a unit counts as finished once that is committed. The
scheduler goes on meanwhile: a permit is free as soon as the answer is here, whatever the disk is doing.

Time is the loop's monotonic clock, so that a wall clock that jumps moves nothing; UTC is only written down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from typing import Any, Final

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import Lane
from headway.core.model import Hint, Kind, LaneLimits, Outcome, Price, Settings, Usage
from headway.core.scheduler import Scheduler
from headway.core.snapshot import Snapshot, snapshot
from headway.core.unit_states import Status
from headway.engine.attempt_records import attempt_record
from headway.engine.cache_keys import CacheUse
from headway.engine.cache_lookup import CacheLookup
from headway.engine.flights import RequestFlight
from headway.engine.intents import AHEAD_S
from headway.engine.lane_records import oldest_start_utc, restore_levels
from headway.engine.lane_sharing import LaneSharing
from headway.engine.late_requests import LateRequests
from headway.engine.observer import Observer, View
from headway.engine.prices import RoutePrices
from headway.engine.recorder import Recorder
from headway.engine.repairs import Repairs, unfit
from headway.engine.requests import RequestsAhead
from headway.engine.run_result import LaneStops, RunResult, state_after
from headway.engine.run_spec import RunSpec
from headway.engine.scheduler_driver import SchedulerDriver
from headway.engine.source import Fetched, StoreSource, at_the_most, family_name, route_of
from headway.providers.adapter import Answer, Request, is_unsent
from headway.providers.error_messages import describe_exception
from headway.stores import records
from headway.stores.batch import Batch
from headway.stores.records import State, UnitChange
from headway.stores.store import Store

#: How often another terminal's commands are looked for (250 ms is promised), and observers told.
LISTEN_S: Final = 0.2
SHOW_S: Final = 0.5


class Engine(SchedulerDriver):
    """One run. `open_store` opens the job's store for the thread that calls it."""

    def __init__(
        self, open_store: Callable[[], Store], plan: RunSpec, observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__()
        self._open_store = open_store
        self._plan = plan
        self._observers: Sequence[Observer] = list(observers)
        self._flights: dict[int, RequestFlight] = {}
        self._repairs = Repairs()
        self._prices = RoutePrices(plan.routes)
        self._look: asyncio.TimerHandle | None = None
        self._stops = LaneStops()
        #: Whether the store is being asked what others want, and the commands that were carried out.
        self._polling = False
        self._carried_out: set[int] = set()
        self._interruptions = 0
        self._cancelled = False
        #: How often the scheduler was told of units that were added to the job, and how often it is still to be told.
        self._growths = self._adding = 0
        self._act[commands.Render] = self._make_request

    # -- the run ---------------------------------------------------------------------------------------------

    async def run(self) -> RunResult:
        """Work until the scheduler says that it is done. What was committed stays committed, whatever happens."""
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._began_at = self._now()
        self._done: asyncio.Future[str] = self._loop.create_future()
        self._recorder = Recorder(
            self._open_store, committed=self._committed, failed=self._broke, snapshot=self._snapshot
        )
        adapters = list({id(lane.adapter): lane.adapter for lane in self._plan.lanes.values()}.values())
        try:
            self._begin()
            if self._plan.cache is not None:
                await self._look_into_cache(self._plan.cache)
            for adapter in adapters:
                await adapter.open()
            state = await self._work()
            return RunResult(state, self._view())
        finally:
            for adapter in adapters:
                await adapter.close()
            self._recorder.store.close()

    def _begin(self) -> None:
        """Take the job over from the run before, and restore what its lanes knew."""
        plan, recorder, store = self._plan, self._recorder, self._recorder.store
        job, utc, now = plan.job, time.time(), self._now()
        self._only = only = frozenset(store.failed(job.id)) if plan.only_failed else None
        unknown = recorder.begin(
            job.id, plan.settings, plan.out, only_failed=plan.only_failed, taken_utc=plan.taken_utc,
            caching=plan.cache is not None, grow=plan.grow,
        )  # fmt: skip
        if plan.grow is not None:
            store.grow(job.id, plan.grow)
        self._totals = store.job(job.name) or job
        self._source = StoreSource(
            store, job.id, plan.routes, serial=plan.serial, has_serial=job.serial > 0, only=only,
            leaders=plan.cache is not None, renders=plan.render is not None,
            grows=plan.grow is not None,
        )  # fmt: skip
        self._repairs.restore(store, job.id, self._source)
        self._late = LateRequests(plan.render, recorder, self._source, self.tell)
        self._requests = RequestsAhead(recorder, self._other_request, self._send_ready)
        self._scheduler = Scheduler([lane.spec for lane in plan.lanes.values()], self._settings(now), now)
        # The cap is the job's, not the run's.
        self._scheduler.budget.spent_usd = self._totals.cost_usd + self._totals.unsure_usd
        self._restore_lanes(unknown, utc)
        announced = recorder.new_batch()
        unknown = self._count_unknown(unknown, announced)
        self._sharing.announce(announced, self._scheduler, now, utc)
        store.commit(announced)
        self._totals = store.job(job.name) or job
        self._inform(lambda observer: observer.began(self._totals, unknown))
        for share in self._share(self._sharing.claims(store, utc)):
            self._scheduler.lanes[share.lane].share(share.grant, now)
        for text in plan.remarks:
            self._say("cost", text)

    async def _look_into_cache(self, use: CacheUse) -> None:
        """Answer what the cache has, before anything is sent; in a thread, so that signals are handled."""
        lookup = CacheLookup(
            use, self._plan.job.id, self._totals.total, self._only, stopping=lambda: self._interruptions > 0,
            served=lambda page: self._from_thread(partial(self._served, page)),
            say=lambda text: self._from_thread(partial(self._say, "cache", text)),
        )  # fmt: skip
        await asyncio.to_thread(lookup.run, self._open_store)
        store, grow = self._recorder.store, self._plan.grow
        self._source.count(store)
        if grow is not None and (grown := store.grow(self._plan.job.id, grow)):
            self._source.unfetched = self._source.add(grown)
            self._totals = msgspec.structs.replace(self._totals, total=self._totals.total + len(grown))

    def _served(self, indexes: list[int]) -> None:
        """These units have their answers from the cache, and that is committed."""
        counts = self._totals.counts
        counts = {**counts, "cached": counts["cached"] + len(indexes)}
        self._totals = msgspec.structs.replace(self._totals, counts=counts)
        self._inform(lambda observer: observer.ended(indexes))

    def _say(self, what: str, text: str) -> None:
        self._note(records.JobEvent(time.time(), None, what, text))

    def _note(self, event: records.JobEvent) -> None:
        self._recorder.batch.events.append(event)
        self._inform(lambda observer: observer.noted(event))

    def _settings(self, now: float) -> Settings:
        plan = self._plan
        return Settings(
            concurrency=plan.concurrency,
            max_cost_usd=plan.max_cost_usd,
            deadline_at=now + plan.max_duration_s if plan.max_duration_s else None,
            max_hold_s=plan.max_hold_s,
            delay_s=plan.delay_s,
        )

    def _restore_lanes(self, unknown: list[records.Unknown], utc: float) -> None:
        """Restore what lanes learned in earlier runs, and the levels of their meters from the recorded starts."""
        recorder, lanes = self._recorder, self._scheduler.lanes
        restored = {}
        for key, plan in self._plan.lanes.items():
            handle = recorder.add_lane(key, plan.name, recorder.store.lane(key, plan.name))
            restored[handle.id] = recorder.restore(handle, lanes[key])
        starts = recorder.store.starts_since(oldest_start_utc(lanes.values(), utc))
        restore_levels(restored, starts, unknown)
        for family, outputs in self._plan.outputs.items():
            self._lane_of(route_of(family)).estimator.saw(family, outputs)
        for family, lengths in self._plan.lengths.items():
            for size, took_s in lengths:
                self._lane_of(route_of(family)).order.recall(family, size, took_s)
        self._sharing = LaneSharing(self._plan.job.id, self._plan.weight, recorder.lanes)

    def _lane_of(self, route: int) -> Lane:
        return self._scheduler.lanes[self._plan.routes[route].lane]

    def _count_unknown(self, unknown: list[records.Unknown], batch: Batch) -> list[records.Unknown]:
        """Add what units of unknown outcome may have cost to budgets and records; returns the units with that cost."""
        counted = [msgspec.structs.replace(unit, most_usd=self._most_usd(unit)) for unit in unknown]
        for unit in counted:
            batch.use(unit.route).untold(unit.most_usd)
            for budget in (self._scheduler.budget, *self._lane_of(unit.route).lane_budgets):
                budget.spent_usd += unit.most_usd or 0.0
        return counted

    def _most_usd(self, unit: records.Unknown) -> float | None:
        price = self._plan.routes[unit.route].price
        open_output = self._lane_of(unit.route).estimator.reserve(family_name(unit.route, unit.family))
        return None if price is None else at_the_most(price, unit, open_output)

    def _found_prices(self, prices: dict[int, Price], remark: str) -> None:
        self._source.know(prices)
        if remark:
            self._say("cost", remark)
            self._recorder.commit()

    async def _work(self) -> State:
        """From the first turn to the last commit."""
        self._recorder.start()
        if self._plan.later_prices is not None:
            self._prices.look_up(self._plan.later_prices, self._found_prices)
        tickers = [
            self._loop.create_task(self._every(interval_s, act))
            for interval_s, act in ((LISTEN_S, self._listen), (SHOW_S, self._show))
        ]
        try:
            self._turn()
            reason = await self._done
        finally:
            for ticker in tickers:
                ticker.cancel()
            await self._end_flights()
            await self._prices.close()
            if not self._done.cancelled() and self._done.exception() is None:
                self._recorder.learn()
            await self._recorder.close()
        if self._recorder.failure is not None:
            raise self._recorder.failure
        lanes_alone = self._scheduler.mode == "run"
        state = state_after(reason, self._totals, cancelled=self._cancelled, lanes_alone=lanes_alone)
        self._recorder.end_run(state, self._stops.unfinished(reason, self._plan.routes))
        self._show()
        return state

    async def _end_flights(self) -> None:
        """Cancel timers and attempts that are left."""
        for timer in (self._wake, self._look):
            if timer is not None:
                timer.cancel()
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _every(self, interval_s: float, act: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                act()
            except Exception as error:
                self._broke(error)
                return

    # -- turns --------------------------------------------------------------------------------------------------

    def _over(self) -> bool:
        return self._done.done()

    def _after_turn(self) -> None:
        self._look_ahead()
        self._recorder.commit()

    def _look_ahead(self) -> None:
        """Record the intents of what each lane is about to start, and read the requests."""
        scheduler, recorder, now = self._scheduler, self._recorder, self._now()
        if scheduler.mode != "run" or scheduler.paused:
            return
        for key, lane in scheduler.lanes.items():
            handle = recorder.lanes[key]
            if handle.orders != lane.queue.orders:  # Other units are next.
                handle.orders = lane.queue.orders
                self._requests.drop(recorder.intents.release_ahead(handle))
            if lane.queue.ready:
                next_units = partial(_next_units, lane)
                self._requests.read(recorder.intents.look_ahead(handle, next_units, now))

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _committed(self, batch: Batch) -> None:
        """Count what is durable, and tell observers which units ended."""
        job, more = self._totals, batch.totals()
        counts = {name: n + int(more.get(name, 0)) for name, n in job.counts.items()}
        used = {name: getattr(job, name) + more[name] for name in records.USED if name in more}
        self._totals = msgspec.structs.replace(job, counts=counts, total=job.total + len(batch.grown), **used)
        ended = [index for index, change in batch.units if change.finished_utc is not None] + batch.followed
        self._inform(lambda observer: observer.ended(ended))
        if batch.grown and not self._done.done():
            self._take_in(batch.grown)

    def _take_in(self, grown: list[tuple[int, records.NewUnit]]) -> None:
        """Units were added to the job: their lanes have more to fetch."""
        self._adding += 1
        lanes = self._source.lanes_of(grown)

        def added(unfetched: dict[str, int]) -> None:
            self._adding -= 1
            self._growths += 1
            self._source.unfetched = unfetched
            self.tell(*map(events.MoreWork, lanes))

        self._recorder.read(lambda store: self._source.add(grown), added)

    def _broke(self, error: Exception) -> None:
        """Nothing more may be sent: the records cannot be kept, or a part has a bug."""
        self._recorder.failure = self._recorder.failure or error
        if not self._done.done():
            self._done.set_exception(error)

    # -- what the scheduler decides ---------------------------------------------------------------------------------

    def _start(self, command: commands.Start) -> None:
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
        if self._done.done():
            return  # Too late: they stay pending, or unknown if the run broke off.
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
            self.tell(events.Cancelled(flight.index, flight.sent))

    async def _attempt(self, flight: RequestFlight, request: Request) -> None:
        index = flight.index

        def admitted(hint: Hint | None, usage: Usage | None) -> None:
            self.tell(events.RequestAccepted(index, hint, usage))

        flight.sent = True
        try:
            send = self._plan.lanes[flight.lane].adapter.send
            answer = flight.answer = await send(request, self._plan.timeout_s, admitted)
            if self._prices.is_awaited_by(answer):
                await self._prices.wait()
            answer = flight.answer = self._prices.with_cost(answer, flight.route)
        except asyncio.CancelledError as called_off:
            if flight.task is None or flight.task.cancelling():
                flight.sent = not is_unsent(called_off)
                raise
            message = "it ended with a CancelledError of its own"
            answer = flight.answer = Answer(Outcome(Kind.INVALID, message=message))
        except BaseException as error:
            # An adapter never raises. One that does has a bug, which fails this unit alone. No signal raises here: the
            # loop has the handlers.
            answer = flight.answer = Answer(Outcome(Kind.CRASH, message=describe_exception(error)))
        if answer.complaint is None:
            self.tell(events.Finished(index, answer.outcome))
        else:
            unit, price = self._scheduler.out[index].unit, self._prices[flight.route]
            self.tell(unfit(unit, answer, answer.complaint, price))

    def _make_request(self, command: commands.Render) -> None:
        self._late.make(command.unit)

    def _other_request(self, index: int) -> Request | None:
        """The request of a unit that does not send its own."""
        return self._repairs.requests.get(index) or self._late.requests.get(index)

    def _cancel(self, command: commands.CancelAttempt) -> None:
        index = command.unit.index
        flight = self._flights[index]
        if flight.task is not None:
            flight.task.cancel()
            return
        self._recorder.intents.release(index, self._recorder.lanes[flight.lane])
        self._requests.drop((index,))
        self.tell(events.Cancelled(index, sent=False))

    def _requeue(self, command: commands.Requeue) -> None:
        index, now = command.unit.index, self._now()
        not_before_utc = self._utc(command.not_before) if command.not_before > now else None
        kind = None if command.kind is None else str(command.kind)
        self._record(
            self._flights.pop(index),
            UnitChange(Status.PENDING, code=kind, message=command.reason, not_before_utc=not_before_utc),
        )

    def _finish(self, command: commands.Finish) -> None:
        index = command.unit.index
        change = UnitChange(
            str(command.status),
            code=command.code or None,
            message=command.message or None,
            finished_utc=time.time(),
        )
        self._late.ended(index)
        if self._repairs.requests:
            self._repairs.ended(self._recorder.batch, index, command.status)
        flight = self._flights.pop(index, None)
        if flight is None:
            self._recorder.intents.forget(index, self._recorder.lanes[command.unit.lane])
            self._requests.drop((index,))
            self._recorder.batch.change(index, change)
        else:
            self._record(flight, change)

    def _record(self, flight: RequestFlight, change: UnitChange) -> None:
        """An attempt has ended: its record, its answer and the new state of its unit go into one batch."""
        recorder, answer, index = self._recorder, flight.answer, flight.index
        batch = recorder.batch
        if flight.task is None:  # It was cancelled before it was sent.
            batch.change(index, change)
            return
        if answer is not None:
            flight.outcome, flight.rate_limit, flight.details = answer.outcome, answer.rate_limit, answer.note
            flight.usage = answer.outcome.usage
        cost_usd = self._prices.cost_of(flight, batch)
        if answer is not None and answer.complaint is not None:
            flight.outcome = Outcome(Kind.INVALID, message=answer.complaint.message)
            goes_on = change.status == Status.PENDING
            self._repairs.keep(batch, index, flight.attempts, answer, goes_on=goes_on)
        attempt = attempt_record(flight, index, flight.attempts, recorder.lanes[flight.lane], cost_usd)
        recorder.add_attempt(attempt, flight.route, change, flight.details)
        if answer is not None and change.status == Status.SUCCEEDED:
            batch.answers.append((index, answer.status, answer.request_id or None, answer.body))

    def _notice(self, command: commands.Notice) -> None:
        self._stops.heard(command)
        event, released = self._recorder.note(command)
        self._requests.drop(released)
        self._inform(lambda observer: observer.noted(event))

    def _fetch(self, command: commands.AnyFetch) -> None:
        if isinstance(command, commands.FetchSerial) and not self._source.has_serial:
            self._answers.append(events.SerialUnits(()))
            return
        read = partial(self._recorder.read, partial(self._source.fetch, command), self._fetched)
        if isinstance(command, commands.FetchSerial) and self._plan.grow is not None:
            self._recorder.after_commit(read)  # What has ended may add the next one.
            self._recorder.hurry()
        else:
            read()

    def _fetched(self, fetched: Fetched) -> None:
        self._source.unfetched = fetched.unfetched
        self.tell(fetched.event)

    def _set_wake(self, command: commands.Wake) -> None:
        super()._set_wake(command)
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if command.at - self._now() > AHEAD_S:
            self._look = self._loop.call_at(command.at - 0.8 * AHEAD_S, self._look_then_commit)

    def _look_then_commit(self) -> None:
        self._look = None
        if not self._done.done():
            self._after_turn()

    def _done_all(self, command: commands.Done) -> None:
        if self._plan.grow is None or self._scheduler.mode != "run":
            self._end(command.reason)
        else:  # The last ends are not committed yet, and may add units.
            self._recorder.after_commit(self._end_unless_grown, command.reason, self._growths)
            self._recorder.hurry()

    def _end_unless_grown(self, reason: str, growths: int) -> None:
        if growths == self._growths and not self._adding:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_result(reason)

    # -- the outside -----------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Once: nothing new starts, what is in flight finishes. Twice: that is cancelled, too."""
        self._interruptions += 1
        self.tell(events.Abort("drain" if self._interruptions == 1 else "cancel"))

    def _listen(self) -> None:
        """See what other terminals and other jobs want, one look at a time."""
        if not self._polling:
            self._polling = True
            self._recorder.read(self._poll, self._polled)

    def _poll(self, store: Store) -> tuple[list[records.ControlRequest], list[records.StoredClaim]]:
        """In the reader's thread."""
        return store.asked(self._plan.job.id), self._sharing.claims(store, time.time())

    def _polled(self, polled: tuple[list[records.ControlRequest], list[records.StoredClaim]]) -> None:
        """Carry out what other terminals ask for. A command stays open in the store until its batch is committed."""
        self._polling = False
        if self._done.done():
            return
        requests, claims = polled
        for asked in requests:
            if asked.id not in self._carried_out:
                self._carried_out.add(asked.id)
                self._obey(asked)
                self._recorder.batch.done_commands.append((asked.id, time.time()))
        self.tell(*self._share(claims))
        self._recorder.commit()

    def _share(self, claims: list[records.StoredClaim]) -> list[events.Share]:
        """What is new of what other jobs leave of the lanes that they work on, too."""
        news, told = self._sharing.look(
            claims, self._recorder.batch, self._scheduler, self._now(), time.time()
        )
        for event in told:
            self._note(event)
        return news

    def _obey(self, asked: records.ControlRequest) -> None:
        """Whatever it says: a wish that cannot be understood is told of, and disturbs nothing."""
        try:
            text = self._carry_out(asked)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            text = f"'{asked.what}' was not understood: {error}"
        self._say("command", text)

    def _carry_out(self, asked: records.ControlRequest) -> str:
        if asked.what == "pause":
            self.tell(events.Pause())
            for handle in self._recorder.lanes.values():
                self._requests.drop(self._recorder.intents.release_ahead(handle))
            self._recorder.batch.state = ("paused", None)
        elif asked.what == "resume":
            self.tell(events.Resume())
            self._recorder.batch.state = ("running", None)
        elif asked.what == "cancel":
            self._cancelled = True
            self.tell(events.Abort("cancel"))
        elif asked.what == "limits":
            return self._obey_limits(asked.args)
        elif asked.what == "reopen":
            return self._obey_reopen(asked.args)
        return asked.what

    def _named(self, name: str) -> list[str]:
        return [lane.key for lane in self._recorder.lanes.values() if name in (lane.name, lane.key)]

    def _obey_limits(self, args: dict[str, Any]) -> str:
        keys = self._named(args["lane"])
        for key in keys:
            known = self._scheduler.lanes[key].limits
            limits = msgspec.convert({**msgspec.structs.asdict(known), **args["limits"]}, LaneLimits)
            self.tell(events.SetLimits(key, limits))
            self._turn()  # At once: the next wish may be about the same lane.
        new = ", ".join(f"{name} {value:,.10g}" for name, value in args["limits"].items())
        return f"{args['lane']}: {new}" if keys else f"there is no lane '{args['lane']}'"

    def _obey_reopen(self, args: dict[str, Any]) -> str:
        keys = self._named(args["lane"])
        for key in keys:
            self.tell(events.ReopenLane(key))
        return f"{args['lane']} reopened" if keys else f"there is no lane '{args['lane']}'"

    def _snapshot(self) -> Snapshot:
        return snapshot(self._scheduler, self._now(), self._source.remaining)

    def _show(self) -> None:
        view = self._view()
        self._inform(lambda observer: observer.moved(view))

    def _inform(self, tell: Callable[[Observer], None]) -> None:
        """Observers cannot disturb a run: one that fails (its terminal is gone) is told nothing more."""
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                self._observers = [other for other in self._observers if other is not observer]

    def _view(self) -> View:
        now, job = self._now(), self._totals
        return View(
            job.name, job.total, job.counts, job.attempts, job.refused, job.input_tokens, job.output_tokens, job.known_usd,
            now - self._began_at, time.time(), job.started_utc or time.time(), self._snapshot(),
            {key: lane.name for key, lane in self._recorder.lanes.items()}, time.time() - now, self._scheduler.paused,
        )  # fmt: skip

    def _utc(self, at: float) -> float:
        return time.time() + (at - self._now())


def _next_units(lane: Lane, n: int) -> Iterator[int]:
    """The units of a lane's queue that start next."""
    entries = (item[3] for item in nsmallest(n, lane.queue.ready))
    ready = (entry.unit for entry in entries if entry.status is Status.PENDING)
    return (unit.index for unit in ready if not unit.late)
