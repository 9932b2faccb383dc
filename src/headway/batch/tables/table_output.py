"""Writes the results of a job as a table (.csv, .tsv, .parquet): the columns of the input, then those that Headway adds.

The table has one record a unit. It is written from the store when the run ends, completely or not at all: a spreadsheet would show
half of a growing file, and a Parquet file is invalid without its last byte. Cells of a .csv are written unchanged, unless they
are escaped for spreadsheets (`safe`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.answer_text import answer_of
from headway.batch.file_types import delimiter_of, is_parquet, is_table
from headway.batch.output_file import OutputFile, claim, note_written, results_of, unwritable
from headway.batch.result_rows import ResultRow
from headway.batch.tables.answer_columns import AnswerField, fields_of
from headway.batch.tables.cell_text import text_of, without_formula
from headway.errors import UsageError
from headway.jobs.base import JobOutput, Order
from headway.stores.files import Replacement
from headway.stores.records import Job
from headway.stores.store import Store

ADDED: Final = ("answer", "status", "error")
_decode: Final = msgspec.json.Decoder().decode


class TableLayout(msgspec.Struct, frozen=True):
    """The columns of a table: those of the input, the fields of an answer (with a schema), and the names of added columns."""

    columns: list[str]
    fields: list[AnswerField]
    names: dict[str, str]

    def header(self) -> list[str]:
        """The names of all columns, in order."""
        answer, *rest = (self.names[name] for name in ADDED)
        return [
            "id",
            *self.columns,
            answer,
            *(self.names[f"answer.{field.name}"] for field in self.fields),
            *rest,
        ]


class TableRecord(msgspec.Struct, frozen=True):
    """One unit: its cells by column, its answer (None if it failed), the fields of the answer, its error."""

    result: ResultRow
    cells: dict[str, Any]
    answer: str | None
    fields: list[Any]
    error: str


def write_table(file: BinaryIO, name: str, store: Store, job: Job, *, safe: bool = False) -> None:
    """Write the whole table to an open file, in the format of its name.

    `safe`: cells of a .csv are escaped, so that a spreadsheet treats none of them as a formula.
    """
    if is_parquet(name):
        from headway.batch.tables.parquet_output import write_parquet  # imports pyarrow

        write_parquet(file, name, store, job)
        return
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        # Line ends of RFC 4180. With both characters, csv quotes cells that contain either of them.
        out = csv.writer(text, delimiter=delimiter_of(name) or ",", lineterminator="\r\n")
        table = lines(store, job)
        out.writerows(map(without_formula, line) for line in table) if safe else out.writerows(table)
    finally:
        text.detach()  # Flushes it, and leaves the file open.


def lines(store: Store, job: Job) -> Iterator[list[str]]:
    """The header and a record for every unit as it is now, in input order, all as texts."""
    layout = layout_of(store, job)
    yield layout.header()
    for record in records(store, job, layout):
        yield [
            record.result.custom_id,
            *(text_of(record.cells.get(column)) for column in layout.columns),
            record.answer or "",
            *map(text_of, record.fields),
            record.result.status,
            record.error,
        ]


def records(store: Store, job: Job, layout: TableLayout) -> Iterator[TableRecord]:
    """Every unit as it is now, in input order."""
    for result in results_of(store, job, 0, job.total - 1):
        cells = _decode(result.metadata) if layout.columns and result.metadata is not None else {}
        failed = result.error_code is not None
        answer = None if failed else answer_of(result.body)
        fields = _values(answer, layout.fields) if layout.fields else []
        yield TableRecord(result, cells, answer, fields, _error(result) if failed else "")


def layout_of(store: Store, job: Job, more: tuple[str, ...] = ()) -> TableLayout:
    """The columns of a job's table. `more` are columns that only some formats have."""
    columns = _columns_of(store, job)
    fields = fields_of(job.form.get("schema"))
    return TableLayout(
        columns, fields, _names(columns, [*ADDED, *(f"answer.{field.name}" for field in fields), *more])
    )


def _columns_of(store: Store, job: Job) -> list[str]:
    """The columns of the input table without its ids; none if the input has rows."""
    first = store.results(job.id, -1, 1) if is_table(job.input) else []
    if not first or first[0].metadata is None:
        return []
    return list(_decode(first[0].metadata))


def _names(columns: Iterable[str], added: Iterable[str]) -> dict[str, str]:
    """The names of added columns. A name that the input already has gets a prefix."""
    taken = {"id", *columns}
    names = {}
    for wanted in added:
        name = wanted
        while name in taken:
            name = f"headway_{name}"
        taken.add(name)
        names[wanted] = name
    return names


def _values(answer: str | None, fields: list[AnswerField]) -> list[Any]:
    """The value of each field in an answer; None if the answer has no such field."""
    try:
        value = None if answer is None else _decode(answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    return [value.get(field.name) if isinstance(value, dict) else None for field in fields]


def _error(result: ResultRow) -> str:
    return f"{result.error_code}: {result.error_message}" if result.error_message else result.error_code or ""


class TableFile:
    """The table of one job: used like an `OutputFile`, and written when the run ends."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        job: Job,
        path: Path,
        *,
        force: bool = False,
        safe: bool = False,
    ) -> None:
        self._open_store, self._job, self.path = open_store, job, path
        self._force, self._safe = force, safe
        self._store: Store | None = None

    def look(self) -> None:
        """Nothing to do: a table is always written completely."""

    def open(self) -> None:
        """Nothing is written before the end."""

    def ended(self, indexes: Iterable[int]) -> None:
        """Nothing to do: all units are written at the end."""

    def advance(self) -> None:
        """Nothing is written before the end."""

    def finish(self) -> None:
        """Write the table, and replace the old one."""
        self._store = self._open_store()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with Replacement(self.path) as fresh:
                write_table(fresh.file, self.path.name, self._store, self._job, safe=self._safe)
                fresh.file.flush()
                if self._replaces(fresh.path):
                    note_written(self._store, self._job, self.path)
                    fresh.commit()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _replaces(self, fresh: Path) -> bool:
        """Whether the file must be replaced. If the content is the same, its owner does not matter."""
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
        """Close the store."""
        if self._store is not None:
            self._store.close()


def output_for(
    open_store: Callable[[], Store], job: Job, path: Path, order: Order, *, force: bool, safe: bool = False
) -> JobOutput:
    """The writer for the name of a file: a table (in input order only), or rows."""
    if not is_table(path):
        return OutputFile(open_store, job, path, order)
    return TableFile(open_store, job, path, force=force, safe=safe)
