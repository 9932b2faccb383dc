"""Random runs against a store and a simple model of it: after every commit both agree about each unit and the job.

The machine plays the engine. It knows the status of each unit, fills a batch with moves that are possible from there, commits
now and then, and sometimes crashes with a batch that was never committed. The model then returns to the last commit.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headway.core.model import Kind
from headway.core.reasons import AccountRefused, EndReason
from headway.stores.records import Attempt, JobEvent, State, StoredRoute, UnitChange, UsageTotals
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .records import MODELS, new_job, new_unit, statuses, the_job

JOB, BYSTANDER = "run", "bystander"
OPEN = ("pending", "assigned", "running")
ENDED_BADLY = ("failed", "timed_out", "skipped", "cancelled")
#: Moves of units in a run before it may end: otherwise most runs end before anything has happened.
MOVES = 8
RESTING: tuple[State, ...] = ("complete", "stopped", "parked", "interrupted")

picks = st.integers(0, 1_000)
costs = st.sampled_from((0.0, 0.25, 1.5))
codes = st.sampled_from((None, "rate", "invalid"))


@dataclass
class Unit:
    """The expected records of a unit."""

    route: int
    priority: int
    serial: bool
    request: bytes
    status: str = "pending"
    code: str | None = None
    message: str | None = None
    finished_utc: float | None = None
    input_tokens: int | None = None
    cost_usd: float | None = None
    answer: bytes | None = None
    #: When the present attempt was sent.
    sent_utc: float | None = None
    #: (outcome, kind, when it was sent, cost)
    attempts: list[tuple[str, str | None, float | None, float | None]] = field(default_factory=list)

    def reopen(self) -> None:
        self.status, self.code, self.message, self.finished_utc = "pending", None, None, None


@dataclass
class JobModel:
    """The expected records of the job."""

    units: list[Unit]
    state: State = "running"
    events: list[str] = field(default_factory=list)
    notes: int = 0
    #: By the place of the route.
    uses: dict[int, UsageTotals] = field(default_factory=dict)
    lane_records: dict[int, bytes] = field(default_factory=dict)
    commands: list[tuple[str, int]] = field(default_factory=list)

    def begin(self, only_failed: bool) -> None:
        """A run begins: attempts in flight are lost, units without success are pending again, and no pending unit has a reason."""
        reopened = ("failed", "timed_out") if only_failed else ENDED_BADLY
        for unit in self.units:
            if unit.status in ("assigned", "running"):
                sent_utc = unit.sent_utc if unit.status == "running" else None
                unit.attempts.append(("lost", "crash", sent_utc, None))
                unit.reopen()
            elif unit.status in (*reopened, "pending"):
                unit.reopen()
        self.state, self.commands = "running", []


class StoreMachine(RuleBasedStateMachine):
    """A store, and two models of it: with and without the changes that are not committed."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(SqliteMemory())
        self.job = self.store.add_job(new_job(JOB))
        self.routes = [
            self.store.add_route(self.job, StoredRoute("alpha", "openai", model)) for model in "mn"
        ]
        self.lanes = [self.store.lane(f"key-{model}", f"alpha/{model}").id for model in "mn"]
        self.worker = 0
        self.batch = WriteBatch(self.job)
        self.now = JobModel([])
        self.committed = JobModel([])
        self.utc = 1_000.0
        self.moves = 0

    @initialize(
        shape=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), min_size=2, max_size=6)
    )
    def take_in(self, shape: list[tuple[int, int, bool]]) -> None:
        units = [
            new_unit(f"u{n}", self.routes[route], priority=priority, serial=serial, chars=n)
            for n, (route, priority, serial) in enumerate(shape)
        ]
        self.store.add_units(self.job, 0, units)
        self.store.seal(self.job, len(units), MODELS, "d")
        other = self.store.add_job(new_job(BYSTANDER))
        route = self.store.add_route(other, StoredRoute("alpha", "openai", "m"))
        self.store.add_units(other, 0, [new_unit(f"u{n}", route) for n in range(3)])
        self.committed = JobModel(
            [
                Unit(route, priority, serial, unit.body)
                for (route, priority, serial), unit in zip(shape, units, strict=True)
            ]
        )
        self.begin(False)

    def begin(self, only_failed: bool) -> None:
        self.moves = 0
        self.worker = self.store.begin(self.job, {}, "o", self.tick(), only_failed=only_failed)
        self.batch = WriteBatch(self.job, self.worker)
        self.committed.begin(only_failed)
        self.now = copy.deepcopy(self.committed)

    def tick(self) -> float:
        self.utc += 1.0
        return self.utc

    def pick(self, pick: int, *wanted: str) -> int | None:
        """One of the units with such a status, if there is one."""
        self.moves += 1
        able = [index for index, unit in enumerate(self.now.units) if unit.status in wanted]
        return able[pick % len(able)] if able else None

    # -- one unit --------------------------------------------------------------------------------------------

    @rule(picked=st.lists(picks, min_size=1, max_size=3), lane=st.integers(0, 1), sent=st.booleans())
    def intend(self, picked: list[int], lane: int, sent: bool) -> None:
        for pick in picked:
            if (index := self.pick(pick, "pending")) is not None:
                self.batch.intend(index, self.lanes[lane])
                self.now.units[index].status = "assigned"
            if sent:
                self.send(pick)

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        if (index := self.pick(pick, "assigned")) is not None:
            self.batch.release(index)
            self.now.units[index].status = "pending"

    @rule(pick=picks)
    def send(self, pick: int) -> None:
        if (index := self.pick(pick, "assigned")) is not None:
            unit = self.now.units[index]
            unit.status, unit.sent_utc = "running", self.tick()
            self.batch.running[index] = self.utc

    @rule(pick=picks, lane=st.integers(0, 1), status=st.sampled_from(("pending", "succeeded", "failed", "timed_out")),
          code=codes, cost=costs)  # fmt: skip
    def end_attempt(self, pick: int, lane: int, status: str, code: str | None, cost: float) -> None:
        if (index := self.pick(pick, "running")) is None:
            return
        unit, utc = self.now.units[index], self.tick()
        message = code and f"{code} at {index}"
        limit = b'{"source":"body"}' if code == "rate" else None
        self.batch.attempts.append(
            Attempt(
                index, 1, self.lanes[lane], status, code, message, 200, f"r{utc}", utc - 0.5, utc, index, 2, None, cost,
                (1.0, float(index), 1.0, 2.0), limit,
            )
        )  # fmt: skip
        for use in (self.batch.use(self.routes[lane]), self.now.uses.setdefault(lane, UsageTotals())):
            add_use(use, index, code, cost, used=status == "succeeded")
            use.lane = self.lanes[lane]
        if status == "succeeded":
            unit.answer = b'{"at":%d}' % utc
            self.batch.answers.append((index, 200, f"r{utc}", unit.answer))
        done = None if status == "pending" else utc
        self.batch.change(
            index,
            UnitChange(
                status, 1, self.lanes[lane], code, message, utc + 9, utc - 0.5, done, index, cost_usd=cost
            ),
        )
        unit.attempts.append((status, code, utc - 0.5, cost))
        unit.status, unit.code, unit.message, unit.finished_utc = status, code, message, done
        unit.input_tokens, unit.cost_usd = index, (unit.cost_usd or 0.0) + cost

    @rule(pick=picks, status=st.sampled_from(("cached", "skipped", "cancelled")), code=codes)
    def end_without_one(self, pick: int, status: str, code: str | None) -> None:
        wanted = OPEN if status == "cancelled" else ("pending",)
        if (index := self.pick(pick, *wanted)) is not None:
            unit = self.now.units[index]
            self.batch.change(index, UnitChange(status, code=code, finished_utc=self.tick()))
            unit.status, unit.code, unit.message, unit.finished_utc = status, code, None, self.utc
            unit.input_tokens = None

    @rule(
        pick=picks,
        lane=st.integers(0, 1),
        status=st.sampled_from(("pending", "succeeded", "failed")),
        code=codes,
    )
    def whole_attempt(self, pick: int, lane: int, status: str, code: str | None) -> None:
        """All changes of an attempt in one batch, as when answers arrive faster than commits."""
        self.intend([pick], lane, True)
        self.end_attempt(pick, lane, status, code, 0.25)

    @rule(pick=picks, body=st.sampled_from((None, b"again")))
    def run_again(self, pick: int, body: bytes | None) -> None:
        """An ended unit is submitted again. Its end has been committed before."""
        self.commit()
        if (index := self.pick(pick, *ENDED_BADLY)) is not None:
            unit = self.now.units[index]
            self.batch.reopen(index, body)
            unit.reopen()
            unit.request = unit.request if body is None else body

    # -- the job ---------------------------------------------------------------------------------------------

    @rule(text=st.text(max_size=5), lane=st.integers(0, 1))
    def note(self, text: str, lane: int) -> None:
        record = b'{"at":%d}' % self.tick()
        self.batch.events.append(JobEvent(self.utc, f"alpha/{lane}", "note", text))
        self.batch.lanes[self.lanes[lane]] = (record, b"{}", self.utc)
        self.batch.count("refused")
        self.now.events.append(text)
        self.now.lane_records[lane] = record
        self.now.notes += 1

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.now.state = "paused" if paused else "running"
        self.batch.state = (self.now.state, None)

    @rule(what=st.sampled_from(("pause", "limit")), value=st.integers(0, 9))
    def ask(self, what: str, value: int) -> None:
        """Another process sends a command, which is recorded at once."""
        self.store.add_command(self.job, what, {"value": value}, self.tick())
        self.now.commands.append((what, value))
        self.committed.commands.append((what, value))

    @rule(pick=picks)
    def carry_out(self, pick: int) -> None:
        """The command leaves the model now, and the store with the next commit."""
        self.commit()
        if asked := self.store.open_commands(self.job):
            self.batch.done_commands.append((asked[pick % len(asked)].id, self.utc))
            del self.now.commands[pick % len(asked)]

    # -- the run ---------------------------------------------------------------------------------------------

    @rule()
    def commit(self) -> None:
        self.store.commit(self.batch)
        self.batch = WriteBatch(self.job, self.worker)
        self.committed = copy.deepcopy(self.now)
        self.compare()

    @precondition(lambda self: self.moves >= MOVES)
    @rule(only_failed=st.booleans())
    def crash(self, only_failed: bool) -> None:
        """Changes that were not committed are lost; the next run sees the committed ones."""
        self.begin(only_failed)
        self.compare()

    @precondition(lambda self: self.moves >= MOVES)
    @rule(state=st.sampled_from(RESTING), only_failed=st.booleans())
    def end_and_resume(self, state: State, only_failed: bool) -> None:
        self.commit()
        unfinished: dict[str, EndReason] = {}
        if state == "parked":
            unfinished["1"] = AccountRefused(Kind.QUOTA, "out of credit")
        self.store.end_run(self.job, self.worker, state, self.tick(), unfinished)
        self.committed.state = state
        for unit in self.committed.units:
            unit.status = "pending" if unit.status in OPEN else unit.status
        self.compare()
        assert the_job(self.store, JOB).unfinished == unfinished
        assert self.store.unknown_outcomes(self.job) == []
        self.crash(only_failed)

    @precondition(lambda self: self.utc > 1_010)
    @rule(back=st.integers(0, 20))
    def look_back(self, back: int) -> None:
        since = self.utc - back
        sent = [sent_utc for unit in self.committed.units for _, _, sent_utc, _ in unit.attempts]
        expected = sorted(utc for utc in sent if utc is not None and utc >= since)
        assert [start.at_utc for start in self.store.starts_since(since)] == expected

    # -- what is on record -------------------------------------------------------------------------------------

    def compare(self) -> None:
        """The store has what was committed, and nothing else."""
        expected, store, job = self.committed, self.store, the_job(self.store, JOB)
        for unit, result in zip(expected.units, store.results(self.job, -1, 1_000), strict=True):
            index = result.index
            assert (result.status, result.code, result.message) == (unit.status, unit.code, unit.message)
            assert (result.finished_utc, result.input_tokens) == (unit.finished_utc, unit.input_tokens)
            assert (result.cost_usd, result.body) == (unit.cost_usd, unit.answer)
            assert result.attempts == len(unit.attempts)
            tried = [
                (one.outcome, one.kind, one.started_utc, one.cost_usd)
                for one in store.attempts(self.job, index)
            ]
            assert tried == unit.attempts
            assert store.request(self.job, index)[1] == unit.request
        standing = [unit.status for unit in expected.units]
        assert job.counts == {name: standing.count(name) for name in job.counts}
        assert job.state == expected.state
        assert {
            self.routes.index(route): use for route, use in store.use_by_route(self.job).items()
        } == expected.uses
        assert job.attempts == sum(use.attempts for use in expected.uses.values())
        assert job.refused == expected.notes + sum(use.refused for use in expected.uses.values())
        assert [event.text for event in store.events(self.job)] == expected.events
        kept = {self.lanes.index(lane.id): lane.record for lane in store.lanes() if lane.record}
        assert kept == expected.lane_records
        assert [(one.what, one.args["value"]) for one in store.open_commands(self.job)] == expected.commands
        assert statuses(store, the_job(store, BYSTANDER).id) == ["pending"] * 3
        self.compare_cursors()

    def compare_cursors(self) -> None:
        """Each pending unit is returned by the cursor of its route and priority, in order, and by no other cursor."""
        units, store = self.committed.units, self.store
        waiting = [index for index, unit in enumerate(units) if unit.status == "pending"]
        for place, route in enumerate(self.routes):
            for priority in range(3):
                given = [each.index for each in store.next_of_route(self.job, route, priority, -1, 1_000)]
                key = (place, priority, False)
                assert given == [
                    n for n in waiting if (units[n].route, units[n].priority, units[n].serial) == key
                ]
        serial = [n for n in waiting if units[n].serial]
        assert [each.index for each in store.next_serial(self.job, -1, 1_000, every=False)] == serial
        assert [each.index for each in store.next_serial(self.job, -1, 1_000, every=True)] == waiting
        counts = {
            route: sum(units[n].route == place for n in waiting) for place, route in enumerate(self.routes)
        }
        assert store.pending(self.job) == {route: n for route, n in counts.items() if n}
        unended = [n for n, unit in enumerate(units) if unit.status in OPEN]
        assert store.first_unended(self.job) == (unended[0] if unended else None)
        lost = [n for n, unit in enumerate(units) if unit.status in ("assigned", "running")]
        assert [each.index for each in store.unknown_outcomes(self.job)] == lost


def add_use(use: UsageTotals, index: int, code: str | None, cost: float, *, used: bool) -> None:
    use.attempts += 1
    if code == "rate":
        use.refused += 1
    elif code is None or cost:
        use.add_reported(index, 2, cost or None, used=used)
    else:
        use.add_unreported(None if index % 2 else 0.5)


def test_a_store_shows_what_was_committed_after_any_run() -> None:
    few = settings(max_examples=100, stateful_step_count=40, derandomize=True, deadline=None, database=None)
    run_state_machine_as_test(StoreMachine, settings=few)
