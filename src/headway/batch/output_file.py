"""The output file of a job: written from the store while the job runs. It is a valid prefix at every moment, complete at the end.

In input order, the file grows as far as units have ended without a gap. In order of completion, it grows as units end. Units that
could not finish get their rows at the end of the run; the next run removes those rows before it continues. Only committed
results are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from headway.batch.result_rows import ResultRow, owner_of, result_line
from headway.core.model import Usage
from headway.core.unit_states import GOOD, Status
from headway.errors import HeadwayError
from headway.jobs.base import Order
from headway.reason_text import unit_error
from headway.stores import records
from headway.stores.files import Replacement
from headway.stores.records import Job
from headway.stores.store import Store

PAGE: Final = 1_000
_OPEN: Final = frozenset({"pending", "assigned", "running"})
_NOT_RUN: Final = ("pending", "not run yet")


class OutputFile:
    """The output file of one job. `advance` and `finish` may run in another thread, one call at a time."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        job: Job,
        path: Path,
        order: Order = "input",
        line_of: Callable[[ResultRow], bytes] = result_line,
    ) -> None:
        self._open_store, self._job, self.path, self._order = open_store, job, path, order
        self._line_of = line_of
        self._next = 0
        self._keep = 0
        self._file: BinaryIO | None = None
        self._store: Store | None = None
        self._ended: list[int] = []
        self._written = bytearray()

    def look(self) -> None:
        """Note how many units have ended without a gap, before this run changes that. Call it before anything is sent."""
        self._store = self._open_store()
        first = self._store.first_unended(self._job.id)
        self._keep = self._job.total if first is None else first

    def open(self) -> None:
        """Open the file, keep its valid part, and continue after it."""
        if self._store is None:
            self.look()
        try:
            if self._order == "input":
                self._open_in_order()
            else:
                self._open_by_completion()
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> HeadwayError:
        return unwritable(self.path, error)

    def _open_in_order(self) -> None:
        file = self.path.open("r+b" if self.path.exists() else "w+b")
        self._next, end = self._valid_part(file)
        file.truncate(end)
        file.seek(end)
        self._file = file

    def _valid_part(self, file: BinaryIO) -> tuple[int, int]:
        """How many rows at the beginning of the file stay, and where the last of them ends."""
        return _prefix(file, self._keep, self._job.name)

    def _open_by_completion(self) -> None:
        """Copy the rows that stay valid, without the rows of units that run again."""
        assert self._store is not None
        self._written = bytearray(self._job.total)
        answered = AnsweredUnits(self._store, self._job)
        with Replacement(self.path) as fresh:
            for index, line in self._earlier_lines():
                if answered.has(index) and not self._written[index] and _is_answer(line):
                    fresh.file.write(line)
                    self._written[index] = 1
            fresh.commit()
        self._file = self.path.open("ab")
        # Units that an earlier run committed but did not write before it died.
        self._ended.extend(index for index in answered.all() if not self._written[index])

    def _earlier_lines(self) -> Iterator[tuple[int, bytes]]:
        return _owned_lines(self.path, self._job.name)

    def ended(self, indexes: Iterable[int]) -> None:
        """Units have ended, and their ends are committed."""
        if self._order == "completion":
            self._ended.extend(indexes)

    def advance(self) -> None:
        """Write the rows that can be written now."""
        try:
            if self._order == "completion":
                self._write_ended()
            else:
                self._write_prefix()
        except OSError as error:
            raise self._unwritable(error) from error

    def _write_prefix(self) -> None:
        assert self._store is not None
        # If the longest units run first, most ended units may come after one that has not ended: those are not read.
        first_open = self._store.first_unended(self._job.id, self._next)
        end = self._store.last_index(self._job.id) + 1 if first_open is None else first_open
        while self._next < end:
            rows = self._store.results(self._job.id, self._next - 1, min(PAGE, end - self._next))
            ready = list(_until_open(rows))
            self._write(_result(self._job.name, row) for row in ready)
            self._next += len(ready)
            if not ready:
                return

    def _write_ended(self) -> None:
        assert self._store is not None
        ended, self._ended = self._ended, []
        for index in ended:
            if index >= len(self._written):  # The job has grown.
                self._written.extend(bytes(index + 1 - len(self._written)))
            if not self._written[index]:
                self._written[index] = 1
                rows = self._store.results(self._job.id, index - 1, 1)
                self._write(_result(self._job.name, row) for row in rows)

    def _write(self, results: Iterable[ResultRow]) -> None:
        data = self._data(results)
        if data:
            assert self._file is not None
            self._file.write(data)
            self._file.flush()

    def _data(self, results: Iterable[ResultRow]) -> bytes:
        return b"".join(map(self._line_of, results))

    def _sync(self) -> None:
        assert self._file is not None
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Complete the file: a row for every unit, including those that could not finish."""
        self.advance()
        assert self._store is not None
        assert self._file is not None
        why = reasons(self._store, self._job)
        try:
            if self._order == "completion":
                for index in range(max(self._job.total, self._store.last_index(self._job.id) + 1)):
                    if index >= len(self._written) or not self._written[index]:
                        rows = self._store.results(self._job.id, index - 1, 1)
                        self._write(_result(self._job.name, row, why) for row in rows)
            else:
                while rows := self._store.results(self._job.id, self._next - 1, PAGE):
                    self._write(_result(self._job.name, row, why) for row in rows)
                    self._next += len(rows)
            self._sync()
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Close the file and the store."""
        if self._file is not None:
            self._file.close()
        if self._store is not None:
            self._store.close()


