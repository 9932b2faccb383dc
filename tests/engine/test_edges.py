"""Units that wait for others, in the engine: their requests are made from committed answers, and only those are sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.engine.test_engine import PATIENCE_S, Adapter, ended, good, until

from headway.core.model import Kind, LaneLimits, LaneSpec, Outcome, RetryPolicy
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.engine.observer import Observer
from headway.engine.run_spec import Render, RenderedRequest
from headway.errors import UsageError
from headway.providers.adapter import Answer, Request
from headway.stores.records import Edge, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import Grow

PATH = "/v1/chat/completions"
LANES = ("a", "b")


def row(name: str, route: int, *before: int) -> NewUnit:
    after = tuple(Edge(f"r{number}", number) for number in before)
    return NewUnit(name, route, PATH, b'"%s"' % name.encode(), chars=10, max_tokens=5, after=after)


def store_of(*edges: tuple[int, ...], lane: Callable[[int], int] = lambda index: 0) -> Store:
    """A job with one unit per tuple; the tuple has the units that it waits for. `lane` gives the lane of a unit."""
    store = Store(SqliteMemory())
    job = store.add_job(NewJob("job", "batch", "in.jsonl", "digest", "", 0.0))
    routes = [store.add_route(job, StoredRoute(name, "openai", "m")) for name in LANES]
    units = [row(f"u{index}", routes[lane(index)], *before) for index, before in enumerate(edges)]
    store.add_units(job, 0, units)
    store.seal(job, len(units), {}, "digest")
    return store


def joined(store: Store, index: int) -> RenderedRequest:
    """The row and the answers that it waits for, all of which must be recorded."""
    [(_, path, body)] = store.requests(1, [index])
    before = [store.answer(1, edge.before) for edge in store.edges(1, [index])]
    assert None not in before, f"an answer that unit {index} waits for is not committed"
    sent = b"[%s]" % b",".join([body, *(one for one in before if one is not None)])
    return RenderedRequest(path, sent, len(sent))


def engine_of(
    store: Store,
    adapter: Adapter,
    *,
    render: Render | None = joined,
    grow: Grow | None = None,
    observers: Sequence[Observer] = (),
    name: str = "job",
    **more: Any,
) -> Engine:
    job = store.job(name)
    assert job is not None
    retry = RetryPolicy(base_s=0.01, cap_s=0.01, max_attempts=2)
    specs = {name: LaneSpec(name, LaneLimits(max_concurrency=2), retry) for name in LANES}
    plan = run_spec.RunSpec(
        job=job,
        lanes={name: run_spec.RunLane(spec, name, adapter) for name, spec in specs.items()},
        routes={
            route.id: run_spec.UnitRoute(lane)
            for route, lane in zip(store.routes(job.id), LANES, strict=True)
        },
        settings={},
        timeout_s=10.0,
        render=render,
        grow=grow,
        **more,
    )
    return Engine(lambda: store, plan, observers)


async def echo(request: Request) -> Answer:
    return Answer(status=200, body=request.body)


def statuses(store: Store) -> list[str]:
    return [result.status for result in store.results(1, -1, 1000)]


async def test_a_request_is_made_from_the_answers_before_it() -> None:
    store, adapter = store_of((), (0,), (1, 0), (2,)), Adapter(echo)
    assert (await ended(engine_of(store, adapter))).state == "complete"
    assert adapter.sent == [
        b'"u0"',
        b'["u1","u0"]',
        b'["u2","u0",["u1","u0"]]',
        b'["u3",["u2","u0",["u1","u0"]]]',
    ]
    assert store.request(1, 1) == (PATH, b'["u1","u0"]')


async def test_units_wait_across_lanes() -> None:
    chain = [()] + [(index - 1,) for index in range(1, 40)]
    store, adapter = store_of(*chain, lane=lambda index: index % 2), Adapter(echo)
    assert (await ended(engine_of(store, adapter))).state == "complete"
    assert [body.count(b"u") for body in adapter.sent] == list(range(1, 41))


async def test_without_a_renderer_units_wait_and_send_their_own_requests() -> None:
    store, adapter = store_of((2,), (0,), ()), Adapter(echo)
    assert (await ended(engine_of(store, adapter, render=None))).state == "complete"
    assert adapter.sent == [b'"u2"', b'"u0"', b'"u1"']


async def test_a_request_that_is_refused_is_sent_again_as_it_was() -> None:
    refused: set[bytes] = set()

    async def refuse_once(request: Request) -> Answer:
        if request.body in refused:
            return await echo(request)
        refused.add(request.body)
        return Answer(Outcome(Kind.TRANSIENT, message="later"))

    store, adapter = store_of((), (0,)), Adapter(refuse_once)
    assert (await ended(engine_of(store, adapter))).state == "complete"
    assert adapter.sent == [b'"u0"'] * 2 + [b'["u1","u0"]'] * 2


async def test_a_failed_unit_is_retried_before_the_units_that_wait_for_it() -> None:
    good_names: set[bytes] = {b'"u0"'}

    async def some(request: Request) -> Answer:
        own = msgspec.json.decode(request.body)
        name = own if isinstance(own, str) else own[0]
        if b'"%s"' % name.encode() in good_names:
            return await echo(request)
        return Answer(Outcome(Kind.INVALID, message=f"no {name}"))

    store, adapter = store_of((), (0,), (1,), (2,)), Adapter(some)
    assert (await ended(engine_of(store, adapter))).state == "failed"
    assert statuses(store) == ["succeeded", "failed", "skipped", "skipped"]
    good_names |= {b'"u1"', b'"u2"', b'"u3"'}
    again = Adapter(some)
    assert (await ended(engine_of(store, again))).state == "complete"
    assert [body[:5] for body in again.sent] == [b'["u1"', b'["u2"', b'["u3"']


async def test_a_request_that_cannot_be_made_fails_its_unit() -> None:
    def impossible(store: Store, index: int) -> RenderedRequest:
        raise UsageError("the answer has no text")

    store = store_of((), (0,), (1,), ())
    assert (await ended(engine_of(store, Adapter(echo), render=impossible))).state == "failed"
    assert statuses(store) == ["succeeded", "failed", "skipped", "succeeded"]
    result = store.results(1, 0, 1)[0]
    assert (result.code, result.message) == ("invalid", "the answer has no text")


async def test_a_bug_in_a_renderer_ends_the_run() -> None:
    def broken(store: Store, index: int) -> RenderedRequest:
        raise KeyError("oops")

    with pytest.raises(KeyError, match="oops"):
        await ended(engine_of(store_of((), (0,)), Adapter(echo), render=broken))


async def test_an_interrupted_run_leaves_waiting_units_pending() -> None:
    gate = asyncio.Event()

    async def slow(request: Request) -> Answer:
        await gate.wait()
        return await echo(request)

    store, adapter = store_of((), (0,), (1,)), Adapter(slow)
    engine = engine_of(store, adapter)
    running = asyncio.create_task(engine.run())
    await until(lambda: len(adapter.sent) == 1)
    engine.interrupt()
    gate.set()
    assert (await asyncio.wait_for(running, PATIENCE_S)).state == "interrupted"
    assert statuses(store) == ["succeeded", "pending", "pending"]
    assert (await ended(engine_of(store, Adapter(echo)))).state == "complete"


async def test_a_job_without_edges_is_read_without_a_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("edges", "depended_on"):
        monkeypatch.setattr(Store, name, lambda *args: pytest.fail("no unit has an edge"))
    store = store_of(*[()] * 300)
    assert (await ended(engine_of(store, Adapter(good)))).state == "complete"


# -- units that are added --------------------------------------------------------------------------------------------


def growing(new: Callable[[int, int], list[NewUnit]]) -> Grow:
    """Every ended unit adds the units that `new` returns for its index and its route."""

    def grow(store: Store, ended: Sequence[int]) -> list[NewUnit]:
        routes = [route.id for route in store.routes(1)]
        return [unit for index in ended for unit in new(index, routes[index % 2])]

    return grow


async def test_units_are_added_until_none_adds_any() -> None:
    store = store_of(())
    grow = growing(
        lambda index, route: [row(f"u{2 * index + n}", route) for n in (1, 2)] if index < 100 else []
    )
    assert (await ended(engine_of(store, Adapter(echo), grow=grow))).state == "complete"
    names = {result.custom_id for result in store.results(1, -1, 1000)}
    assert len(names) == store.job("job").total  # type: ignore[union-attr]
    assert len(names) > 100
    assert set(statuses(store)) == {"succeeded"}


@pytest.mark.parametrize("slowest", [0, 1])
async def test_a_unit_that_is_added_may_wait_for_one_that_runs(slowest: int) -> None:
    """Unit 0 adds one that waits for unit 1, which was fetched when nothing waited for it."""
    gates = {b'"u0"': asyncio.Event(), b'"u1"': asyncio.Event()}
    gates[b'"u%d"' % (1 - slowest)].set()

    async def gated(request: Request) -> Answer:
        if request.body in gates:
            await gates[request.body].wait()
        return await echo(request)

    store = store_of((), ())
    grow = growing(lambda index, route: [row("late", route, 1)] if index == 0 else [])
    adapter = Adapter(gated)
    running = asyncio.create_task(engine_of(store, adapter, grow=grow).run())
    await until(lambda: "succeeded" in statuses(store))
    gates[b'"u%d"' % slowest].set()
    assert (await asyncio.wait_for(running, PATIENCE_S)).state == "complete"
    assert adapter.sent[-1] == b'["late","u1"]'


async def test_a_unit_that_is_added_behind_a_failure_is_skipped() -> None:
    async def some(request: Request) -> Answer:
        return Answer(Outcome(Kind.INVALID, message="no")) if request.body == b'"u1"' else await echo(request)

    store = store_of((), (0,))
    grow = growing(lambda index, route: [row("late", route, 1)] if index == 1 else [])
    assert (await ended(engine_of(store, Adapter(some), grow=grow, render=None))).state == "failed"
    assert statuses(store) == ["succeeded", "failed", "skipped"]
