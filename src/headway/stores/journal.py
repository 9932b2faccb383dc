"""What a run has recorded while its database was away: a file beside the job's other small files, until the database has it all.

Each entry is one write batch, and is on the disk before the run goes on. The database gets the entries in order, each once: before an entry is
committed, the number of that transaction is added to the file, and after a crash the database is asked whether it was committed. A run
that ends while the database is away leaves the file, and the next run of the job records it first.

The file is only for its owner. It has results, and no intents: what was not sent need not be known. Its size is bounded by what was in
flight, because nothing starts while the database is away.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.errors import JobTaken, StoreError
from headway.stores.files import open_own, sync_folder
from headway.stores.job_lock import JOB_LEVELS
from headway.stores.records import (
    Attempt,
    JobEvent,
    NewUnit,
    Repair,
    State,
    TranscriptRow,
    UnitChange,
    UsageTotals,
    WorkerRecord,
)
from headway.stores.samples import RunSample
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: More than any run has in flight; a larger file is refused.
MOST_BYTES: Final = 4_000_000_000
_HEAD_BYTES: Final = 8
#: The parts of a batch that are kept. Intents, and what belongs to the process, are not.
_KEPT: Final = (
    "added", "running", "released", "reopened", "again", "units", "skipped", "attempts", "answers", "repairs", "rendered", "notes",
    "transcripts", "counts", "uses", "events", "lanes", "workers", "done_commands", "state", "samples", "waits",
)  # fmt: skip


class JournalEntry(msgspec.Struct, frozen=True, tag="batch"):
    """One batch. `transaction` is the one in which it may have been committed before it was written here."""

    #: The store that it is for: numbers of jobs and transactions mean nothing in another one.
    store: bytes
    job: int
    worker: int | None
    caching: bool
    transaction: int | None
    added: list[tuple[int, NewUnit]]
    running: dict[int, float]
    released: list[int]
    reopened: dict[int, bytes | None]
    again: list[int]
    units: list[tuple[int, UnitChange]]
    skipped: list[tuple[int, int]]
    attempts: list[dict[str, Any]]
    answers: list[tuple[int, int | None, str | None, bytes]]
    repairs: list[Repair]
    rendered: list[tuple[int, bytes, int]]
    notes: list[tuple[int, int, bytes]]
    transcripts: list[TranscriptRow]
    counts: dict[str, int | float]
    uses: dict[int, UsageTotals]
    events: list[JobEvent]
    lanes: dict[int, tuple[bytes, bytes, float]]
    workers: dict[int, tuple[str, float | None]]
    done_commands: list[tuple[int, float]]
    state: tuple[State, float | None] | None
    samples: list[RunSample]
    waits: dict[tuple[int, str, str], float]

    def batch(self) -> WriteBatch:
        """The batch again."""
        batch = WriteBatch(self.job, self.worker, caching=self.caching)
        for name in _KEPT:
            setattr(batch, name, getattr(self, name))
        batch.attempts = [msgspec.convert(attempt, _PlainAttempt).attempt() for attempt in self.attempts]
        return batch


class _PlainAttempt(msgspec.Struct, frozen=True):
    """An attempt with the number of its worker instead of its record."""

    index: int
    number: int
    lane: int
    outcome: str
    kind: str | None
    message: str | None
    status_code: int | None
    request_id: str | None
    started_utc: float | None
    finished_utc: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    charged: tuple[float, float, float, float]
    rate_limit: bytes | None
    worker: int | None
    again_utc: float | None

    def attempt(self) -> Attempt:
        return Attempt(**msgspec.structs.asdict(self))


class CommitTried(msgspec.Struct, frozen=True, tag="try"):
    """The entry `entry` (counted from 0) is about to be committed in this transaction."""

    entry: int
    transaction: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(JournalEntry | CommitTried).decode


class Journal:
    """One file. It is made with its first entry, and removed when the database has all entries."""

    def __init__(self, path: Path) -> None:
        self.path = path
        #: The store that entries are for (`store_id`). Set before the first one.
        self.store = b""
        self._entries = 0
        self._file: int | None = None

    def add(self, batch: WriteBatch, transaction: int | None = None) -> int:
        """Write a batch to the disk; returns its number. `transaction`: it may have been committed there."""
        self._append(_entry(self.store, batch, transaction))
        self._entries += 1
        return self._entries - 1

    def tried(self, entry: int, transaction: int) -> None:
        """Note that an entry is about to be committed."""
        self._append(CommitTried(entry, transaction))

    def clear(self) -> None:
        """Remove the file: the database has everything."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._entries = 0
        if self.path.exists():
            self.path.unlink()
            sync_folder(self.path.parent)

    def set_aside(self) -> Path | None:
        """Keep the file under another name: its results cannot be recorded. Returns that; None: there is no file."""
        if not self.path.exists():
            return None
        aside = self.path.with_name(f"{self.path.name}.not-recorded")
        os.replace(self.path, aside)
        self.clear()
        return aside

    def _append(self, record: JournalEntry | CommitTried) -> None:
        data = _encode(record)
        if self._file is None:
            self._file = open_own(self.path, JOB_LEVELS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, make=True)
            sync_folder(self.path.parent)
        if os.fstat(self._file).st_size + len(data) > MOST_BYTES:
            raise StoreError(f"{self.path} is full", hint="start the database, then run 'headway resume'")
        view = memoryview(len(data).to_bytes(4) + zlib.crc32(data).to_bytes(4) + data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
            os.fsync(self._file)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be written: {(error.strerror or str(error)).lower()}",
                hint="free some disk space, then run 'headway resume'",
            ) from error

    def entries(self) -> list[tuple[JournalEntry, list[int]]]:
        """What the file has, each entry with the transactions in which it may have been committed. A write that was cut off is left out:
        nothing has relied on it.
        """
        entries: list[tuple[JournalEntry, list[int]]] = []
        for record in _records(self._content()):
            if isinstance(record, JournalEntry):
                entries.append((record, [] if record.transaction is None else [record.transaction]))
            elif record.entry < len(entries):
                entries[record.entry][1].append(record.transaction)
        self._entries = len(entries)
        return entries

    def _content(self) -> bytes:
        try:
            file = open_own(self.path, JOB_LEVELS, os.O_RDONLY)
        except FileNotFoundError:
            return b""
        with os.fdopen(file, "rb") as opened:
            return opened.read(MOST_BYTES)


