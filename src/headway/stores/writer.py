"""One thread that commits what the engine hands it, as many changes at once as have come together.

The engine fills the present `WriteBatch` and calls `kick`. While a commit's fsync is under way the next batch fills, so the
busier the run, the more changes share an fsync. After each commit the engine is called back on its loop: a unit whose intent
had to be durable first is sent then. A commit that fails stops the writer for good: the engine is called once and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: Runs a callable on the engine's loop, from any thread.
Call = Callable[[Callable[[], None]], None]

#: Ended units that make a batch large enough to be committed by itself.
FULL: Final = 1_000


class Writer:
    """Owns the store that it writes to; `batch` is for the engine's thread alone."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        new_batch: Callable[[], WriteBatch],
        call: Call,
        committed: Callable[[WriteBatch], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._open = open_store
        self._new_batch = new_batch
        self._call = call
        self._committed = committed
        self._failed = failed
        self.batch = new_batch()
        self._waiting = threading.Condition()
        self._handed: list[WriteBatch] = []
        self._closing = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="headway-writer", daemon=True)
        self.commits = 0

    def start(self) -> None:
        """Begin; the store is opened in the thread that uses it."""
        self._thread.start()

    def kick(self, *, urgent: bool = False) -> None:
        """Hand over the batch if the writer is free. `urgent`: also while it commits, if nothing else waits.

        A batch that is not handed over fills up until the present commit has ended: then the engine kicks again.
        """
        if not self.batch:
            return
        with self._waiting:
            if (self._handed or (self._busy and not urgent)) and len(self.batch.units) < FULL:
                return
            self._hand_over()

    def _hand_over(self) -> None:
        self._handed.append(self.batch)
        self.batch = self._new_batch()
        self._waiting.notify()

    def close(self) -> None:
        """Commit what is left and end; returns when that is done."""
        with self._waiting:
            if self.batch:
                self._hand_over()
            self._closing = True
            self._waiting.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._open() as store:
                while (batch := self._next()) is not None:
                    store.commit(batch)
                    self.commits += 1
                    with self._waiting:
                        self._busy = False  # Before the engine is called and kicks.
                    self._tell(batch)
        except Exception as error:  # Of any kind: nothing is recorded any more, and the engine must know.
            failure = error
            self._call(lambda: self._failed(failure))

    def _tell(self, batch: WriteBatch) -> None:
        self._call(lambda: self._committed(batch))

    def _next(self) -> WriteBatch | None:
        with self._waiting:
            while not self._handed and not self._closing:
                self._waiting.wait()
            self._busy = bool(self._handed)
            return self._handed.pop(0) if self._handed else None
