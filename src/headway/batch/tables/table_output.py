"""Writes the results of a job as a table (.csv, .tsv, .parquet): the columns of the input, then those that Headway adds.

The table has one record a unit. It is written from the store when the run ends, completely or not at all: a spreadsheet would show
half of a growing file, and a Parquet file is invalid without its last byte. Cells of a .csv are written unchanged, unless they
are escaped for spreadsheets (`safe`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.answer_text import answer_of
from headway.batch.file_types import delimiter_of, is_parquet, is_table
from headway.batch.inputs.model_variants import models_of, split_id
from headway.batch.output_file import results_of, unwritable
from headway.batch.outputs.ownership import claim, note_written
from headway.batch.result_rows import ResultRow
from headway.batch.tables.answer_columns import AnswerField, fields_of
from headway.batch.tables.cell_text import text_of, without_formula
from headway.errors import UsageError
from headway.stores.files import Replacement
from headway.stores.records import Job
from headway.stores.store import Store

_decode: Final = msgspec.json.Decoder().decode


class TableLayout(msgspec.Struct, frozen=True):
    """The columns of a table: those of the input, the fields of an answer (with a schema), and the names of added columns.

    Of several `models`, each has its own added columns, such as `answer@gpt-x`. Without several models there is one, "".
    """

    columns: list[str]
    fields: list[AnswerField]
    models: tuple[str, ...]
    names: dict[str, str]
    #: Columns that only some formats have.
    more: tuple[str, ...] = ()

    def added(self) -> list[tuple[str, str]]:
        """The added columns, each as its kind and its model: the answers of all models first, side by side."""
        return [(name, model) for name in _added(self.fields, self.more) for model in self.models]

    def header(self) -> list[str]:
        """The names of all columns, in order."""
        return ["id", *self.columns, *(self.names[_name(*column)] for column in self.added())]


def _added(fields: list[AnswerField], more: tuple[str, ...]) -> list[str]:
    return ["answer", *(f"answer.{field.name}" for field in fields), "status", "error", *more]


def _name(column: str, model: str) -> str:
    return f"{column}@{model}" if model else column


class ModelCells(msgspec.Struct, frozen=True):
    """The added cells of one unit: its answer (None if it failed), the fields of the answer by column, its error."""

    result: ResultRow
    answer: str | None
    fields: dict[str, Any]
    error: str

    def value(self, column: str) -> Any:
        """The value of an added column."""
        match column:
            case "answer":
                return self.answer
            case "status":
                return self.result.status
            case "error":
                return self.error or None
            case "input_tokens" | "output_tokens":
                usage = self.result.usage
                return None if usage is None else int(getattr(usage, column))
            case "cost_usd":
                return self.result.cost_usd
        return self.fields.get(column)


class TableRecord(msgspec.Struct, frozen=True):
    """One row of the input: its id, its cells by column, and the added cells of each model. A model may have no unit for a row."""

    id: str
    cells: dict[str, Any]
    by_model: dict[str, ModelCells]

    def value(self, column: str, model: str) -> Any:
        """The value of an added column; None if it has none."""
        cells = self.by_model.get(model)
        return None if cells is None else cells.value(column)


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
            record.id,
            *(text_of(record.cells.get(column)) for column in layout.columns),
            *(text_of(record.value(*column)) for column in layout.added()),
        ]


def records(store: Store, job: Job, layout: TableLayout) -> Iterator[TableRecord]:
    """Every row as it is now, in input order. The units of a row for several models follow one another."""
    models = [model for model in layout.models if model]

    def row_of(result: ResultRow) -> str:
        return split_id(result.custom_id, models)[0]

    for custom_id, units in groupby(results_of(store, job, 0, job.total - 1), row_of):
        by_model = {split_id(unit.custom_id, models)[1]: _model_cells(unit, layout) for unit in units}
        metadata = next(iter(by_model.values())).result.metadata
        cells = _decode(metadata) if layout.columns and metadata is not None else {}
        yield TableRecord(custom_id, cells, by_model)


def _model_cells(result: ResultRow, layout: TableLayout) -> ModelCells:
    failed = result.error_code is not None
    answer = None if failed else answer_of(result.body)
    fields = _values(answer, layout.fields) if layout.fields else {}
    return ModelCells(result, answer, fields, _error(result) if failed else "")


def layout_of(store: Store, job: Job, more: tuple[str, ...] = ()) -> TableLayout:
    """The columns of a job's table. `more` are columns that only some formats have."""
    columns = _columns_of(store, job)
    fields = fields_of(job.form.get("schema"))
    models = models_of(job) or ("",)
    added = (_name(column, model) for column in _added(fields, more) for model in models)
    return TableLayout(columns, fields, models, _names(columns, added), more)


def _columns_of(store: Store, job: Job) -> list[str]:
    """The columns of the input table without its ids; none if the input has rows."""
    first = store.results(job.id, -1, 1) if "files" in job.form or is_table(job.input) else []
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


def _values(answer: str | None, fields: list[AnswerField]) -> dict[str, Any]:
    """The value of each field in an answer, by its column; None if the answer has no such field."""
    try:
        value = None if answer is None else _decode(answer)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = None
    found = value if isinstance(value, dict) else {}
    return {f"answer.{field.name}": found.get(field.name) for field in fields}


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
                job = self._store.job(self._job.name) or self._job  # It may have grown.
                write_table(fresh.file, self.path.name, self._store, job, safe=self._safe)
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
