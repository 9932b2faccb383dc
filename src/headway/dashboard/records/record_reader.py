"""Reads the records in threads: the loop never waits for a query.

A connection is used by one reading at a time, and for `LIFE_S` at most: then it is opened anew, so that a file that was replaced or migrated is
noticed. Connections that nobody uses are closed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from headway.dashboard.records.reader_threads import ReaderThreads
from headway.stores.store import Store

#: Readings at once: a slow one delays no other.
THREADS: Final = 4
#: How long a connection is used.
LIFE_S: Final = 20.0

Result = TypeVar("Result")


class _OpenStore(NamedTuple):
    store: Store
    opened_at: float


class RecordReader:
    """Reads through connections that `open_store` opens."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._threads = ReaderThreads(THREADS, "headway-ui")
        self._acting = ReaderThreads(THREADS, "headway-ui-act")
        self._idle: list[_OpenStore] = []
        self._lock = threading.Lock()
        self._is_closed = False

    async def read(self, work: Callable[[Store], Result]) -> Result:
        """The result of `work`, which gets the records."""
        return await self._threads.run(lambda: self._in_thread(work))

    async def act(self, work: Callable[[Store], Result]) -> Result:
        """The result of an action, which gets the records. It may start a command and wait for it: no reading waits for that."""
        return await self._acting.run(lambda: self._in_thread(work))

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which opens what it needs by itself."""
        return await self._threads.run(work)

    def close(self) -> None:
        """Close all connections. Readings that still run close theirs."""
        self._is_closed = True
        self._threads.close()
        self._acting.close()
        self._close_old(0.0)

    def _in_thread(self, work: Callable[[Store], Result]) -> Result:
        with self._connection() as store:
            return work(store)

    @contextmanager
    def _connection(self) -> Iterator[Store]:
        self._close_old(LIFE_S)
        with self._lock:
            one = self._idle.pop() if self._idle else None
        if one is None:
            one = _OpenStore(self._open_store(), time.monotonic())
        try:
            yield one.store
        except BaseException:
            one.store.close()  # It may be in the middle of something.
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(one)
                return
        one.store.close()

    def _close_old(self, most_s: float) -> None:
        """Close idle connections that are older than this."""
        now = time.monotonic()
        with self._lock:
            old = [one for one in self._idle if now - one.opened_at >= most_s]
            self._idle = [one for one in self._idle if now - one.opened_at < most_s]
        for one in old:
            one.store.close()
