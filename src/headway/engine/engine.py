"""Runs one job: gives events to the scheduler, acts on its commands, and records both.

The order is fixed. The intent to send is durable before the request is sent (`intents` records it ahead). An answer, the
new state of its unit and the job's counters are one transaction, and a unit counts as finished once that is committed.
The scheduler does not wait for the disk: a permit is free as soon as the answer is here. `request_sender` sends,
`recorder` records, `control` carries out what other terminals want.

Time is the loop's monotonic clock, so changes of the wall clock move nothing. UTC is only recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from headway.core import commands, events
from headway.core.model import Price, Unit
from headway.core.scheduler import Scheduler
from headway.core.snapshot import Snapshot, snapshot
from headway.core.unit_states import Status
from headway.engine.cache_keys import CacheUse
from headway.engine.cache_lookup import CacheLookup
from headway.engine.control import RunControl
from headway.engine.intents import AHEAD_S
from headway.engine.observer import AgentActivity, Observer, Recorded, View
from headway.engine.recorder import Recorder
from headway.engine.recording.attempt_log import AttemptLogs
from headway.engine.request_sender import RequestSender
from headway.engine.run_result import LaneStops, RunResult, state_after
from headway.engine.run_spec import RunSpec
from headway.engine.run_start import begin_events, count_unknown, end_text, restore_lanes, settings_of
from headway.engine.scheduler_driver import SchedulerDriver
from headway.engine.sharing.cluster_places import ClusterPlaces
from headway.engine.sharing.lane_sharing import LISTEN_S, LaneSharing
from headway.engine.sharing.memory_places import MemoryPlaces
from headway.engine.unit_control import Reopened, UnitControl
from headway.engine.units.held_units import HeldUnits
from headway.engine.units.unit_cursors import Fetched, StoreSource
from headway.errors import JobTaken
from headway.stores import records
from headway.stores.claims import ClaimNews
from headway.stores.journal import Journal
from headway.stores.records import State, UnitChange
from headway.stores.store import Store
from headway.stores.write_batch import GrownUnits, WriteBatch
from headway.stores.writer import Outage

#: How often observers get a view.
SHOW_S: Final = 0.5


class Engine(SchedulerDriver):
    """One run. `open_store` opens the job's store for the thread that calls it."""

    def __init__(
        self, open_store: Callable[[], Store], spec: RunSpec, observers: Sequence[Observer] = ()
    ) -> None:
        super().__init__()
        self._open_store = open_store
        self._spec = spec
        self._observers: Sequence[Observer] = list(observers)
        self._look: asyncio.TimerHandle | None = None
        self._stops = LaneStops()
        #: Whether commands and claims are being read from the store.
        self._polling = False
        self._interruptions = 0
        #: How often units that were added to the job went to the scheduler, and how often they are still on their way there.
        self._growths = self._adding = 0
        #: Batches to be committed that look for units to add although no unit has ended.
        self._looks = 0
        #: Requests that were in flight at the end and were cancelled.
        self._cancelled = 0
        #: Why the job itself lets nothing more start (`RunSpec.stops`).
        self._stopped = ""
        self._reopened: Reopened = lambda: lambda: None
        self._act[commands.Render] = self._render

    # -- the run ---------------------------------------------------------------------------------------------

    async def run(self) -> RunResult:
        """Work until the scheduler is done. What was committed stays committed, whatever happens."""
        self._loop = asyncio.get_running_loop()
        self._now = self._loop.time
        self._began_at = self._now()
        self._done: asyncio.Future[str] = self._loop.create_future()
        self._recorder = Recorder(
            self._open_store,
            committed=self._committed,
            failed=self._broke,
            snapshot=self._snapshot,
        )
        if self._spec.journal is not None:
            self._recorder.outage = Outage(Journal(self._spec.journal), partial(self._say, "database"))
        adapters = list({id(lane.adapter): lane.adapter for lane in self._spec.lanes.values()}.values())
        try:
            self._begin()
            if self._spec.cache is not None:
                await self._look_into_cache(self._spec.cache)
            for adapter in adapters:
                await adapter.open()
            state = await self._work()
            return RunResult(state, self._view())
        except JobTaken as error:
            raise self._recorder.with_losses(error, self._cancelled) from None
        finally:
            self._leave_process()
            for adapter in adapters:
                await adapter.close()
            self._recorder.store.close()

    def _begin(self) -> None:
        """Take the job over from the run before, and restore what its lanes knew."""
        spec, recorder, store = self._spec, self._recorder, self._recorder.store
        job, utc, now = spec.job, recorder.clock.utc(), self._now()
        self._only = only = _only(spec, store)
        unknown = recorder.begin(
            job.id, spec.settings, spec.out, only_failed=spec.only_failed, only=spec.only_units, stay=spec.stays_ended, taken_utc=spec.taken_utc,
            caching=spec.cache is not None or spec.grown_keys, grow=spec.grow,
        )  # fmt: skip
        grown = GrownUnits([], [])
        if spec.grow is not None:
            grown = store.grow(job.id, spec.grow)
            self._grow_after(_answered(grown.added))
        self._totals = store.job(job.name) or job
        self._source = StoreSource(
            store, job.id, spec.routes, serial=spec.serial, has_serial=job.serial > 0, only=only,
            leaders=spec.cache is not None, renders=spec.render is not None,
            grows=spec.grow is not None, exclusive=spec.exclusive, groups=spec.groups,
            held=HeldUnits.of(store, job.id, grown) if spec.grow_hands_out else None,
        )  # fmt: skip
        scheduler = Scheduler([lane.spec for lane in spec.lanes.values()], settings_of(spec, now), now)
        # The cap is the job's, not the run's.
        scheduler.budget.spent_usd = self._totals.cost_usd + self._totals.unsure_usd
        self._scheduler = scheduler
        self._join_process()
        restore_lanes(spec, recorder, scheduler, unknown, utc)
        self._sender = RequestSender(
            spec, recorder, scheduler, self._source, self.tell, self._over, self._exhausted,
            AttemptLogs(recorder, self._tell_activity),
        )  # fmt: skip
        self._act[commands.Start] = self._sender.start
        self._control = RunControl(
            recorder,
            scheduler,
            apply=self._apply,
            pause=self._sender.release_ahead,
            say=partial(self._say, "command"),
        )
        self._unit_control = UnitControl(recorder, scheduler, self._source, self.tell, self._reopened)
        self._control.add("cancel_units", self._unit_control.cancel)
        self._control.add("retry_units", self._unit_control.retry)
        self._control.add("grow", self._grow_on_command)
        #: The names of lanes by their number in the store.
        self._lane_names = {handle.id: handle.name for handle in recorder.lanes.values()}
        self._memory = MemoryPlaces(spec.lanes)
        for event in self._memory.look(scheduler.lanes):
            scheduler.lanes[event.lane].fit_into_memory(event.places)
            self.tell(event)
        self._cluster = ClusterPlaces(spec.lanes)
        for change in self._cluster.look():
            scheduler.lanes[change.lane].fit_into_cluster(change.places)
            self.tell(change)
        self._sharing = LaneSharing(job.id, spec.weight, recorder.lanes, recorder.clock)
        announced = recorder.new_batch()
        announced.events += begin_events(job, self._totals, utc)
        unknown = count_unknown(spec, scheduler, unknown, announced)
        self._sharing.announce(announced, scheduler, now)
        store.commit(announced)
        for act in announced.after_commit:
            act()
        self._totals = store.job(job.name) or job
        self._inform(lambda observer: observer.began(self._totals, unknown))
        self._events += self._share(self._sharing.read(store))  # For the first turn.
        if recorder.replayed:
            self._say("database", recorder.replayed)
        for what, remarks in (("agents", spec.agent_remarks), ("cost", spec.remarks)):
            for text in remarks:
                self._say(what, text)

    async def _look_into_cache(self, use: CacheUse) -> None:
        """Answer what the cache has, before anything is sent; in a thread, so that signals are handled."""
        lookup = CacheLookup(
            use, self._spec.job.id, self._totals.total, self._only, stopping=lambda: self._interruptions > 0,
            served=lambda page: self._from_thread(partial(self._served, page)),
            say=lambda text: self._from_thread(partial(self._say, "cache", text)),
        )  # fmt: skip
        await asyncio.to_thread(lookup.run, self._open_store)
        recorder, grow = self._recorder, self._spec.grow
        await recorder.in_thread(self._source.count)
        if grow is not None and (
            grown := (await recorder.in_thread(lambda store: store.grow(self._spec.job.id, grow))).added
        ):
            self._totals = msgspec.structs.replace(self._totals, total=self._totals.total + len(grown))
            if waiting := _waiting(grown):
                self._source.unfetched = self._source.add(waiting)
            if answered := _answered(grown):
                self._served(answered)
                self._grow_after(answered)

    def _served(self, indexes: list[int]) -> None:
        """These units have their answers from the cache, and that is committed."""
        counts = self._totals.counts
        counts = {**counts, "cached": counts["cached"] + len(indexes)}
        self._totals = msgspec.structs.replace(self._totals, counts=counts)
        self._inform(lambda observer: observer.ended(indexes))

    def _say(self, what: str, text: str) -> None:
        self._note(records.JobEvent(self._recorder.clock.utc(), None, what, text))

    def _note(self, event: records.JobEvent) -> None:
        self._recorder.batch.events.append(event)
        self._inform(lambda observer: observer.noted(event))

    def _found_prices(self, prices: dict[int, Price], remark: str) -> None:
        self._source.know(prices)
        if remark:
            self._say("cost", remark)
            self._recorder.commit()

    async def _work(self) -> State:
        """From the first turn to the last commit."""
        self._recorder.start()
        if self._spec.later_prices is not None:
            self._sender.prices.look_up(self._spec.later_prices, self._found_prices)
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
            for timer in (self._wake, self._look):
                if timer is not None:
                    timer.cancel()
            self._cancelled = self._sender.in_flight
            await self._sender.close()
            if not self._done.cancelled() and self._done.exception() is None:
                self._recorder.learn()
                self._recorder.finish_samples()
            await self._recorder.close()
        if self._recorder.failure is not None:
            raise self._recorder.failure
        lanes_alone = self._scheduler.mode == "run"
        state = state_after(reason, self._totals, cancelled=self._control.cancelled, lanes_alone=lanes_alone)
        if self._spec.first and reason == "complete" and self._totals.ended < self._totals.total:
            state = "interrupted"  # The other units are not run yet.
        if self._stopped and reason == "aborted" and not (self._interruptions or self._control.cancelled):
            state = "failed"
        unfinished = self._stops.unfinished(reason, self._spec.routes)

        def record_end(store: Store) -> State:
            ended = self._spec.end_state(store, self._totals, state)
            self._recorder.end_run(ended, unfinished, end_text(ended, self._totals))
            if self._scheduler.paused:
                store.submissions.keep(self._spec.job.id)
            return ended

        state = await self._recorder.in_thread(record_end)
        self._show()
        return state

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
        self._sender.look_ahead()
        self._recorder.commit()

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _committed(self, batch: WriteBatch) -> None:
        """Count what is durable, and tell observers which units ended."""
        job, more = self._totals, batch.totals()
        counts = {name: n + int(more.get(name, 0)) for name, n in job.counts.items()}
        used = {name: getattr(job, name) + more[name] for name in records.USED if name in more}
        self._totals = msgspec.structs.replace(job, counts=counts, total=job.total + len(batch.grown), **used)
        ended = [index for index, change in batch.units if change.finished_utc is not None] + batch.followed
        if batch.running:
            sent = list(batch.running)
            self._inform(lambda observer: observer.sent(sent))
        self._inform(lambda observer: observer.ended(ended))
        recorded = Recorded(batch.attempts, batch.waits, self._lane_names, batch.took_s)
        self._inform(lambda observer: observer.recorded(recorded))
        if batch.grown and not self._done.done():
            if waiting := _waiting(batch.grown):
                self._take_in(waiting)
            self._grow_after(batch.ungrown)
        if batch.known and self._source.held is not None and not self._done.done():
            self._hand_out(batch.known)
        self._stop_if_told()

    def _stop_if_told(self) -> None:
        """The job may want nothing more to start: a step of it has failed that must not."""
        if self._stopped or self._spec.stops is None or self._done.done():
            return
        self._stopped = self._spec.stops()
        if self._stopped:
            self.tell(events.Abort("drain"))

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

    def _hand_out(self, known: list[int]) -> None:
        """The turn of units of an earlier run has come."""
        self._adding += 1

        def brought(units: Sequence[Unit]) -> None:
            self._adding -= 1
            self._growths += 1
            self.tell(events.ExtraUnits(units))

        self._recorder.read(lambda store: self._source.hand_out(store, known), brought)

    def _broke(self, error: Exception) -> None:
        """Nothing more may be sent: the records cannot be kept, or a part has a bug."""
        self._recorder.failure = self._recorder.failure or error
        if not self._done.done():
            self._done.set_exception(error)

    # -- what the scheduler decides ---------------------------------------------------------------------------------

    def _start(self, command: commands.Start) -> None:
        self._sender.start(command)

    def _render(self, command: commands.Render) -> None:
        self._sender.make_request(command.unit)

    def _cancel(self, command: commands.CancelAttempt) -> None:
        self._sender.cancel(command.unit.index)

    def _requeue(self, command: commands.Requeue) -> None:
        wait_s = command.not_before - self._now()
        change = UnitChange(
            Status.PENDING,
            code=None if command.kind is None else str(command.kind),
            message=command.reason,
            not_before_utc=self._recorder.clock.utc() + wait_s if wait_s > 0.0 else None,
        )
        self._sender.requeued(command.unit.index, change)

    def _finish(self, command: commands.Finish) -> None:
        change = UnitChange(
            str(command.status),
            code=command.code or None,
            message=command.message or None,
            finished_utc=self._recorder.clock.utc(),
        )
        self._sender.ended(command.unit, command.status, change)
        if command.upstream is not None:
            self._recorder.batch.skipped.append((command.unit.index, command.upstream))

    def _notice(self, command: commands.Notice) -> None:
        self._stops.note(command)
        event, released = self._recorder.note(command)
        self._sender.drop(released)
        self._inform(lambda observer: observer.noted(event))

    def _fetch(self, command: commands.AnyFetch) -> None:
        if isinstance(command, commands.FetchSerial) and not self._source.has_serial:
            self._answers.append(events.SerialUnits(()))
            return
        read = partial(self._recorder.read, partial(self._source.fetch, command), self._fetched)
        if isinstance(command, commands.FetchSerial) and self._spec.grow is not None:
            self._recorder.after_commit(read)  # What has ended may add the next one.
            self._recorder.hurry()
        else:
            read()

    def _fetched(self, fetched: Fetched[events.Event]) -> None:
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
        if self._unit_control.is_busy:
            return  # Units may come back: another `Done` follows.
        if self._spec.grow is None or self._scheduler.mode != "run":
            self._end(command.reason)
        else:  # The last ends are not committed yet, and may add units; so may what another terminal has written.
            self._look_for_growth()
            self._recorder.after_commit(self._end_unless_grown, command.reason, self._growths)

    def _look_for_growth(self) -> None:
        """See with the present batch whether there are units to add, even if none has ended."""
        batch = self._recorder.batch
        if not batch.look:
            batch.look = True
            self._looks += 1
            self._recorder.after_commit(self._looked)
        self._recorder.hurry()

    def _grow_after(self, ended: list[int]) -> None:
        """See with the present batch what these units add, which ended when they were added."""
        if ended:
            self._recorder.batch.ended_before += ended
            self._look_for_growth()

    def _looked(self) -> None:
        self._looks -= 1

    def _grow_on_command(self, args: dict[str, Any], report: Callable[[str], None]) -> None:
        """Another terminal has written a value that may add units."""
        if self._spec.grow is not None:
            self._look_for_growth()
        report(str(args.get("text", "")) or "looks for units to add")

    def _end_unless_grown(self, reason: str, growths: int) -> None:
        if growths != self._growths or self._adding:
            return  # Another `Done` follows.
        if self._looks:
            self._recorder.after_commit(self._end_unless_grown, reason, growths)
            self._recorder.hurry()
        else:
            self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_result(reason)

    # -- the outside -----------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing is left but to record the end."""
        return self._done.done()

    def when_reopened(self, reopened: Reopened) -> None:
        """Call a function when units that had ended run again, and that is committed."""
        self._reopened = reopened

    def interrupt(self) -> None:
        """Once: nothing new starts, what is in flight finishes. Twice: that is cancelled, too."""
        self._interruptions += 1
        self.tell(events.Abort("drain" if self._interruptions == 1 else "cancel"))
        self._give_up_unsent()

    def _give_up_unsent(self) -> None:
        waits = self._recorder.is_away or self._sender.is_held
        if self._interruptions == 1 and not self._done.done() and waits:
            self._sender.give_up_unsent()

    def _listen(self) -> None:
        """Read the commands of other terminals and the claims of other jobs, one read at a time."""
        self._give_up_unsent()
        lease = self._recorder.store.lease
        if lease is not None and lease.lost is not None:
            self._broke(lease.lost)
            return
        self._sender.send_held()
        if not self._polling:
            self._polling = True
            claims = self._sharing.is_due(self._now())
            self._recorder.read(partial(self._poll, claims=claims), self._polled)

    def _poll(self, store: Store, *, claims: bool) -> tuple[list[records.ControlRequest], ClaimNews | None]:
        """In the reader's thread."""
        return store.new_commands(self._spec.job.id), self._sharing.read(store) if claims else None

    def _polled(self, polled: tuple[list[records.ControlRequest], ClaimNews | None]) -> None:
        """Carry out commands, and use what other jobs leave of the lanes."""
        self._polling = False
        if self._done.done():
            return
        requests, news = polled
        self._control.carry_out(requests)
        shares = [] if news is None else self._share(news)
        self.tell(*shares, *self._memory.look(self._scheduler.lanes), *self._cluster.look())
        self._recorder.commit()

    def _share(self, news: ClaimNews) -> list[events.Event]:
        """What changes because of others that use our lanes, too."""
        look = self._sharing.look(news, self._recorder.batch, self._scheduler, self._now())
        for event in look.notes:
            self._note(event)
        return look.events

    def _apply(self, event: events.Event) -> None:
        """Give an event to the scheduler at once: the next command may be about the same lane."""
        self.tell(event)
        self._turn()

    def _snapshot(self) -> Snapshot:
        return snapshot(self._scheduler, self._now(), self._source.remaining)

    def _show(self) -> None:
        view = self._view()
        if not self._done.done():
            self._recorder.sample(view.snapshot)
        self._inform(lambda observer: observer.moved(view))

    def _inform(self, tell: Callable[[Observer], None]) -> None:
        """Observers cannot disturb a run: one that raises (its terminal is gone) gets no more calls."""
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                self._observers = [other for other in self._observers if other is not observer]

    def _tell_activity(self, activity: AgentActivity) -> None:
        self._inform(lambda observer: observer.activity(activity))

    def _view(self) -> View:
        now, job = self._now(), self._totals
        return View(
            job.name, job.total, job.counts, job.attempts, job.refused, job.input_tokens, job.output_tokens, job.known_usd,
            now - self._began_at, self._recorder.clock.utc(), job.started_utc or self._recorder.clock.utc(), self._snapshot(),
            {key: lane.name for key, lane in self._recorder.lanes.items()}, self._recorder.clock.utc() - now, self._scheduler.paused,
            () if self._spec.parts is None else self._spec.parts(), self._spec.part_lanes,
        )  # fmt: skip


def _waiting(grown: list[tuple[int, records.NewUnit]]) -> list[tuple[int, records.NewUnit]]:
    """Those of the added units that have no answer."""
    return [(index, unit) for index, unit in grown if unit.source is None]


def _answered(grown: list[tuple[int, records.NewUnit]]) -> list[int]:
    """Those of the added units that were added with their answer, by index."""
    return [index for index, unit in grown if unit.source is not None]


def _only(spec: RunSpec, store: Store) -> frozenset[int] | None:
    """The units that this run is to run; None: all that have not succeeded."""
    if spec.grow_hands_out:
        return None  # `grow` says what runs.
    if spec.only_units:
        return frozenset(spec.only_units)
    only = frozenset(store.failed(spec.job.id)) if spec.only_failed else None
    if not spec.first:
        return only
    first = frozenset(range(spec.first))
    return first if only is None else first & only
