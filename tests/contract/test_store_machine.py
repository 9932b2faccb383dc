"""Random runs, applied to every store at once: they show the same, and what the last changes of each unit made of it.

The machine plays the engine: it knows where each unit stands, fills a batch with moves that are possible from there,
commits now and then, and sometimes dies with a batch that was never committed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headway.stores.base import Store
from headway.stores.batch import Batch
from headway.stores.memory import MemoryStore
from headway.stores.records import Attempt, Change, Event, Route, State
from headway.stores.sqlite import SqliteStore

from .records import MODELS, new_job, new_unit, statuses, the_job, view

JOB, BYSTANDER = "run", "bystander"
OPEN = ("pending", "assigned", "running")
RESTING: tuple[State, ...] = ("complete", "stopped", "parked", "interrupted")

picks = st.integers(0, 1_000)
costs = st.sampled_from((0.0, 0.25, 1.5))
codes = st.sampled_from((None, "rate", "invalid"))


class Twin:
    """One store under test, with the numbers that are its own."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.job = store.add_job(new_job(JOB))
        self.routes = [store.add_route(self.job, Route("alpha", "openai", model)) for model in "mn"]
        self.lanes = [store.lane(f"key-{model}", f"alpha/{model}").id for model in "mn"]
        self.worker = 0
        self.batch = Batch(self.job)

    def begin(self, utc: float, only_failed: bool) -> None:
        self.worker = self.store.begin(self.job, {"at": utc}, "o", utc, only_failed=only_failed)
        self.new_batch()

    def new_batch(self) -> None:
        self.batch = Batch(self.job, self.worker)


