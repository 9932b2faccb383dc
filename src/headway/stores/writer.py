"""The one thread that commits the changes of an engine, as many at once as have gathered.

The engine fills the current `WriteBatch` and calls `kick`. While the fsync of one commit runs, the next batch fills: the busier
the run, the more changes share an fsync. After each commit the engine is called back on its loop, and sends the units whose
intent is durable now. A commit that fails stops the writer: the engine is called once and ends.

A database server may be away for a while. Then batches are handed over as they come, wait in a journal on the disk, and are committed in their
order when the server is back. Until then no intent is durable, and so nothing new is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from headway.core.unit_states import Status
from headway.errors import CommitUnknown, JobTaken, StoreAway
from headway.stores.journal import Journal
from headway.stores.store import Store
from headway.stores.write_batch import BatchMark, WriteBatch

#: Runs a callable on the engine's loop, from any thread.
Call = Callable[[Callable[[], None]], None]

#: A batch with this many ended units is handed over even if another batch waits.
FULL: Final = 1_000


#: The interval of attempts to reach a server that is away.
RETRY_S: Final = 0.25
#: How long a writer that is closed waits for a server that is away.
LEAVE_S: Final = 1.0


class Outage(NamedTuple):
    """What a writer needs while its database is away: a place for batches, and someone to tell, in its own thread."""

    journal: Journal
    say: Callable[[str], None]


class Writer:
    """Owns the store that it writes to. Only the engine's thread uses `batch`."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        new_batch: Callable[[], WriteBatch],
        call: Call,
        committed: Callable[[WriteBatch], None],
        failed: Callable[[Exception], None],
        outage: Outage | None = None,
    ) -> None:
        self._open = open_store
        self._new_batch = new_batch
        self._call = call
        self._committed = committed
        self._failed = failed
        self._outage = outage
        #: Whether the server is away.
        self._away = False
        self.batch = new_batch()
        self._condition = threading.Condition()
        self._queue: list[WriteBatch] = []
        #: Taken by the thread, and not committed.
        self._open_batches: list[WriteBatch] = []
        self._closing = False
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="headway-writer", daemon=True)
        self.commits = 0

    @property
    def is_away(self) -> bool:
        """Whether the database server is away."""
        return self._away

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
            waits = self._queue or (self._busy and not urgent)
            if waits and len(self.batch.units) < FULL and not self._away:
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

    def unrecorded(self) -> int:
        """How many units have succeeded of which the database has nothing. Called after `close`."""
        batches = (*self._open_batches, *self._queue, self.batch)
        return sum(change.status == Status.SUCCEEDED for batch in batches for _, change in batch.units)

    def _run(self) -> None:
        try:
            with self._open() as store:
                if self._outage is not None:
                    store.set_patience(0.0)
                while (batch := self._next()) is not None:
                    self._open_batches.append(batch)
                    self._commit(store, batch)
        except Exception as error:  # Any error: the engine must know that nothing is recorded any more.
            failure = error
            if isinstance(error, JobTaken) and self._outage is not None:
                self._outage.journal.set_aside()
            self._call(lambda: self._failed(failure))

    def _commit(self, store: Store, batch: WriteBatch) -> None:
        began_at = time.monotonic()
        if self._outage is None:
            store.commit(batch)
            batch.took_s = time.monotonic() - began_at
            self._committed_one(batch)
            return
        mark = batch.mark()
        try:
            store.commit(batch)
        except StoreAway as error:
            self._sit_out(store, self._outage, OpenBatch(batch, mark, error), error)
        else:
            batch.took_s = time.monotonic() - began_at
            self._committed_one(batch)

    def _committed_one(self, batch: WriteBatch) -> None:
        self.commits += 1
        self._open_batches.remove(batch)
        with self._condition:
            self._busy = False  # Before the engine is called: it calls `kick`.
        self._report(batch)

    def _sit_out(self, store: Store, outage: Outage, first: OpenBatch, error: StoreAway) -> None:
        """Keep batches in the journal until the server is back, then commit them in their order."""
        waiting = [first]
        first.entry = outage.journal.add(first.batch, first.transaction)
        self._away = True
        self._tell(
            outage,
            f"{error.message}; nothing new starts until it is back, and results wait in {outage.journal.path}",
        )
        closed_at: float | None = None
        while waiting:
            for batch in self._handed_over():
                self._open_batches.append(batch)
                waiting.append(OpenBatch(batch, batch.mark()))
                waiting[-1].entry = outage.journal.add(batch)
            try:
                # Once it is back, no more batches are taken: a busy run would never come to the end of them.
                while waiting:
                    waiting[0].commit(store, outage.journal)
                    self._away = False
                    self._committed_one(waiting.pop(0).batch)
            except StoreAway:
                self._away = True
                closed_at = closed_at or (time.monotonic() if self._closing else None)
                if closed_at is not None and time.monotonic() - closed_at > LEAVE_S:
                    raise StoreAway(
                        f"{error.message}; results of this run wait in {outage.journal.path}",
                        hint="start the server, then run 'headway resume', which records them",
                    ) from None
        outage.journal.clear()
        self._tell(outage, "the database is back: everything is recorded")

    def _tell(self, outage: Outage, text: str) -> None:
        self._call(lambda: outage.say(text))

    def _handed_over(self) -> list[WriteBatch]:
        """The batches that have come, or come in a moment."""
        with self._condition:
            if not self._queue:
                self._condition.wait(RETRY_S)
            batches, self._queue = self._queue, []
            return batches

    def _report(self, batch: WriteBatch) -> None:
        self._call(lambda: self._committed(batch))

    def _next(self) -> WriteBatch | None:
        with self._condition:
            while not self._queue and not self._closing:
                self._condition.wait()
            self._busy = bool(self._queue)
            return self._queue.pop(0) if self._queue else None


class OpenBatch:
    """A batch in the journal, which is to be committed. `entry` is its place there."""

    def __init__(self, batch: WriteBatch, mark: BatchMark, error: StoreAway | None = None) -> None:
        self.batch = batch
        self.entry = 0
        self.transaction = error.transaction if isinstance(error, CommitUnknown) else None
        #: What the commit of unknown outcome has added to the batch.
        self._added = batch.mark()
        self._mark = mark
        batch.restore(mark)

    def commit(self, store: Store, journal: Journal) -> None:
        """Commit it once. StoreAway: the server is still away."""
        if self.transaction is not None:
            if store.was_committed(self.transaction):
                self.batch.restore(self._added)
                return
            self.transaction = None
        try:
            store.commit_again(self.batch, partial(journal.tried, self.entry))
        except StoreAway as error:
            if isinstance(error, CommitUnknown):
                self.transaction, self._added = error.transaction, self.batch.mark()
            self.batch.restore(self._mark)
            raise
