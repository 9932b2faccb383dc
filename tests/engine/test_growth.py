"""Units that a kind of job adds while its job runs: after any end, when another terminal asks, and with answers that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from tests.engine.test_edges import LANES, PATH, echo, engine_of, row, statuses, store_of
from tests.engine.test_engine import PATIENCE_S, Adapter, Watcher, ended, until

from headway.core.model import Kind, Outcome
from headway.engine.observer import PartProgress
from headway.providers.adapter import Answer, Request
from headway.stores.records import NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


class Calls:
    """Adds what it is told to add, and notes for which units it was called."""

    def __init__(self, **units: list[str]) -> None:
        self.units = units
        self.calls: list[list[int]] = []

    def __call__(self, store: Store, ended: Sequence[int]) -> list[NewUnit]:
        self.calls.append(list(ended))
        route = store.routes(1)[0].id
        names = [name for index in ended for name in self.units.get(store.custom_id(1, index), [])]
        names += [value.decode() for value in store.values(1, "wanted", 0, 9)]
        return [row(name, route) for name in names]


async def refused(request: Request) -> Answer:
    return Answer(Outcome(Kind.INVALID, message="no"))


async def test_a_unit_that_failed_may_add_units() -> None:
    async def some(request: Request) -> Answer:
        return await (refused if request.body == b'"u0"' else echo)(request)

    store = store_of(())
    await ended(engine_of(store, Adapter(some), grow=Calls(u0=["instead"])))
    assert statuses(store) == ["failed", "succeeded"]


class Stopping(Calls):
    """Nothing more may start once a unit has ended."""

    def stops(self) -> str:
        return "u0 failed" if any(self.calls) else ""


async def test_a_job_may_let_nothing_more_start() -> None:
    """Units that wait for their lane stay pending, what is in flight finishes, and the job has failed."""
    gate = asyncio.Event()

    async def some(request: Request) -> Answer:
        if request.body == b'"u0"':
            return await refused(request)
        await gate.wait()
        return await echo(request)

    store, grow = store_of(*[()] * 8), Stopping(u0=[])
    adapter = Adapter(some)
    running = asyncio.create_task(engine_of(store, adapter, grow=grow, stops=grow.stops).run())
    await until(lambda: any(grow.calls))
    sent = len(adapter.sent)
    gate.set()
    assert (await asyncio.wait_for(running, PATIENCE_S)).state == "failed"
    assert sent <= len(adapter.sent) <= sent + 1
    assert statuses(store).count("pending") == 8 - len(adapter.sent) > 0
    assert statuses(store).count("succeeded") == len(adapter.sent) - 1


async def test_a_run_looks_for_units_at_its_beginning_and_before_its_end() -> None:
    store, grow = store_of(()), Calls()
    await ended(engine_of(store, Adapter(echo), grow=grow))
    assert grow.calls[0] == []
    assert [0] in grow.calls[1:]
    grow.calls.clear()
    await ended(engine_of(store, Adapter(echo), grow=grow))
    assert grow.calls[0] == [0]


class WritingAdapter(Adapter):
    """Another terminal writes a value while the run opens its adapters: after the look at its beginning."""

    def __init__(self, store: Store) -> None:
        super().__init__(echo)
        self._store = store

    async def open(self) -> None:
        self._store.set_value(1, "wanted", 0, b"more")


async def test_values_that_are_there_when_a_run_is_about_to_end_are_not_missed() -> None:
    """All units have ended before, so no end makes the run look."""
    store = store_of(())
    await ended(engine_of(store, Adapter(echo), grow=Calls()))
    await ended(engine_of(store, WritingAdapter(store), grow=Calls()))
    assert statuses(store) == ["succeeded", "succeeded"]


async def test_a_command_of_another_terminal_makes_a_run_look() -> None:
    gate = asyncio.Event()

    async def gated(request: Request) -> Answer:
        if request.body == b'"u0"':
            await gate.wait()
        return await echo(request)

    store, adapter = store_of(()), Adapter(gated)
    running = asyncio.create_task(engine_of(store, adapter, grow=Calls()).run())
    await until(lambda: adapter.sent == [b'"u0"'])
    store.set_value(1, "wanted", 0, b"more")
    command = store.add_command(1, "grow", {"text": "approved"}, 9e9)
    await until(lambda: adapter.sent == [b'"u0"', b'"more"'])
    assert store.is_done(command)
    assert "approved" in [event.text for event in store.events(1)]
    gate.set()
    assert (await asyncio.wait_for(running, PATIENCE_S)).state == "complete"


async def test_a_run_whose_units_have_all_ended_goes_on_with_what_a_value_adds() -> None:
    store, adapter = store_of(()), Adapter(echo)
    await ended(engine_of(store, adapter, grow=Calls()))
    store.set_value(1, "wanted", 0, b"later")
    await ended(engine_of(store, adapter, grow=Calls()))
    assert adapter.sent == [b'"u0"', b'"later"']


# -- units that are added with their answer ---------------------------------------------------------------------------


class Chain:
    """Adds one unit after another, up to `length`. Its key is its name; it is added with its answer if the cache has one."""

    def __init__(self, job: int, length: int) -> None:
        self.job, self.length = job, length

    def __call__(self, store: Store, ended: Sequence[int]) -> list[NewUnit]:
        route = store.routes(self.job)[0].id
        before = [int(store.custom_id(self.job, index).removeprefix("c")) for index in ended] or [-1]
        return [self._unit(store, route, f"c{n + 1}") for n in before if n + 1 < self.length]

    def _unit(self, store: Store, route: int, name: str) -> NewUnit:
        found = store.cache.find(name.encode())
        source = None if found is None else found[0]
        return NewUnit(name, route, PATH, msgspec.json.encode(name), 10, key=name.encode(), source=source)


def add_empty_job(store: Store, name: str) -> int:
    job = store.add_job(NewJob(name, "batch", "in.jsonl", "digest", "", 0.0))
    for lane in LANES:
        store.add_route(job, StoredRoute(lane, "openai", "m"))
    store.seal(job, 0, {}, "digest")
    return job


@pytest.mark.parametrize("page", [3, 1_000])
async def test_cached_answers_are_taken_when_units_are_added(
    monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """The first job sends all units of its chain. The second has a longer one, and sends only the rest."""
    monkeypatch.setattr("headway.stores.store.GROWTH_PAGE", page)
    store, adapter = Store(SqliteMemory()), Adapter(echo)
    for name, length, sent in (("first", 8, 8), ("second", 11, 3), ("third", 11, 0)):
        job, watcher = add_empty_job(store, name), Watcher()
        adapter.sent.clear()
        engine = engine_of(
            store,
            adapter,
            name=name,
            render=None,
            grow=Chain(job, length),
            observers=[watcher],
            grown_keys=True,
        )
        assert (await ended(engine)).state == "complete"
        assert len(adapter.sent) == sent
        record = store.job(name)
        assert record is not None
        assert (record.total, record.counts["succeeded"], record.counts["cached"]) == (
            length,
            sent,
            length - sent,
        )
        view = watcher.views[-1]
        assert (view.total, view.counts) == (record.total, record.counts)
        # What is added before the run begins is in the counts with which it begins.
        assert sorted({0, *watcher.indexes}) == list(range(length))
        assert len(watcher.indexes) == len(set(watcher.indexes))
        assert [result.body for result in store.results(job, -1, 99)] == [b'"c%d"' % n for n in range(length)]


async def test_without_keys_of_its_own_a_run_keeps_no_answers() -> None:
    store = Store(SqliteMemory())
    job = add_empty_job(store, "first")
    await ended(engine_of(store, Adapter(echo), name="first", render=None, grow=Chain(job, 2)))
    assert store.cache.find(b"c0") is None


# -- parts of a job -------------------------------------------------------------------------------------------------------


async def test_views_have_the_parts_of_a_job() -> None:
    store, watcher = store_of((), ()), Watcher()

    def parts() -> tuple[PartProgress, ...]:
        done = statuses(store).count("succeeded")
        return (PartProgress("all", "done" if done == 2 else "running", 2, done),)

    await ended(engine_of(store, Adapter(echo), observers=[watcher], parts=parts))
    assert watcher.views[-1].parts == (PartProgress("all", "done", 2, 2),)


async def test_views_of_other_jobs_have_no_parts() -> None:
    watcher = Watcher()
    await ended(engine_of(store_of(()), Adapter(echo), observers=[watcher]))
    assert watcher.views[-1].parts == ()