class AnsweredUnits:
    """The units that have an answer, read from the store once."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self._is_answered = bytearray(job.total)
        after = -1
        while rows := store.results(job.id, after, PAGE):
            for row in rows:
                self._is_answered[row.index] = row.status in GOOD
            after = rows[-1].index

    def has(self, index: int) -> bool:
        return index < len(self._is_answered) and bool(self._is_answered[index])

    def all(self) -> Iterator[int]:
        return (index for index, good in enumerate(self._is_answered) if good)


def lines_of(store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
    """The lines from one index to another."""
    return map(result_line, results_of(store, job, first, last))


def results_of(store: Store, job: Job, first: int, last: int) -> Iterator[ResultRow]:
    """The result rows from one index to another."""
    why = reasons(store, job)
    while first <= last and (rows := store.results(job.id, first - 1, min(PAGE, last + 1 - first))):
        for row in rows:
            yield _result(job.name, row, why)
        first = rows[-1].index + 1


Reasons = dict[tuple[str, str], tuple[str, str]]


def reasons(store: Store, job: Job) -> Reasons:
    """For each route: why the latest run could not finish its units."""
    current = store.job(job.name) or job
    return {
        (route.provider, route.model): unit_error(current.unfinished[str(route.id)])
        for route in store.routes(job.id)
        if str(route.id) in current.unfinished
    }


def _until_open(rows: Iterable[records.UnitResult]) -> Iterator[records.UnitResult]:
    for row in rows:
        if row.status in _OPEN:
            return
        yield row


def _result(job: str, row: records.UnitResult, why: Reasons | None = None) -> ResultRow:
    code, message = row.code, row.message
    if row.status in _OPEN:
        code, message = (why or {}).get((row.provider, row.model), _NOT_RUN)
    usage = None
    if row.input_tokens is not None:
        usage = Usage(row.input_tokens, row.output_tokens or 0, row.cached_tokens or 0)
    return ResultRow(
        job, row.index, row.custom_id, row.status, row.lane or f"{row.provider}/{row.model}".removesuffix("/"), row.attempts, row.status_code,
        row.request_id or "", row.body or b"", None if row.status in GOOD else code or row.status, message or "", usage,
        0.0 if row.status == Status.CACHED and not row.cost_usd else row.cost_usd, row.started_utc, row.finished_utc, row.metadata,
    )  # fmt: skip


def _prefix(file: BinaryIO, keep: int, job: str) -> tuple[int, int]:
    """How many of the first `keep` rows are in their place in the file, and where the last of them ends."""
    count = end = 0
    start = f'{{"id":"{job}-'.encode()
    for line in file:
        if count == keep or not line.endswith(b"\n") or not line.startswith(b'%b%d"' % (start, count)):
            break
        count += 1
        end += len(line)
    return count, end


def _owned_lines(path: Path, job: str) -> Iterator[tuple[int, bytes]]:
    """The complete rows of this job in a file, with their indexes."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            owner = owner_of(line) if line.endswith(b"\n") else None
            if owner == job:
                head = line.partition(b'","')[0]
                yield int(head.rpartition(b"-")[2]), line


class _Outcome(msgspec.Struct, frozen=True):
    error: msgspec.Raw


_outcome: Final = msgspec.json.Decoder(_Outcome).decode


def _is_answer(line: bytes) -> bool:
    """Whether a row has an answer. A failure of an earlier run may be out of date."""
    return bytes(_outcome(line).error) == b"null"


def unwritable(path: Path, error: OSError, flag: str = "--out") -> HeadwayError:
    """The error of a file that cannot be written."""
    return HeadwayError(
        f"{path} cannot be written: {(error.strerror or str(error)).lower()}",
        hint=f"name another {'file' if flag == '--out' else 'directory'} with {flag}; the results themselves are safe in the store",
    )
