"""Readings of the dashboard beside actions that take long."""

from __future__ import annotations

import asyncio
import threading

from headway.dashboard.records.record_reader import THREADS, RecordReader
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


async def test_no_reading_waits_for_actions() -> None:
    reader, go = RecordReader(lambda: Store(SqliteMemory())), threading.Event()
    try:
        async with asyncio.timeout(30.0), asyncio.TaskGroup() as group:
            for _ in range(2 * THREADS):
                group.create_task(reader.act(lambda store: go.wait(30.0)))
            await asyncio.sleep(0)  # The actions are in their queue.
            assert await reader.read(lambda store: store.jobs()) == []
            assert not go.is_set()
            go.set()
    finally:
        go.set()
        reader.close()
