"""One thread that queries the store during a run, so that no query runs on the event loop.

Reads are done in the order in which they were requested, and each result is handed to the loop. The thread has a store
of its own; it sees what is committed, and nothing of a batch that is still open. A read that fails stops the reader for
good: the engine is told once, and ends.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from headway.errors import StoreAway
from headway.stores.store import Store
from headway.stores.writer import Call

Value = TypeVar("Value")


class StoreReader:
    """Owns the store that it reads from. All methods are for the engine's thread."""

    def __init__(
        self, open_store: Callable[[], Store], call: Call, failed: Callable[[Exception], None]
    ) -> None:
        self._open = open_store
        self._call = call
        self._failed = failed
        self._closing = False
        self._store: Store | None = None
        self._requests: SimpleQueue[tuple[Callable[[Store], Any], Callable[[Any], None]] | None] = (
            SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="headway-reader", daemon=True)

    def start(self) -> None:
        """Begin; the store is opened in the thread that uses it."""
        self._thread.start()

    def read(self, query: Callable[[Store], Value], then: Callable[[Value], None]) -> None:
        """Run `query` in the thread, and `then` with its result on the loop."""
        self._requests.put((query, then))

    def close(self) -> None:
        """End after the present read; returns when that is done. What is still to be read is dropped."""
        self._closing = True
        self._requests.put(None)
        if self._store is not None:
            self._store.abandon()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._open() as store:
                store.set_patience(math.inf)  # A run goes on when its database is back.
                self._store = store
                while (request := self._requests.get()) is not None and not self._closing:
                    query, then = request
                    self._call(partial(self._deliver, then, query(store)))
        except Exception as error:  # The engine waits for what it has requested: it must know.
            if not (self._closing and isinstance(error, StoreAway)):
                self._call(partial(self._failed, error))

    def _deliver(self, then: Callable[[Value], None], value: Value) -> None:
        """On the loop."""
        try:
            then(value)
        except Exception as error:
            self._failed(error)
