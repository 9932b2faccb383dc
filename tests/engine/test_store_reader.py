"""During a run, all queries run in the reader's thread and none on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.test_engine import Adapter, ended, engine_of, good, stuck, until

from headway.engine.sharing.lane_sharing import LISTEN_S
from headway.engine.store_reader import StoreReader
from headway.stores.claims import ClaimNews
from headway.stores.records import ControlRequest
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store

READS = ("next_of_route", "next_serial", "requests", "request", "open_commands")


class Shop:
    """The part of a store that a reader needs."""

    def __init__(self) -> None:
        self.closed = False

    def __enter__(self) -> Shop:
        return self

    def __exit__(self, *error: object) -> None:
        self.closed = True

    def set_patience(self, seconds: float) -> None: ...

    def abandon(self) -> None: ...


def reader_of(shop: Shop, failures: list[Exception]) -> StoreReader:
    loop = asyncio.get_running_loop()

    def call(act: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(act)

    def opened() -> Any:
        return shop

    return StoreReader(opened, call, failures.append)


async def test_reads_are_done_in_order_and_delivered_on_the_loop() -> None:
    shop, failures, delivered = Shop(), list[Exception](), list[tuple[int, str, str]]()
    reader = reader_of(shop, failures)
    reader.start()
    for number in range(5):
        reader.read(
            lambda store, number=number: (number, threading.current_thread().name),  # type: ignore[misc]
            lambda value: delivered.append((*value, threading.current_thread().name)),
        )
    await until(lambda: len(delivered) == 5)
    reader.close()
    assert delivered == [(number, "headway-reader", "MainThread") for number in range(5)]
    assert shop.closed
    assert failures == []


@pytest.mark.parametrize("where", ["query", "then"])
async def test_a_read_that_fails_is_reported_once(where: str) -> None:
    shop, failures = Shop(), list[Exception]()
    reader = reader_of(shop, failures)
    reader.start()

    def broken(value: object) -> None:
        raise OSError("the disk is gone")

    reader.read(broken if where == "query" else lambda store: None, broken)
    await until(lambda: bool(failures))
    reader.close()
    assert [str(error) for error in failures] == ["the disk is gone"]


class Watched(Store):
    """A store that records which thread calls which method."""

    def __init__(self) -> None:
        super().__init__(SqliteMemory())
        self.seen: list[tuple[str, str]] = []
        news = self.claims.news

        def watched_news(*arguments: Any) -> ClaimNews:
            self.seen.append(("claims", threading.current_thread().name))
            return news(*arguments)

        self.claims.news = watched_news  # type: ignore[method-assign, assignment]

    def __getattribute__(self, name: str) -> Any:
        if name in READS:
            self.seen.append((name, threading.current_thread().name))
        return super().__getattribute__(name)


async def test_nothing_is_read_on_the_loop_while_a_job_runs() -> None:
    store, adapter = Watched(), Adapter(stuck)
    engine, _ = engine_of(store, adapter, 300)
    running = asyncio.create_task(engine.run())
    await until(lambda: ("open_commands", "headway-reader") in store.seen)
    engine.interrupt()
    engine.interrupt()
    await asyncio.wait_for(running, 30)
    read_on_loop = [name for name, thread in store.seen if thread != "headway-reader"]
    assert read_on_loop == ["claims"]  # Before the first request.
    assert {"next_of_route", "requests", "open_commands", "claims"} <= {name for name, _ in store.seen}


async def test_a_job_of_many_batches_is_read_whole() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(good)
    engine, watcher = engine_of(store, adapter, 1000)
    assert (await ended(engine)).state == "complete"
    assert sorted(watcher.indexes) == list(range(1000))
    assert len(adapter.sent) == 1000


class Slow(Store):
    """A store that returns a command as open at every poll, as if the commit of its end were slow."""

    def __init__(self) -> None:
        super().__init__(SqliteMemory())
        self.polls = 0

    def open_commands(self, job: int) -> list[ControlRequest]:
        self.polls += 1
        return [ControlRequest(7, "resume", {})]


async def test_a_command_is_carried_out_once() -> None:
    store, adapter = Slow(), Adapter(stuck)
    engine, watcher = engine_of(store, adapter)
    running = asyncio.create_task(engine.run())
    await until(lambda: store.polls >= 3, 30 * LISTEN_S)
    engine.interrupt()
    engine.interrupt()
    await asyncio.wait_for(running, 30)
    assert watcher.noted_events.count("command") == 1
