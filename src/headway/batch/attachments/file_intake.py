"""Attached files → the store, each once for a job, several in a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from headway.batch.attachments.attached_file import AttachedFile, FileFacts
from headway.jobs.base import Sink
from headway.stores.records import NewAttachment, StoredAttachment

#: Bytes and files in one transaction.
MOST_BYTES: Final = 16 << 20
MOST_FILES: Final = 1_000


class FileIntake:
    """The files of a job's rows, while the rows are read."""

    def __init__(self, sink: Sink, files: FileFacts, job: int) -> None:
        self._sink, self._files, self._job = sink, files, job
        self._seen: set[str] = set()
        self._pending: list[NewAttachment] = []
        self._bytes = 0
        self._outside = 0
        self._first_outside = ""

    def add(self, files: Iterable[AttachedFile]) -> None:
        """Add the files of a row that no earlier row has."""
        for file in files:
            if file.digest not in self._seen:
                self._seen.add(file.digest)
                self._note_place(file)
                media = file.media
                facts = StoredAttachment(
                    file.digest, media.type, media.width, media.height, media.pages, file.size
                )
                self._pending.append((facts, partial(self._files.content, file)))
                self._bytes += file.size
                if self._bytes >= MOST_BYTES or len(self._pending) >= MOST_FILES:
                    self.flush()

    def _note_place(self, file: AttachedFile) -> None:
        if not self._files.is_inside(file):
            self._outside += 1
            self._first_outside = self._first_outside or file.path

    def warnings(self) -> list[str]:
        """One line if files are not below the input's folder: an input that others wrote may name any image or PDF."""
        if not self._outside:
            return []
        what = "1 attached file is" if self._outside == 1 else f"{self._outside:,} attached files are"
        return [
            f"warning: {what} outside the folder of the input: {self._first_outside}{', …' if self._outside > 1 else ''}"
        ]

    def flush(self) -> None:
        """Store what is pending. Raises if a file has changed since its row was checked."""
        if self._pending:
            self._sink.add_attachments(self._job, self._pending)
            self._pending, self._bytes = [], 0
