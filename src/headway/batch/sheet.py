"""A job's results as a table: the input's columns, then `answer`, `status` and `error`, one record a unit.

Written from the store when the run ends, all of it or nothing: a spreadsheet that is open on a growing file would show
half of it. Cells are written as they are; what a spreadsheet takes for a formula is the reader's business.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.batch.output import Order, OutputFile, claim, results_of, unwritable
from headway.batch.recipe import delimiter_of
from headway.batch.result import Result
from headway.errors import UsageError
from headway.stores.base import Job, Store

ADDED: Final = ("answer", "status", "error")
_decode: Final = msgspec.json.Decoder().decode


def write_sheet(path: Path, store: Store, job: Job) -> None:
    """Write the whole table, on disk when this returns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        # A line ends as RFC 4180 has it: with both characters csv quotes cells that have either of them.
        out = csv.writer(file, delimiter=_delimiter(path), lineterminator="\r\n")
        out.writerows(records(store, job))
        file.flush()
        os.fsync(file.fileno())


def _delimiter(path: Path) -> str:
    return delimiter_of(path.name.removesuffix(".new")) or ","


def records(store: Store, job: Job) -> Iterator[list[str]]:
    """The header, and a record for every unit as it stands, in input order."""
    columns = columns_of(store, job)
    yield ["id", *columns, *_added(columns)]
    for result in results_of(store, job, 0, job.total - 1):
        cells = _decode(result.metadata) if columns and result.metadata is not None else {}
        failed = result.error_code is not None
        yield [
            result.custom_id,
            *(cells[column] for column in columns),
            "" if failed else answer_of(result.body),
            result.status,
            _error(result) if failed else "",
        ]


def columns_of(store: Store, job: Job) -> list[str]:
    """The columns of the table that a job came from, without its ids; none where it came from rows."""
    first = store.results(job.id, -1, 1) if delimiter_of(job.input) is not None else []
    if not first or first[0].metadata is None:
        return []
    return list(_decode(first[0].metadata))


def _added(columns: Iterable[str]) -> Iterator[str]:
    """The names of the columns that are added; one that the input has gets another name."""
    taken = set(columns)
    for name in ADDED:
        while name in taken:
            name = f"headway_{name}"
        yield name


def _error(result: Result) -> str:
    return f"{result.error_code}: {result.error_message}" if result.error_message else result.error_code or ""


def answer_of(body: bytes) -> str:
    """The text of an answer, of the first where there are several; the body itself where it has none."""
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        answer = None
    text = _text(answer) if isinstance(answer, dict) else None
    return body.decode(errors="replace") if text is None else text


def _text(answer: dict[str, Any]) -> str | None:
    """As chat completions, messages and responses have it."""
    match answer:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return content if isinstance(content, str) else _joined(content)
        case {"choices": [{"text": str(text)}, *_]}:
            return text
        case {"output": list(items)}:
            said = [item.get("content") for item in items if isinstance(item, dict) and "content" in item]
            return _joined([part for parts in said if isinstance(parts, list) for part in parts])
        case {"content": parts}:
            return _joined(parts)
    return None


def _joined(parts: object) -> str | None:
    """The text of a list of parts; None where none of them is a text."""
    if not isinstance(parts, list):
        return None
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type") in ("text", "output_text")
        and isinstance(part.get("text"), str)
    ]
    return "".join(texts) if texts else None


class SheetFile:
    """One job's table, fed like an `OutputFile` and written when it is finished."""

    def __init__(self, open_store: Callable[[], Store], job: Job, path: Path, *, force: bool = False) -> None:
        self._open_store, self._job, self.path, self._force = open_store, job, path, force
        self._store: Store | None = None

    def look(self) -> None:
        """Nothing depends on how far the records go."""

    def open(self) -> None:
        """Nothing is written before the end."""

    def ended(self, indexes: Iterable[int]) -> None:
        """Their turn comes at the end."""

    def advance(self) -> None:
        """The same."""

    def finish(self) -> None:
        """Write it, in the place of the one before."""
        self._store = self._open_store()
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_sheet(fresh, self._store, self._job)
            if self._replaces(fresh):
                os.replace(fresh, self.path)
        except OSError as error:
            raise unwritable(self.path, error) from error
        finally:
            fresh.unlink(missing_ok=True)

    def _replaces(self, fresh: Path) -> bool:
        """Whether the file has to change. One that says the same already needs no owner."""
        import filecmp

        assert self._store is not None
        try:
            claim(self.path, self._job.name, force=self._force, store=self._store)
        except UsageError:
            if self.path.is_file() and filecmp.cmp(fresh, self.path, shallow=False):
                return False
            raise
        return True

    def close(self) -> None:
        """Let go of the records."""
        if self._store is not None:
            self._store.close()


def output_for(
    open_store: Callable[[], Store], job: Job, path: Path, order: Order, *, force: bool
) -> OutputFile | SheetFile:
    """What a file's name asks for: a table (which has one order only), or rows."""
    if delimiter_of(path) is None:
        return OutputFile(open_store, job, path, order)
    return SheetFile(open_store, job, path, force=force)
