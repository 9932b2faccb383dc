"""A Hypothesis machine that drives a scheduler as a malicious but lawful engine would.

Lawful: time never runs backwards, an attempt gets one answer, `Cancelled` only comes where `CancelAttempt` was
asked for, a lane is opened once and before its units come, a fetch gets one answer. Malicious: everything else, also
answers to fetches that come late and out of order. After each call `Books`
judges what came out and `invariants.check` what is inside; at the end everything is answered with success and
the clock follows the wake-ups, and then no unit may be left without a reason that can be named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headway.core import events
from headway.core.commands import AnyFetch, Command, Render
from headway.core.events import Event
from headway.core.gates import Gates
from headway.core.invariants import check
from headway.core.lanes.job_share import Grant
from headway.core.lanes.queueing import stock as stock_module
from headway.core.model import SUCCESS, Hint, Kind, LaneLimits, LaneSpec, Outcome, Unit, Usage
from headway.core.scheduler import Scheduler
from headway.core.scheduling import run_end as run_end_module
from headway.core.scheduling import supply as supply_module
from headway.core.unit_source import FETCHES, ListSource, answer

from . import strategies as make
from .books import Books
from .lanebook import Violation, require
from .strategies import Jump, Row, Scenario, Tuning

#: Calls in which the end must be reached once all goes well: far more than any run here needs.
PATIENCE = 3000
MOST_LANES = 5

numbers = st.integers(0, 40)
flush = make.pick([True, True, False])
bursts = st.one_of(
    st.just(SUCCESS),
    make.outcomes(None, Kind.CONCURRENCY, Kind.RATE),
    make.outcomes(Kind.TRANSIENT, Kind.OVERLOAD, Kind.TIMEOUT, Kind.CRASH, Kind.INVALID),
)


def tune(tuning: Tuning) -> pytest.MonkeyPatch:
    """Make the core read in small portions; undone at the end."""
    patch = pytest.MonkeyPatch()
    patch.setattr(stock_module, "BATCH", tuning.batch)
    patch.setattr(stock_module, "LOW", tuning.low)
    patch.setattr(supply_module, "MOST_BLOCKED", tuning.most_blocked)
    patch.setattr(run_end_module, "EXPIRY_BATCH", tuning.expiry_batch)
    return patch


class Run:
    """A scheduler, its books, and the story of what it was told and answered."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.now = scenario.start
        self.gates = Gates()
        keys = [spec.key for spec in scenario.specs]
        units = [make.unit_of(row, index, keys, self.gates) for index, row in enumerate(scenario.rows)]
        self.serial = [unit for unit, row in zip(units, scenario.rows, strict=True) if row.serial]
        self.others = [unit for unit, row in zip(units, scenario.rows, strict=True) if not row.serial]
        self.keys = keys
        self.batch: list[Event] = []
        self.story: list[tuple[tuple[Event, ...], float, list[Command]]] = []
        self.source = ListSource(self.others, serial=self.serial)
        #: Fetches that are under way, or their answers where they are read already.
        self.fetches: list[AnyFetch | Event] = []
        #: Requests that are being made.
        self.renders: list[Unit] = []
        self.books = Books(
            scenario.settings,
            {unit.index: unit for unit in units},
            frozenset(unit.index for unit in self.serial),
        )
        for spec in scenario.specs:
            self.books.open_lane(spec, self.now)
        self.scheduler = Scheduler(scenario.specs, scenario.settings, self.now)

    def step(self) -> None:
        """Hand over what has happened, and judge what comes back."""
        self._call()
        while self.scenario.reading.prompt and (self.fetches or self.renders):
            self.bring_all()
            self.render_all()
            self._call()

    def _call(self) -> None:
        happened, self.batch = tuple(self.batch), []
        told = self.scheduler.handle(happened, self.now)
        self.story.append((happened, self.now, list(told)))
        self.books.follow(happened, told, self.now)
        self._look_inside()
        for command in told:
            if isinstance(command, FETCHES):
                self.fetches.append(answer(self.source, command) if self.scenario.reading.early else command)
            elif isinstance(command, Render):
                self.renders.append(command.unit)

    def bring(self, number: int) -> None:
        """A fetch is answered."""
        fetch = self.fetches.pop(number % len(self.fetches))
        self.batch.append(answer(self.source, fetch) if isinstance(fetch, FETCHES) else fetch)

    def bring_all(self) -> None:
        while self.fetches:
            self.bring(0)

    def render(self, number: int, *, larger: bool = True, good: bool = True) -> None:
        """A request is made: it is larger than was thought, or just so; or it cannot be made."""
        unit = self.renders.pop(number % len(self.renders))
        more = 300.0 if larger else 0.0
        estimate = msgspec.structs.replace(
            unit.estimate,
            input_tokens=unit.estimate.input_tokens + more,
            cost_usd=unit.estimate.cost_usd + more / 1000.0,
        )
        made = msgspec.structs.replace(unit, late=False, estimate=estimate)
        self.batch.append(events.Rendered(unit.index, made if good else None, "it has no text"))

    def render_all(self) -> None:
        while self.renders:
            self.render(0)

    def _look_inside(self) -> None:
        try:
            check(self.scheduler)
        except AssertionError as problem:
            raise Violation("invariant", str(problem)) from problem
        kept, due = {entry.unit.index for entry in self.scheduler.in_memory()}, self.books.pending()
        require(kept >= due or self.books.expiring, "lost", f"units {sorted(due - kept)} are nowhere")
        require(kept <= due, "twice", f"units {sorted(kept - due)} should not be pending")
        require(set(self.scheduler.out) == set(self.books.flights), "lost", "other attempts are out")

    def add(self, row: Row) -> Unit:
        """One more unit of input."""
        unit = make.unit_of(row, len(self.books.units), self.keys, self.gates)
        self.source.add(unit)
        self.books.add(unit)
        return unit

    # -- all goes well from here on ---------------------------------------------------------------------

    def drain(self) -> None:
        """Answer everything, follow every wake-up, then reopen what is closed and do so again."""
        self.batch += [events.Resume(), events.InputClosed()]
        self.step()
        self._to_the_end()
        closed = [key for key, lane in self.books.lanes.items() if lane.closed]
        if closed:
            self.batch += [events.ReopenLane(key) for key in closed]
            self.step()
            self._to_the_end()

    def _to_the_end(self) -> None:
        books = self.books
        for _ in range(PATIENCE):
            if self.fetches or self.renders:
                self.bring_all()
                self.render_all()
            elif books.flights:
                self.now += 0.25
                self.batch = [_good_end(index, flight.asked) for index, flight in books.flights.items()]
            elif books.wake_at is not None:
                self.now = max(self.now, books.wake_at)
            else:
                break
            self.step()
        require(books.done, "liveness", f"not done after {PATIENCE} calls")

    def judge_end(self) -> None:
        """Nobody is left without a reason: the run was aborted, its budget or its time was up."""
        books = self.books
        left = books.units.keys() - books.ended.keys()
        late = books.mode == "deadline" and not left & (books.taken | books.drained)
        excused = books.mode in ("aborted", "budget") or late
        left = {index for index in left if not books.out_of_money(books.units[index])}
        require(excused or not left, "lost", f"units {sorted(left)} never ended: {books.reason}")


