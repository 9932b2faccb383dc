"""The engine with answers that do not fit the schema: the repair is recorded before it is sent, and the next run continues it."""

from __future__ import annotations

import asyncio

from tests.engine.test_engine import Adapter, ended, engine_of, until

from headway.core.model import Outcome, Usage
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store

AGAIN = b'{"again":true}'


def complaining(request: Request) -> Answer:
    asked = None if request.repairs else Request(request.path, AGAIN, request.repairs + 1)
    complaint = Complaint("answer.n: too small (minimum)", asked, 30)
    return Answer(Outcome(usage=Usage(10.0, 2.0)), 200, "req", b'{"n":0}', complaint=complaint)


async def twice_unfit(request: Request) -> Answer:
    return complaining(request)


async def fits_the_second_time(request: Request) -> Answer:
    return Answer(status=200, body=b'{"n":1}') if request.repairs else complaining(request)


async def test_a_unit_whose_second_answer_fits_succeeds() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(fits_the_second_time)
    engine, watcher = engine_of(store, adapter, 1)
    assert (await ended(engine)).state == "complete"
    assert adapter.sent == [b'{"n":0}', AGAIN]
    assert watcher.indexes == [0]
    told = store.attempts(1, 0)
    assert [(each.number, each.outcome, each.kind) for each in told] == [
        (1, "failed", "invalid"),
        (2, "succeeded", None),
    ]
    assert told[0].input_tokens == 10
    assert store.results(1, -1, 1)[0].body == b'{"n":1}'
    assert [each.answer for each in store.repairs_of(1, 0)] == [b'{"n":0}']


async def test_a_unit_whose_second_answer_does_not_fit_fails_with_the_reason() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(twice_unfit)
    engine, _ = engine_of(store, adapter, 1)
    assert (await ended(engine)).state == "failed"
    [result] = store.results(1, -1, 1)
    assert (result.status, result.code, result.message) == (
        "failed",
        "invalid",
        "answer.n: too small (minimum)",
    )
    assert result.body is None
    assert [each.request for each in store.repairs_of(1, 0)] == [AGAIN, None]
    assert store.open_repairs(1) == []


async def test_units_that_do_not_fit_do_not_stop_their_lane() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(twice_unfit)
    engine, watcher = engine_of(store, adapter, 40)
    assert (await ended(engine)).state == "failed"
    assert watcher.views[-1].counts["failed"] == 40
    assert "stopped" not in watcher.noted_events
    assert len(adapter.sent) == 80


async def test_an_open_repair_is_continued_by_the_next_run() -> None:
    store = Store(SqliteMemory())
    gate = asyncio.Event()

    async def slow_repair(request: Request) -> Answer:
        if request.repairs:
            await gate.wait()
        return complaining(request)

    adapter = Adapter(slow_repair)
    engine, _ = engine_of(store, adapter, 1)
    running = asyncio.create_task(engine.run())
    await until(lambda: AGAIN in adapter.sent)
    engine.interrupt()
    engine.interrupt()
    assert (await asyncio.wait_for(running, 5.0)).state == "interrupted"
    assert [each.request for each in store.open_repairs(1)] == [AGAIN]

    adapter = Adapter(fits_the_second_time)
    engine, _ = engine_of(store, adapter, 1)
    assert (await ended(engine)).state == "complete"
    assert adapter.sent == [AGAIN]


async def test_a_unit_that_failed_starts_over() -> None:
    store = Store(SqliteMemory())
    engine, _ = engine_of(store, Adapter(twice_unfit), 1)
    await ended(engine)
    adapter = Adapter(fits_the_second_time)
    engine, _ = engine_of(store, adapter, 1)
    assert (await ended(engine)).state == "complete"
    assert adapter.sent == [b'{"n":0}', AGAIN]
