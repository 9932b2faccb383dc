"""Rows on a stream: standard output, a device or a pipe. Every run writes all rows, from the first on.

A stream cannot be read back: it is not known which rows of an earlier run arrived. In input order, rows are written as they become a
complete prefix, as in a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from headway.batch.output_file import AnsweredUnits, OutputFile
from headway.batch.result_rows import ResultRow
from headway.errors import HeadwayError, OutputClosed
from headway.jobs.output_options import STDOUT, Order, opened_stream
from headway.safe_text import escaped
from headway.stores.records import Job
from headway.stores.store import Store


class StreamOutput(OutputFile):
    """The rows of one job on a stream. A terminal gets its control characters escaped."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        job: Job,
        path: Path,
        order: Order,
        line_of: Callable[[ResultRow], bytes],
    ) -> None:
        super().__init__(open_store, job, path, order, line_of)
        # Now, before anything is sent: it may be a pipe without a reader.
        self._file = opened_stream(path)
        self._on_terminal = self._file.isatty()

    def open(self) -> None:
        """Nothing of an earlier run is kept: rows of units that ended before this run are written again."""
        if self._store is None:
            self.look()
        assert self._store is not None
        if self._order == "completion":
            self._written = bytearray(self._job.total)
            self._ended.extend(AnsweredUnits(self._store, self._job).all())

    def _data(self, results: Iterable[ResultRow]) -> bytes:
        data = super()._data(results)
        return escaped(data.decode()).encode() if self._on_terminal else data

    def _sync(self) -> None:
        """A stream has no disk to sync to."""

    def _unwritable(self, error: OSError) -> HeadwayError:
        name = "standard output" if str(self.path) == STDOUT else str(self.path)
        if isinstance(error, BrokenPipeError):
            return OutputClosed(
                f"{name} was closed by its reader: the run was stopped",
                hint=f"the answers so far are kept; 'headway resume {self._job.name} --out FILE' continues",
            )
        return super()._unwritable(error)

    def close(self) -> None:
        """Close the stream and the store. A reader that is gone gets nothing more."""
        try:
            super().close()
        except BrokenPipeError:
            self._file = None
            super().close()