def _records(content: bytes) -> Iterator[JournalEntry | CommitTried]:
    place = 0
    while place + _HEAD_BYTES <= len(content):
        length, check = (
            int.from_bytes(content[place : place + 4]),
            int.from_bytes(content[place + 4 : place + 8]),
        )
        data = content[place + _HEAD_BYTES : place + _HEAD_BYTES + length]
        if len(data) < length or zlib.crc32(data) != check:
            return
        yield _decode(data)
        place += _HEAD_BYTES + length


def _entry(store: bytes, batch: WriteBatch, transaction: int | None) -> JournalEntry:
    kept = {name: getattr(batch, name) for name in _KEPT}
    kept["attempts"] = [_plain(attempt) for attempt in batch.attempts]
    return JournalEntry(store, batch.job, batch.worker, batch.caching, transaction, **kept)


def _plain(attempt: Attempt) -> dict[str, Any]:
    worker = attempt.worker
    number = (worker.id or None) if isinstance(worker, WorkerRecord) else worker
    return {**msgspec.structs.asdict(attempt), "worker": number}


def store_id(store: Store) -> bytes:
    """Tells stores apart, without their secret."""
    return hashlib.blake2b(store.salt(), digest_size=16, person=b"headway-journal").digest()


def replay(store: Store, journal: Journal) -> str:
    """Record what an earlier run left in its journal, each entry once; returns a remark about it. Called by the owner of the job, before
    anything else of a run.
    """
    journal.store = store_id(store)
    entries = journal.entries()
    if not entries:
        journal.clear()
        return ""
    if any(entry.store != journal.store for entry, _ in entries):
        return f"the results in {journal.set_aside()} are of another database, and not recorded"
    ended = 0
    try:
        for number, (entry, transactions) in enumerate(entries):
            ended += sum(change.finished_utc is not None for _, change in entry.units)
            if not any(store.was_committed(transaction) for transaction in transactions):
                store.commit_again(entry.batch(), partial(journal.tried, number))
    except JobTaken:
        return f"another run has taken the job since: the results in {journal.set_aside()} are not recorded"
    journal.clear()
    return f"{ended} units that ended while the database was away are recorded now"
