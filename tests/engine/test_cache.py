"""The engine and the cache: what it looks up before it sends, and interruptions of that."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest
from tests.engine.test_engine import Adapter, Watcher, ended, good, until

from headway.core.model import Kind, LaneLimits, LaneSpec, Outcome
from headway.engine import cache_lookup as lookup
from headway.engine import run_spec
from headway.engine.cache_keys import CacheUse, ModelAddress
from headway.engine.cache_lookup import CacheLookup
from headway.engine.engine import Engine
from headway.providers.adapter import Answer, Request
from headway.stores.answer_cache import UnkeyedUnit
from headway.stores.records import NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


def engine_for(store: Store, adapter: Adapter, asked: list[int], name: str = "job") -> tuple[Engine, Watcher]:
    """A job with these requests, in a run that uses the cache for all of them."""
    number = store.add_job(NewJob(name, "batch", "in.jsonl", "digest", "", 0.0))
    route = store.add_route(number, StoredRoute("alpha", "openai", "gpt-x"))
    units = [
        NewUnit(f"u{n}", route, "/v1/chat/completions", b'{"n":%d}' % what) for n, what in enumerate(asked)
    ]
    store.add_units(number, 0, units)
    store.seal(number, len(asked), {}, "digest")
    return engine_again(store, adapter, name)


def engine_again(store: Store, adapter: Adapter, name: str = "job") -> tuple[Engine, Watcher]:
    job = store.job(name)
    assert job is not None
    [route] = store.routes(job.id)
    plan = run_spec.RunSpec(
        job=job,
        lanes={
            "lane": run_spec.RunLane(LaneSpec("lane", LaneLimits(max_concurrency=4)), "alpha/gpt-x", adapter)
        },
        routes={route.id: run_spec.UnitRoute("lane", None)},
        settings={},
        timeout_s=10.0,
        cache=CacheUse("all", {route.id: ModelAddress("openai", "http://x/v1", "gpt-x")}),
    )
    watcher = Watcher()
    return Engine(lambda: store, plan, [watcher]), watcher


async def test_followers_and_hits_are_reported_once_and_totals_never_jump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookup, "PAGE", 2)
    store, adapter = Store(SqliteMemory()), Adapter(good)
    engine, _ = engine_for(store, adapter, [0, 1, 0, 2, 1, 0, 0])
    assert (await ended(engine)).state == "complete"
    assert len(adapter.sent) == 3
    engine, watcher = engine_for(store, adapter, [0, 3, 0, 1, 3, 2, 4], "second")
    ending = await ended(engine)
    assert ending.state == "complete"
    assert sorted(watcher.indexes) == list(range(7))
    assert sorted(adapter.sent[3:]) == [b'{"n":3}', b'{"n":4}']
    assert (ending.view.counts["succeeded"], ending.view.counts["cached"]) == (2, 5)
    assert {view.total for view in watcher.views} == {7}
    assert [view.ended for view in watcher.views] == sorted(view.ended for view in watcher.views)
    assert ending.view.snapshot.remaining == 0


async def test_a_leader_that_is_retried_still_has_its_followers() -> None:
    troubles = [Answer(Outcome(Kind.CONCURRENCY, message="busy"), status=429)]

    async def busy_once(request: Request) -> Answer:
        return troubles.pop() if troubles else await good(request)

    store, adapter = Store(SqliteMemory()), Adapter(busy_once)
    engine, _ = engine_for(store, adapter, [0, 0, 0])
    ending = await ended(engine)
    assert (len(adapter.sent), ending.view.counts["cached"]) == (2, 2)


async def test_an_interruption_stops_the_lookup_and_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page that is being looked up is kept; the next run continues after it."""
    monkeypatch.setattr(lookup, "PAGE", 2)
    store, adapter = Store(SqliteMemory()), Adapter(good)
    engine, _ = engine_for(store, adapter, [0, 1, 2, 0, 1, 2])
    job = store.jobs()[0].id
    looked: list[int] = []
    first, go_on = threading.Event(), threading.Event()
    unkeyed = store.cache.unkeyed

    def slow(job: int, after: int, limit: int) -> list[UnkeyedUnit]:
        looked.append(after)
        if after == -1:
            first.set()
            assert go_on.wait(5)
        return unkeyed(job, after, limit)

    monkeypatch.setattr(store.cache, "unkeyed", slow)

    async def interrupt() -> None:
        await until(first.is_set)
        engine.interrupt()
        go_on.set()

    ending, _ = await asyncio.gather(ended(engine), interrupt())
    assert (ending.state, adapter.sent, looked) == ("interrupted", [], [-1])
    assert store.cache.keyed(job).upto == 1
    go_on.set()
    engine, _ = engine_again(store, adapter)
    assert (await ended(engine)).state == "complete"
    assert looked == [-1, 1, 3, 5]
    assert len(adapter.sent) == 3


def test_keys_are_made_again_if_the_server_or_the_mode_changed() -> None:
    store = Store(SqliteMemory())
    engine_for(store, Adapter(good), [0, 0])
    job = store.jobs()[0].id
    [route] = store.routes(job)
    said: list[str] = []

    def look(use: CacheUse) -> str:
        CacheLookup(use, job, 2, None, stopping=lambda: False, served=lambda page: None, say=said.append).run(
            lambda: store
        )
        return store.cache.keyed(job).basis

    here = CacheUse("all", {route.id: ModelAddress("openai", "http://x/v1", "gpt-x")})
    there = CacheUse("all", {route.id: ModelAddress("openai", "http://y/v1", "gpt-x")})
    bases = [look(here), look(there), look(msgspec.structs.replace(there, mode="deterministic"))]
    assert len(set(bases)) == 3
    assert store.cache.keyed(job).able == 0
    assert said[-2].startswith("0 of 2 requests may be cached; the others have neither")
    assert (
        said[:2]
        == ["0 answered without a call; 1 more is identical to another and will share its answer"] * 2
    )