def _good_end(index: int, asked: bool) -> Event:
    return events.Cancelled(index) if asked else events.Finished(index, SUCCESS)


class SchedulerMachine(RuleBasedStateMachine):
    """Rules that post events. A batch goes to the scheduler when a rule says so or the clock moves."""

    run: Run

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.patch: pytest.MonkeyPatch | None = None

    @initialize(scenario=make.scenarios())
    def begin(self, scenario: Scenario) -> None:
        self.patch = tune(scenario.tuning)
        self.run = self.make_run(scenario)
        self._guarded(self.run.step)

    def make_run(self, scenario: Scenario) -> Run:
        return Run(scenario)

    def _guarded(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException:
            self.broken = True
            raise

    def post(self, event: Event, now: bool) -> None:
        self.run.batch.append(event)
        if now:
            self._guarded(self.run.step)

    def chosen(self, number: int) -> int:
        """One of the attempts in flight."""
        flights = sorted(self.run.books.flights)
        return flights[number % len(flights)]

    def lane(self, number: int) -> str:
        return self.run.keys[number % len(self.run.keys)]

    def has_flights(self) -> bool:
        return bool(self.run.books.flights)

    # -- time -------------------------------------------------------------------------------------------

    @rule(jump=make.jumps)
    def advance(self, jump: Jump) -> None:
        self.run.now = make.landing(jump, self.run.now, self.run.books.wake_at)
        self._guarded(self.run.step)

    @rule(times=st.integers(2, 6))
    def follow_wakes(self, times: int) -> None:
        for _ in range(times):
            self.advance("wake")

    # -- units ------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.run.fetches))
    @rule(number=numbers, now=flush)
    def answer_a_fetch(self, number: int, now: bool) -> None:
        self.run.bring(number)
        if now:
            self._guarded(self.run.step)

    @precondition(lambda self: bool(self.run.fetches))
    @rule(times=st.integers(1, 4))
    def answer_all_fetches(self, times: int) -> None:
        for _ in range(times):
            self.run.bring_all()
            self._guarded(self.run.step)

    @precondition(lambda self: bool(self.run.renders))
    @rule(number=numbers, larger=st.booleans(), good=make.pick([True, True, True, False]), now=flush)
    def make_a_request(self, number: int, larger: bool, good: bool, now: bool) -> None:
        self.run.render(number, larger=larger, good=good)
        if now:
            self._guarded(self.run.step)

    # -- answers ----------------------------------------------------------------------------------------

    @precondition(has_flights)
    @rule(number=numbers, usage=st.one_of(st.none(), make.usages), now=flush)
    def admit(self, number: int, usage: Usage | None, now: bool) -> None:
        self.post(events.RequestAccepted(self.chosen(number), None, usage), now)

    @precondition(has_flights)
    @rule(number=numbers, times=st.integers(1, 4), now=flush)
    def delay(self, number: int, times: int, now: bool) -> None:
        """Requests cannot be written yet."""
        for further in range(times):
            self.post(events.Delayed(self.chosen(number + further)), now=False)
        if now:
            self._guarded(self.run.step)

    @precondition(has_flights)
    @rule(number=numbers, now=flush)
    def write(self, number: int, now: bool) -> None:
        self.post(events.Written(self.chosen(number)), now)

    @precondition(has_flights)
    @rule(number=numbers, hint=make.hints(reporting=True), now=flush)
    def admit_with_reports(self, number: int, hint: Hint, now: bool) -> None:
        self.post(events.RequestAccepted(self.chosen(number), hint), now)

    @precondition(has_flights)
    @rule(number=numbers, usage=st.one_of(st.none(), make.usages), now=flush)
    def succeed(self, number: int, usage: Usage | None, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), Outcome(usage=usage)), now)

    @precondition(has_flights)
    @rule(number=numbers, outcome=make.outcomes(None, reporting=True), longer=st.booleans(), now=flush)
    def disappoint(self, number: int, outcome: Outcome, longer: bool, now: bool) -> None:
        """An answer that does not fit; asked for again, the unit is longer by what is said about it."""
        index = self.chosen(number)
        unit = self.run.books.flights[index].unit
        more = msgspec.structs.replace(unit.estimate, input_tokens=unit.estimate.input_tokens + 1.0)
        again = msgspec.structs.replace(unit, estimate=more) if longer else None
        self.post(events.AnswerRejected(index, outcome, "it does not fit", again), now)

    @precondition(has_flights)
    @rule(number=numbers, outcome=make.outcomes(Kind.RATE, Kind.CONCURRENCY, Kind.HOLD), now=flush)
    def throttle(self, number: int, outcome: Outcome, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), outcome), now)

    @precondition(has_flights)
    @rule(
        number=numbers,
        outcome=make.outcomes(Kind.TRANSIENT, Kind.OVERLOAD, Kind.TIMEOUT, Kind.CRASH),
        now=flush,
    )
    def fail(self, number: int, outcome: Outcome, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), outcome), now)

    @precondition(has_flights)
    @rule(number=numbers, outcome=make.outcomes(Kind.INVALID, Kind.TOO_LARGE), now=flush)
    def refuse_unit(self, number: int, outcome: Outcome, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), outcome), now)

    @precondition(has_flights)
    @rule(number=numbers, outcome=make.outcomes(Kind.QUOTA, Kind.AUTH), now=flush)
    def refuse_lane(self, number: int, outcome: Outcome, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), outcome), now)

    @precondition(has_flights)
    @rule(number=numbers, outcome=make.outcomes(None, *Kind, reporting=True), now=flush)
    def finish_with_reports(self, number: int, outcome: Outcome, now: bool) -> None:
        self.post(events.Finished(self.chosen(number), outcome), now)

    @rule(outcome=bursts)
    def finish_all(self, outcome: Outcome) -> None:
        """A burst: everything in flight gets the same answer at once."""
        self.run.batch += [events.Finished(index, outcome) for index in self.run.books.flights]
        self._guarded(self.run.step)

    @rule(outcome=bursts, times=st.integers(2, 8))
    def weather(self, outcome: Outcome, times: int) -> None:
        """For a while everything ends the same way, and the clock follows the wake-ups."""
        for _ in range(times):
            self.run.bring_all()
            self.finish_all(outcome)
            self.advance("wake")

    @rule(kind=make.pick([Kind.OVERLOAD, Kind.TRANSIENT, Kind.RATE]), times=st.integers(3, 8))
    def storm(self, kind: Kind, times: int) -> None:
        """A provider that is down: every attempt fails, and nothing is said about when to come back."""
        self.weather(Outcome(kind), times)

    @precondition(lambda self: any(flight.asked for flight in self.run.books.flights.values()))
    @rule(number=numbers, now=flush)
    def cancelled(self, number: int, now: bool) -> None:
        asked = sorted(index for index, flight in self.run.books.flights.items() if flight.asked)
        self.post(events.Cancelled(asked[number % len(asked)]), now)

    @rule(number=numbers, outcome=make.outcomes(None, *Kind), which=st.integers(0, 2), now=flush)
    def late(self, number: int, outcome: Outcome, which: int, now: bool) -> None:
        """News of an attempt that has been settled, or of one that never was."""
        grounded = [index for index in self.run.books.units if index not in self.run.books.flights]
        index = (grounded or [-1])[number % max(1, len(grounded))]
        late: tuple[Event, ...] = (
            events.Finished(index, outcome),
            events.RequestAccepted(index, outcome.hint),
            events.Cancelled(index),
        )
        self.post(late[which], now)

    # -- what people ask for ----------------------------------------------------------------------------

    @rule(number=numbers, now=flush)
    def reopen_lane(self, number: int, now: bool) -> None:
        self.post(events.ReopenLane(self.lane(number)), now)

    @precondition(lambda self: len(self.run.keys) < MOST_LANES)
    @rule(spec=make.specs("new"), new=st.lists(make.rows(), min_size=1, max_size=3))
    def open_lane(self, spec: LaneSpec, new: list[Row]) -> None:
        named = msgspec.structs.replace(spec, key=f"new {len(self.run.keys)}")
        self.post(events.OpenLane(named), True)
        self.run.keys.append(named.key)
        self.more_work(new, True)

    @rule(number=numbers, limits=make.limits(), again=st.booleans(), now=flush)
    def set_limits(self, number: int, limits: LaneLimits, again: bool, now: bool) -> None:
        """New limits for a lane, as such or by opening it a second time."""
        key = self.lane(number)
        event = events.OpenLane(LaneSpec(key, limits)) if again else events.SetLimits(key, limits)
        self.post(event, now)

    @rule(number=numbers, grant=make.grants(), now=flush)
    def share(self, number: int, grant: Grant, now: bool) -> None:
        """Other jobs come to a lane, change and go: less may start, and never more."""
        self.post(events.Share(self.lane(number), grant), now)

    @rule(new=st.lists(make.rows(), min_size=0, max_size=4), now=flush)
    def more_work(self, new: list[Row], now: bool) -> None:
        if not self.run.books.input_open and self.run.books.settings.input_open:
            return  # The input was closed: a lawful source gets nothing more.
        lanes = dict.fromkeys(self.run.add(row).lane for row in new)
        self.run.batch += [events.MoreWork(lane) for lane in lanes]
        if now:
            self._guarded(self.run.step)

    @rule(index=st.integers(0, 25), now=flush)
    def cancel_unit(self, index: int, now: bool) -> None:
        self.post(events.CancelUnit(index), now)

    @rule(
        event=make.pick([events.Resume(), events.Pause(), events.Resume(), events.InputClosed()]), now=flush
    )
    def ask_of_run(self, event: Event, now: bool) -> None:
        self.post(event, now)

    @precondition(lambda self: len(self.run.story) > 20)
    @rule(mode=make.pick(("drain", "cancel")), really=make.pick([False, False, False, True]))
    def abort(self, mode: Any, really: bool) -> None:
        if really:
            self.post(events.Abort(mode), True)

    # -- the end ----------------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if self.patch is not None and not self.broken:
                self.finish()
        finally:
            if self.patch is not None:
                self.patch.undo()

    def finish(self) -> None:
        self.run.drain()
        self.run.judge_end()
