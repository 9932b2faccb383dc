"""Rows of `--text-only`: `{"id", "text"}`, one a line. They do not name their job: the store knows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from headway.batch.output_file import OutputFile, results_of
from headway.batch.outputs.ownership import claim, note_written
from headway.batch.result_rows import text_line
from headway.jobs.base import Order
from headway.stores.records import Job
from headway.stores.store import Store


class TextRows(OutputFile):
    """A file of such rows. A run keeps the rows at its beginning that are the same as in the store."""

    def __init__(
        self, open_store: Callable[[], Store], job: Job, path: Path, order: Order, *, force: bool = False
    ) -> None:
        super().__init__(open_store, job, path, order, text_line)
        self._force = force

    def open(self) -> None:
        """Claim the file, and continue after its valid part."""
        if self._store is None:
            self.look()
        assert self._store is not None
        claim(self.path, self._job.name, force=self._force, store=self._store, text_only=True)
        note_written(self._store, self._job, self.path)
        super().open()

    def _valid_part(self, file: BinaryIO) -> tuple[int, int]:
        assert self._store is not None
        count = end = 0
        results = results_of(self._store, self._job, 0, self._keep - 1)
        for line, result in zip(file, results, strict=False):
            if line != text_line(result):
                break
            count += 1
            end += len(line)
        return count, end

    def _earlier_lines(self) -> Iterator[tuple[int, bytes]]:
        """In order of completion the file is written anew."""
        return iter(())
