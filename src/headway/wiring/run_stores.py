"""The connections of one run to its records. While the run is on, they wait for a database server that is away, however long it takes.

Only threads wait: on the event loop a connection is made at once or not at all. Two things end the waiting: the run that was stopped makes no
new connection to a server that is away (`leave`), and at its end no connection waits any more (`abandon`).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from headway.errors import StoreAway
from headway.stores.store import Store

#: The interval of attempts to make a connection.
RETRY_S: Final = 0.1


class RunStores:
    """Opens them. `abandon` and `leave` may be called by any thread."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._lock = threading.Lock()
        self._stores: WeakSet[Store] = WeakSet()
        self._of_output: WeakSet[Store] = WeakSet()
        self._is_on = self._is_over = False
        self._leaving = threading.Event()

    def open(self) -> Store:
        """A connection for the engine, which says itself how long it waits."""
        store = self._connected()
        with self._lock:
            self._stores.add(store)
            if self._is_over:
                store.abandon()
        return store

    def open_for_output(self) -> Store:
        """A connection for what writes the results, in its own thread."""
        store = self.open()
        with self._lock:
            self._of_output.add(store)
            if self._is_on:
                store.set_patience(math.inf)
        return store

    def go_on(self) -> None:
        """The run has begun: from now on, outputs wait without limit."""
        with self._lock:
            self._is_on = True
            for store in self._of_output:
                store.set_patience(math.inf)

    def leave(self) -> None:
        """The run is to stop: no connection is made to a server that is away."""
        self._leaving.set()

    def abandon(self) -> None:
        """The run is over: nothing waits any more."""
        self._leaving.set()
        with self._lock:
            self._is_over = True
            for store in self._stores:
                store.abandon()

    def _connected(self) -> Store:
        while True:
            try:
                return self._open_store()
            except StoreAway:
                if not self._is_on or _on_event_loop() or self._leaving.wait(RETRY_S):
                    raise


def _on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
