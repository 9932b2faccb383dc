"""The one thread that commits the changes of an engine, as many at once as have gathered.

The engine fills the current `WriteBatch` and calls `kick`. While the fsync of one commit runs, the next batch fills: the busier
the run, the more changes share an fsync. After each commit the engine is called back on its loop, and sends the units whose
intent is durable now. A commit that fails stops the writer: the engine is called once and ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: Runs a callable on the engine's loop, from any thread.
Call = Callable[[Callable[[], None]], None]

#: A batch with this many ended units is handed over even if another batch waits.
FULL: Final = 1_000


class Writer:
    """Owns the store that it writes to. Only the engine's thread uses `batch`."""

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
        self._condition = threading.Condition()
        self._queue: list[WriteBatch] = []
        self._closing = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="headway-writer", daemon=True)
        self.commits = 0

    def start(self) -> None:
        """Start the thread. It opens the store itself."""
        self._thread.start()

    def kick(self, *, urgent: bool = False) -> None:
        """Hand over the batch if the writer is idle. `urgent`: also during a commit, if no other batch waits.

        Otherwise the batch fills until the current commit has ended and the engine calls `kick` again.
        """
        if not self.batch:
            return
        with self._condition:
            if (self._queue or (self._busy and not urgent)) and len(self.batch.units) < FULL:
                return
            self._hand_over()

    def _hand_over(self) -> None:
        self._queue.append(self.batch)
        self.batch = self._new_batch()
        self._condition.notify()

    def close(self) -> None:
        """Commit the rest and end the thread."""
        with self._condition:
            if self.batch:
                self._hand_over()
            self._closing = True
            self._condition.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._open() as store:
                while (batch := self._next()) is not None:
                    began_at = time.monotonic()
                    store.commit(batch)
                    batch.took_s = time.monotonic() - began_at
                    self.commits += 1
                    with self._condition:
                        self._busy = False  # Before the engine is called: it calls `kick`.
                    self._report(batch)
        except Exception as error:  # Any error: the engine must know that nothing is recorded any more.
            failure = error
            self._call(lambda: self._failed(failure))

    def _report(self, batch: WriteBatch) -> None:
        self._call(lambda: self._committed(batch))

    def _next(self) -> WriteBatch | None:
        with self._condition:
            while not self._queue and not self._closing:
                self._condition.wait()
            self._busy = bool(self._queue)
            return self._queue.pop(0) if self._queue else None
