"""Runs one job: tells the scheduler what happened, records what it decides, and acts on it.

Order is everything here. The intent to send is durable before the send (`intents` has it on record ahead). An answer, its
unit's new state and the job's counters are one transaction; a unit counts as finished once that is committed. The
scheduler goes on meanwhile: a permit is free as soon as the answer is here, whatever the disk is doing.

Time is the loop's monotonic clock, so that a wall clock that jumps moves nothing; UTC is only written down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from headway.core import commands, events
from headway.core.lanes.lane import Lane
from headway.core.model import Hint, Kind, LaneLimits, Outcome, Settings, Usage
from headway.core.retry import unpaid
from headway.core.scheduler import Scheduler
from headway.core.snapshot import snapshot
from headway.core.unit_states import Status
from headway.engine.cache import Lookup
from headway.engine.endings import Ending, Stops, state_after
from headway.engine.flights import Desk, Flight, Rate, priced, record_of
from headway.engine.identity import CacheUse
from headway.engine.intents import Intents
from headway.engine.late_requests import LateRequests
from headway.engine.observer import Observer, View
from headway.engine.plan import Plan, PriceList
from headway.engine.recording import (
    AHEAD_S,
    LEARN_S,
    LINGER_S,
    Recalled,
    keep_attempt,
    lane_row,
    refill,
)
from headway.engine.repairs import Repairs, unfit
from headway.engine.sharing import Sharing
from headway.engine.source import Fetched, StoreSource, at_the_most, family_name, route_of
from headway.engine.store_reader import StoreReader
from headway.engine.turns import Turns
from headway.providers.adapter import Answer, Request, is_unsent
from headway.providers.error_messages import describe_exception
from headway.reason_text import notice_text
from headway.stores import records
from headway.stores.batch import Batch
from headway.stores.records import State, UnitChange
from headway.stores.store import Store
from headway.stores.writer import Writer

#: How often another terminal's commands are looked for (250 ms is promised), and observers told.
LISTEN_S: Final = 0.2
SHOW_S: Final = 0.5


class Engine(Turns):
    """One run. `open_store` opens the job's store for the thread that calls it."""

    def __init__(
        self, open_store: Callable[[], Store], plan: Plan, observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__()
        self._open_store = open_store
        self._plan = plan
        self._observers: Sequence[Observer] = list(observers)
        self._flights: dict[int, Flight] = {}
        #: Those of them that may go as soon as their intent is on the disk and their request is read.
        self._waiting: dict[int, Flight] = {}
        self._desks: dict[str, Desk] = {}
        self._repairs = Repairs()
        #: By a route's number.
        self._rates = {number: Rate(number, route.price) for number, route in plan.routes.items()}
        self._pricing: asyncio.Task[None] | None = None
        self._look: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._stops = Stops()
        #: Whether the store is being asked what others want, and the commands that were carried out.
        self._polling = False
        self._carried_out: set[int] = set()
        self._interruptions = 0
        self._cancelled = False
        self._failure: Exception | None = None
        self._worker = 0
        self._act[commands.Render] = self._make_request

    # -- the run ---------------------------------------------------------------------------------------------

    async def run(self) -> Ending:
        """Work until the scheduler says that it is done. Whatever happens, what was committed stays committed."""
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._began_at = self._now()
        self._store = self._open_store()
        self._done: asyncio.Future[str] = self._loop.create_future()
        adapters = list({id(lane.adapter): lane.adapter for lane in self._plan.lanes.values()}.values())
        try:
            self._begin()
            if self._plan.cache is not None:
                await self._look_into_cache(self._plan.cache)
            for adapter in adapters:
                await adapter.open()
            state = await self._work()
            return Ending(state, self._view())
        finally:
            for adapter in adapters:
                await adapter.close()
            self._store.close()

    def _begin(self) -> None:
        """Take the job over from whoever had it, and restore what its lanes knew."""
        plan, store = self._plan, self._store
        job, utc, now = plan.job, time.time(), self._now()
        unknown = store.unknown(job.id)
        self._only = only = frozenset(store.failed(job.id)) if plan.only_failed else None
        self._worker = store.begin(
            job.id, plan.settings, plan.out, utc, only_failed=plan.only_failed, taken_utc=plan.taken_utc
        )
        self._totals = store.job(job.name) or job
        self._source = StoreSource(
            store, job.id, plan.routes, serial=plan.serial, has_serial=job.serial > 0, only=only,
            leaders=plan.cache is not None, renders=plan.render is not None,
        )  # fmt: skip
        self._repairs.restore(store, job.id, self._source)
        self._scheduler = Scheduler([lane.spec for lane in plan.lanes.values()], self._settings(now), now)
        # The cap is the job's, not the run's.
        self._scheduler.budget.spent_usd = self._totals.cost_usd + self._totals.unsure_usd
        self._restore(unknown, now, utc)
        self._writer = Writer(
            self._open_store, self._new_batch, self._from_thread, self._committed, self._broke
        )
        self._reader = StoreReader(self._open_store, self._from_thread, self._broke)
        self._late = LateRequests(plan.render, self._reader, self._writer, self._source, self.tell)
        self._intents = Intents(
            job.id, self._reader, self._writer, self._desks, self._known_request, self._send_ready
        )
        announced = self._new_batch()
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
        """Answer what the cache has, before anything is sent; in a thread, so that signals are heard."""
        lookup = Lookup(
            use, self._plan.job.id, self._totals.total, self._only, stopping=lambda: self._interruptions > 0,
            served=lambda page: self._from_thread(partial(self._served, page)),
            say=lambda text: self._from_thread(partial(self._say, "cache", text)),
        )  # fmt: skip
        await asyncio.to_thread(lookup.run, self._open_store)
        self._source.count(self._store)

    def _served(self, indexes: list[int]) -> None:
        """These units have their answers from the cache, and that is committed."""
        counts = self._totals.counts
        counts = {**counts, "cached": counts["cached"] + len(indexes)}
        self._totals = msgspec.structs.replace(self._totals, counts=counts)
        self._inform(lambda observer: observer.ended(indexes))

    def _say(self, what: str, text: str) -> None:
        self._note(records.JobEvent(time.time(), None, what, text))

    def _note(self, event: records.JobEvent) -> None:
        self._writer.batch.events.append(event)
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

    def _restore(self, unknown: list[records.Unknown], now: float, utc: float) -> None:
        """What lanes learned in earlier runs, and the levels of their meters from the starts that are on record."""
        found: dict[int, Recalled] = {}
        for key, plan in self._plan.lanes.items():
            known = self._store.lane(key, plan.name)
            self._desks[key] = Desk(key, plan, known)
            found[known.id] = Recalled(self._scheduler.lanes[key], known.record, now, utc)
        refill(self._store, found, utc, unknown)
        for family, outputs in self._plan.outputs.items():
            self._lane_of(route_of(family)).estimator.saw(family, outputs)
        for family, lengths in self._plan.lengths.items():
            for size, took_s in lengths:
                self._lane_of(route_of(family)).order.recall(family, size, took_s)
        self._sharing = Sharing(self._plan.job.id, self._plan.weight, self._desks)

    def _lane_of(self, route: int) -> Lane:
        return self._scheduler.lanes[self._plan.routes[route].lane]

    def _count_unknown(self, unknown: list[records.Unknown], batch: Batch) -> list[records.Unknown]:
        """What died with its process may have cost something: budgets count it, and the record says so. The same units with
        what each may cost."""
        told = [msgspec.structs.replace(unit, most_usd=self._most_usd(unit)) for unit in unknown]
        for unit in told:
            batch.use(unit.route).untold(unit.most_usd)
            for budget in (self._scheduler.budget, *self._lane_of(unit.route).lane_budgets):
                budget.spent_usd += unit.most_usd or 0.0
        return told

    def _most_usd(self, unit: records.Unknown) -> float | None:
        price = self._plan.routes[unit.route].price
        open_output = self._lane_of(unit.route).estimator.reserve(family_name(unit.route, unit.family))
        return None if price is None else at_the_most(price, unit, open_output)

    async def _look_up_prices(self, price_list: PriceList) -> None:
        """What is asked for later than the first request: no request waits for it, only the record of its answer."""
        try:
            prices, remark = await price_list()
        except Exception as error:  # Not worth a run.
            prices, remark = {}, f"prices could not be looked up: {type(error).__name__}"
        finally:
            self._pricing = None
        for number, price in prices.items():
            self._rates[number].price = price
        self._source.know(prices)
        if remark:
            self._say("cost", remark)
            self._commit()

    async def _work(self) -> State:
        """The loop proper: from the first turn to the last commit."""
        self._writer.start()
        self._reader.start()
        if self._plan.later_prices is not None:
            self._pricing = self._loop.create_task(self._look_up_prices(self._plan.later_prices))
        tickers = [
            self._loop.create_task(self._every(interval_s, act))
            for interval_s, act in ((LISTEN_S, self._listen), (SHOW_S, self._show), (LEARN_S, self._learn))
        ]
        try:
            self._turn()
            reason = await self._done
        finally:
            for ticker in tickers:
                ticker.cancel()
            await self._settle()
            if (pricing := self._pricing) is not None:
                pricing.cancel()
                await asyncio.wait([pricing])
            if not self._done.cancelled() and self._done.exception() is None:
                self._learn()
            await asyncio.to_thread(self._reader.close)
            await asyncio.to_thread(self._writer.close)
        await asyncio.sleep(0)  # The last commits' callbacks.
        if self._failure is not None:
            raise self._failure
        lanes_alone = self._scheduler.mode == "run"
        state = state_after(reason, self._totals, cancelled=self._cancelled, lanes_alone=lanes_alone)
        unfinished = self._stops.unfinished(reason, self._plan.routes)
        self._store.end_run(self._plan.job.id, self._worker, state, time.time(), unfinished)
        self._show()
        return state

    async def _settle(self) -> None:
        """Nothing may be left in the air."""
        for timer in (self._wake, self._look, self._linger):
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
        self._intents.look_ahead(self._scheduler, self._now(), self._waiting)
        self._commit()

    def _commit(self) -> None:
        """Hand over to the writer: at once if somebody waits for it, otherwise when a few have come together."""
        if self._waiting or self._writer.batch.then:
            self._writer.kick(urgent=True)
        elif self._linger is None and self._writer.batch:
            self._linger = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._linger = None
        self._writer.kick()

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _new_batch(self) -> Batch:
        return Batch(self._plan.job.id, self._worker, caching=self._plan.cache is not None)

    def _committed(self, batch: Batch) -> None:
        """What was handed over is durable: count it, and send what waited for that."""
        job, more = self._totals, batch.totals()
        counts = {name: n + int(more.get(name, 0)) for name, n in job.counts.items()}
        used = {name: getattr(job, name) + more[name] for name in records.USED if name in more}
        self._totals = msgspec.structs.replace(job, counts=counts, **used)
        ended = [index for index, change in batch.units if change.finished_utc is not None] + batch.followed
        self._inform(lambda observer: observer.ended(ended))
        self._intents.durable(batch.intents)
        if self._done.done():
            return  # Too late: what waited for its intent stays pending, or unknown where the run broke off.
        for act in batch.then:
            act()
        self._send_ready(batch.intents)
        if self._writer.batch:
            self._commit()

    def _send_ready(self, indexes: Iterable[int]) -> None:
        """Send those of the units that wait for nothing any more: the intent is durable, and the request is read."""
        if self._done.done():
            return
        for index in indexes:
            flight = self._waiting.get(index)
            if flight is not None and (request := self._intents.ready(index, flight.lane)) is not None:
                del self._waiting[index]
                self._send(flight, request)

    def _broke(self, error: Exception) -> None:
        """The records cannot be kept: nothing more may be sent."""
        self._failure = self._failure or error
        if not self._done.done():
            self._done.set_exception(error)

    # -- what the scheduler decides ---------------------------------------------------------------------------------

    def _start(self, command: commands.Start) -> None:
        index = command.unit.index
        desk = self._desks[command.unit.lane]
        number = command.attempt + self._source.tries.get(index, 0)
        flight = Flight(
            index, number, desk, self._scheduler.out[index], self._rates[route_of(command.unit.family)]
        )
        flight.alone = command.alone
        self._flights[index] = flight
        request = self._intents.ready(index, desk)
        if request is None:
            self._waiting[index] = flight
        else:
            self._send(flight, request)

    def _send(self, flight: Flight, request: Request) -> None:
        # Not the loop's time, which stands still for a whole round: records are to show what came after what.
        flight.started_at = time.monotonic()
        self._writer.batch.running[flight.index] = time.time()
        if flight.alone:
            request = msgspec.structs.replace(request, alone=True)
        flight.task = self._loop.create_task(self._attempt(flight, request))
        flight.task.add_done_callback(partial(self._called_off, flight))

    def _called_off(self, flight: Flight, task: asyncio.Task[None]) -> None:
        """Also where the task never came to its first step: then nothing inside it could tell."""
        if task.cancelled():
            self.tell(events.Cancelled(flight.index, flight.sent))

    async def _attempt(self, flight: Flight, request: Request) -> None:
        index = flight.index

        def admitted(hint: Hint | None, usage: Usage | None) -> None:
            self.tell(events.RequestAccepted(index, hint, usage))

        flight.sent = True
        try:
            flight.answer = await flight.lane.send(request, self._plan.timeout_s, admitted)
            if self._pricing is not None and not unpaid(flight.answer.outcome):
                await _patiently(self._pricing)
            if flight.rate.price is not None:
                flight.answer = priced(flight.answer, flight.rate.price)
        except asyncio.CancelledError as called_off:
            if flight.task is None or flight.task.cancelling():
                flight.sent = not is_unsent(called_off)
                raise
            message = "it ended with a CancelledError of its own"
            flight.answer = Answer(Outcome(Kind.INVALID, message=message))
        except BaseException as error:
            # An adapter never raises; one that does has a bug, and that costs its unit alone. A signal raises nothing here:
            # the loop has its handlers.
            flight.answer = Answer(Outcome(Kind.CRASH, message=describe_exception(error)))
        complaint = flight.answer.complaint
        if complaint is None:
            self.tell(events.Finished(index, flight.answer.outcome))
        else:
            self.tell(unfit(self._scheduler.out[index].unit, flight.answer, complaint, flight.rate.price))

    def _make_request(self, command: commands.Render) -> None:
        self._late.make(command.unit)

    def _known_request(self, index: int) -> Request | None:
        """What a unit sends that does not send its own request."""
        return self._repairs.requests.get(index) or self._late.requests.get(index)

    def _cancel(self, command: commands.CancelAttempt) -> None:
        index = command.unit.index
        flight = self._flights[index]
        if flight.task is not None:
            flight.task.cancel()
            return
        self._waiting.pop(index, None)
        self._intents.release(index, flight.lane)
        self.tell(events.Cancelled(index, sent=False))

    def _requeue(self, command: commands.Requeue) -> None:
        index, now = command.unit.index, self._now()
        not_before_utc = self._utc(command.not_before) if command.not_before > now else None
        flight = self._flights.pop(index)
        kind = None if command.kind is None else str(command.kind)
        self._record(
            flight,
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
            self._repairs.ended(self._writer.batch, index, command.status)
        flight = self._flights.pop(index, None)
        if flight is None:
            self._intents.forget(index, self._desks[command.unit.lane])
            self._writer.batch.change(index, change)
        else:
            self._record(flight, change)

    def _record(self, flight: Flight, change: UnitChange) -> None:
        """An attempt has ended: its record, its answer and where its unit stands now, in one batch."""
        batch, answer, index = self._writer.batch, flight.answer, flight.index
        if flight.task is None:  # It was called off before it was sent.
            batch.change(index, change)
            return
        keep_attempt(batch, flight.rate.route, record_of(flight, batch), change)
        if answer is not None and change.status == Status.SUCCEEDED:
            batch.answers.append((index, answer.status, answer.request_id or None, answer.body))
        if answer is not None and answer.note:
            batch.notes.append((index, flight.number, answer.note))
        if answer is not None and answer.complaint is not None:
            goes_on = change.status == Status.PENDING
            self._repairs.keep(batch, index, flight.number, answer, goes_on=goes_on)

    def _notice(self, command: commands.Notice) -> None:
        desk = self._desks[command.lane]
        until_utc = None if command.until is None else self._utc(command.until)
        self._stops.heard(command)
        event = records.JobEvent(time.time(), desk.name, command.what, notice_text(command.reason), until_utc)
        self._writer.batch.events.append(event)
        if command.what in ("held", "stopped", "breaker_opened"):
            self._intents.call_off(self._waiting, [desk])
            self._learn()  # A hold must outlive the process, however soon that ends; and `headway lanes` is asked now.
        self._inform(lambda observer: observer.noted(event))

    def _fetch(self, command: commands.AnyFetch) -> None:
        if isinstance(command, commands.FetchSerial) and not self._source.has_serial:
            self._answers.append(events.SerialUnits(()))
            return
        self._reader.read(partial(self._source.fetch, command), self._fetched)

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
        if not self._done.done():
            self._done.set_result(command.reason)

    # -- the outside -----------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Once: nothing new starts, what is in flight finishes. Twice: that is cancelled, too."""
        self._interruptions += 1
        self.tell(events.Abort("drain" if self._interruptions == 1 else "cancel"))

    def _listen(self) -> None:
        """See what other terminals and other jobs want, one look at a time."""
        if not self._polling:
            self._polling = True
            self._reader.read(self._poll, self._polled)

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
                self._writer.batch.done_commands.append((asked.id, time.time()))
        self.tell(*self._share(claims))
        self._commit()

    def _share(self, claims: list[records.StoredClaim]) -> list[events.Share]:
        """What is new of what other jobs leave of the lanes that they work on, too."""
        news, told = self._sharing.look(claims, self._writer.batch, self._scheduler, self._now(), time.time())
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
            self._intents.call_off(self._waiting)
            self._writer.batch.state = ("paused", None)
        elif asked.what == "resume":
            self.tell(events.Resume())
            self._writer.batch.state = ("running", None)
        elif asked.what == "cancel":
            self._cancelled = True
            self.tell(events.Abort("cancel"))
        elif asked.what == "limits":
            return self._obey_limits(asked.args)
        elif asked.what == "reopen":
            return self._obey_reopen(asked.args)
        return asked.what

    def _named(self, name: str) -> list[str]:
        return [desk.key for desk in self._desks.values() if name in (desk.name, desk.key)]

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

    def _learn(self) -> None:
        """Write down what lanes know and how they look."""
        now, utc = self._now(), time.time()
        views = {view.key: view for view in snapshot(self._scheduler, now, self._source.remaining).lanes}
        for key, desk in self._desks.items():
            lane = self._scheduler.lanes[key]
            self._writer.batch.lanes[desk.id] = lane_row(lane, desk.record, views[key], now, utc)
        self._commit()

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
            now - self._began_at, time.time(), job.started_utc or time.time(), snapshot(self._scheduler, now, self._source.remaining),
            {key: desk.name for key, desk in self._desks.items()}, time.time() - now, self._scheduler.paused,
        )  # fmt: skip

    def _utc(self, at: float) -> float:
        return time.time() + (at - self._now())


async def _patiently(pricing: asyncio.Task[None]) -> None:
    """Wait for the price list with an answer in hand: who is called off meanwhile still has it."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait([pricing])