class StoreMachine(RuleBasedStateMachine):
    """Two stores and what the engine believes of the units."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.twins = [Twin(SqliteStore(Path(self.folder.name) / "h.db")), Twin(MemoryStore())]
        self.at: list[str] = []
        self.utc = 1_000.0

    def teardown(self) -> None:
        for twin in self.twins:
            twin.store.close()
        self.folder.cleanup()

    @initialize(
        shape=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), min_size=2, max_size=6)
    )
    def take_in(self, shape: list[tuple[int, int, bool]]) -> None:
        for twin in self.twins:
            units = [
                new_unit(f"u{n}", twin.routes[route], priority=priority, serial=serial, chars=n)
                for n, (route, priority, serial) in enumerate(shape)
            ]
            twin.store.add_units(twin.job, 0, units)
            twin.store.seal(twin.job, len(units), MODELS, "d")
            other = twin.store.add_job(new_job(BYSTANDER))
            route = twin.store.add_route(other, Route("alpha", "openai", "m"))
            twin.store.add_units(other, 0, [new_unit(f"u{n}", route) for n in range(3)])
            twin.begin(self.utc, False)
        self.at = ["pending"] * len(shape)

    def tick(self) -> float:
        self.utc += 1.0
        return self.utc

    def pick(self, pick: int, *wanted: str) -> int | None:
        """One of the units that stand there, if there are any."""
        found = [index for index, status in enumerate(self.at) if status in wanted]
        return found[pick % len(found)] if found else None

    def change(self, index: int, lane: int | None, **more: Any) -> None:
        for twin in self.twins:
            twin.batch.change(index, Change(lane=None if lane is None else twin.lanes[lane], **more))
        self.at[index] = more["status"]

    # -- one unit --------------------------------------------------------------------------------------------

    @rule(pick=picks, lane=st.integers(0, 1))
    def intend(self, pick: int, lane: int) -> None:
        if (index := self.pick(pick, "pending")) is not None:
            for twin in self.twins:
                twin.batch.intend(index, twin.lanes[lane])
            self.at[index] = "assigned"

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        if (index := self.pick(pick, "assigned")) is not None:
            for twin in self.twins:
                twin.batch.release(index)
            self.at[index] = "pending"

    @rule(pick=picks)
    def send(self, pick: int) -> None:
        if (index := self.pick(pick, "assigned")) is not None:
            utc = self.tick()
            for twin in self.twins:
                twin.batch.running[index] = utc
            self.at[index] = "running"

    @rule(pick=picks, lane=st.integers(0, 1), status=st.sampled_from(("pending", "succeeded", "failed", "timed_out")),
          code=codes, cost=costs)  # fmt: skip
    def end_attempt(self, pick: int, lane: int, status: str, code: str | None, cost: float) -> None:
        if (index := self.pick(pick, "running")) is None:
            return
        utc = self.tick()
        message = code and f"{code} at {index}"
        limit = b'{"source":"body"}' if code == "rate" else None
        for twin in self.twins:
            twin.batch.attempts.append(
                Attempt(
                    index, 1, twin.lanes[lane], status, code, message, 200, f"r{utc}", utc - 0.5, utc, index, 2, None, cost,
                    (1.0, float(index), 1.0, 2.0), limit,
                )
            )  # fmt: skip
            use = twin.batch.use(twin.routes[lane])
            use.attempts += 1
            use.lane = twin.lanes[lane]
            if code == "rate":
                use.refused += 1
            elif code is None or cost:
                use.told(index, 2, cost or None, used=status == "succeeded")
            else:
                use.untold(None if index % 2 else 0.5)
            if status == "succeeded":
                twin.batch.answers.append((index, 200, f"r{utc}", b'{"at":%d}' % utc))
        done = None if status == "pending" else utc
        self.change(
            index, lane, status=status, tries=1, code=code, message=message, not_before_utc=utc + 9, finished_utc=done,
            started_utc=utc - 0.5, input_tokens=index, cost_usd=cost,
        )  # fmt: skip

    @rule(pick=picks, status=st.sampled_from(("cached", "skipped", "cancelled")), code=codes)
    def end_without_one(self, pick: int, status: str, code: str | None) -> None:
        wanted = OPEN if status == "cancelled" else ("pending",)
        if (index := self.pick(pick, *wanted)) is not None:
            self.change(index, None, status=status, code=code, finished_utc=self.tick())

    @rule(
        pick=picks,
        lane=st.integers(0, 1),
        status=st.sampled_from(("pending", "succeeded", "failed")),
        code=codes,
    )
    def whole_attempt(self, pick: int, lane: int, status: str, code: str | None) -> None:
        """Everything about a try in one batch, as it comes when answers are quicker than the disk."""
        self.intend(pick, lane)
        self.send(pick)
        self.end_attempt(pick, lane, status, code, 0.25)

    @rule(pick=picks, body=st.sampled_from((None, b"again")))
    def run_again(self, pick: int, body: bytes | None) -> None:
        """A unit that came to an end and is submitted once more: that end is on record by then."""
        self.commit()
        if (index := self.pick(pick, "failed", "timed_out", "skipped", "cancelled")) is not None:
            for twin in self.twins:
                twin.batch.reopen(index, body)
            self.at[index] = "pending"

    # -- the job ---------------------------------------------------------------------------------------------

    @rule(text=st.text(max_size=5), lane=st.integers(0, 1))
    def note(self, text: str, lane: int) -> None:
        utc = self.tick()
        for twin in self.twins:
            twin.batch.events.append(Event(utc, f"alpha/{lane}", "note", text))
            twin.batch.lanes[twin.lanes[lane]] = (b'{"at":%d}' % utc, b"{}", utc)
            twin.batch.count("refused")

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        for twin in self.twins:
            twin.batch.state = ("paused" if paused else "running", None)

    @rule(what=st.sampled_from(("pause", "limit")), value=st.integers(0, 9))
    def ask(self, what: str, value: int) -> None:
        utc = self.tick()
        for twin in self.twins:
            twin.store.ask(twin.job, what, {"value": value, "pair": (1, 2)}, utc)

    @rule(claim=st.sampled_from((b'{"use":0.5}', b'{"use":1.0}')))
    def claim(self, claim: bytes) -> None:
        utc = self.tick()
        for twin in self.twins:
            twin.batch.claims[twin.store.lane("a lane", "a/m").id] = (claim, utc)

    @rule(pick=picks)
    def carry_out(self, pick: int) -> None:
        for twin in self.twins:
            if asked := twin.store.asked(twin.job):
                twin.batch.done_commands.append((asked[pick % len(asked)].id, self.utc))

    # -- the run ---------------------------------------------------------------------------------------------

    @rule()
    def commit(self) -> None:
        for twin in self.twins:
            twin.store.commit(twin.batch)
            twin.new_batch()
            assert statuses(twin.store, twin.job) == self.at
            counts = the_job(twin.store, JOB).counts
            assert counts == {name: self.at.count(name) for name in counts}
        self.compare()

    @rule(only_failed=st.booleans())
    def crash(self, only_failed: bool) -> None:
        """What was not committed never happened; the next run finds what was."""
        first = self.twins[0]
        before = statuses(first.store, first.job)
        utc = self.tick()
        for twin in self.twins:
            twin.begin(utc, only_failed)
        stays = {"succeeded", "cached"} | ({"skipped", "cancelled"} if only_failed else set())
        self.at = [status if status in stays else "pending" for status in before]
        self.compare()

    @rule(state=st.sampled_from(RESTING), only_failed=st.booleans())
    def end_and_resume(self, state: State, only_failed: bool) -> None:
        self.commit()
        utc = self.tick()
        for twin in self.twins:
            unfinished = {"1": ("quota", "out of credit")} if state == "parked" else {}
            twin.store.end_run(twin.job, twin.worker, state, utc, unfinished)
            assert twin.store.unknown(twin.job) == []
        self.compare()
        self.crash(only_failed)

    @precondition(lambda self: self.utc > 1_010)
    @rule(back=st.integers(0, 20))
    def look_back(self, back: int) -> None:
        since = self.utc - back
        told = [
            [
                (twin.lanes.index(start.lane), start.at_utc, start.costs)
                for start in twin.store.starts_since(since)
            ]
            for twin in self.twins
        ]
        assert sorted(told[0]) == sorted(told[1])

    def compare(self) -> None:
        """Both show the same, and the job's counters are what its units say."""
        shown = [view(twin.store, (JOB, BYSTANDER)) for twin in self.twins]
        for part in shown[0]:
            assert shown[0][part] == shown[1][part], part
        for twin in self.twins:
            counts = the_job(twin.store, JOB).counts
            standing = statuses(twin.store, twin.job)
            assert counts == {status: standing.count(status) for status in counts}


def test_every_store_shows_the_same_after_the_same_run() -> None:
    few = settings(max_examples=100, stateful_step_count=40, derandomize=True, deadline=None, database=None)
    run_state_machine_as_test(StoreMachine, settings=few)
