"""Reads a table (.csv, .tsv): one row a record. The cells go into the prompt template, and into the results as metadata.

It is read as a stream, by Python's csv module in strict mode. An error in one record makes a bad row. An error after which the
end of records is unknown (a quote that is never closed) is an error of the file.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, Final

from headway.batch.attachments.references import AttachTemplates
from headway.batch.file_types import delimiter_of
from headway.batch.prompt_template import BoundTemplate, Template
from headway.batch.reader import LONGEST_LINE, Reader
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, from_fields
from headway.config.routing import Router
from headway.errors import ConfigError

ID: Final = "id"
MODEL: Final = "model"
PRIORITY: Final = "priority"

_UNCLOSED: Final = "unexpected end of data"
_RETURN: Final = "new-line character seen in unquoted field"


def numbered(
    reader: Reader, router: Router, request_options: RequestOptions
) -> Iterator[tuple[int, Row | BadRow]]:
    """Every record with its first line, in order, including bad ones."""
    rows = _Records(reader)
    columns = rows.header()
    schema = request_options.schema_requests()
    short_rows = bound(columns, reader.name, request_options)
    for line, record in rows:
        if isinstance(record, str):
            yield line, BadRow(line, record)
        elif len(record) == 1 < len(columns) and not record[0].strip():
            continue  # A line of spaces counts as blank.
        elif len(record) != len(columns):
            yield line, BadRow(line, f"expected {_cells(len(columns))}, not {len(record):,}")
        else:
            yield line, from_fields(line, short_rows.of(record, record), router, schema)


def records(reader: Reader) -> tuple[list[str], Iterator[tuple[int, list[str] | str]]]:
    """The names of the columns, and each record with its first line: its cells, or what is wrong with it."""
    rows = _Records(reader)
    columns = rows.header()

    def checked() -> Iterator[tuple[int, list[str] | str]]:
        for line, record in rows:
            if isinstance(record, str) or len(record) == len(columns):
                yield line, record
            elif len(record) != 1 or record[0].strip():
                yield line, f"expected {_cells(len(columns))}, not {len(record):,}"

    return columns, checked()


def cell_texts(reader: Reader) -> tuple[list[str], Iterator[list[str] | None]]:
    """The names of the columns, and the cells of each record; None for a bad record."""
    columns, rows = records(reader)
    return columns, (None if isinstance(record, str) else record for _, record in rows)


def check_columns(reader: Reader, request_options: RequestOptions) -> None:
    """Raise if a template names a column that the table does not have. Reads the header only."""
    bound(_Records(reader).header(), reader.name, request_options)


def bound(columns: list[str], table: str, request_options: RequestOptions) -> ShortRows:
    """The templates of the request, for a table with these columns. Raises if they name another column."""
    prompt = Template(request_options.prompt or "", "--prompt")
    system = Template(request_options.system or "", "--system")
    prompt.must_name_one_of(columns)
    return ShortRows(
        columns, prompt.bind(columns, table), system.bind(columns, table), request_options, table
    )


def _cells(n: int) -> str:
    return "1 cell" if n == 1 else f"{n:,} cells"


class ShortRows:
    """Makes short rows from the records of one table."""

    def __init__(
        self,
        columns: Sequence[str],
        prompt: BoundTemplate,
        system: BoundTemplate,
        request_options: RequestOptions,
        table: str,
    ) -> None:
        self._prompt, self._system, self._recipe = prompt, system, request_options
        self._attach = AttachTemplates(request_options.attach, columns, table)
        self._places = {name: place for place, name in enumerate(columns)}
        self._own = [(name, place) for name, place in self._places.items() if name != ID]

    def of(self, record: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        """One short row. Templates get the texts of a record, the metadata its values.

        An empty cell in a column that Headway reads (id, model, priority) counts as missing.
        """
        priority = self._cell(record, PRIORITY)
        row: dict[str, Any] = {
            "prompt": self._prompt.render(record),
            "system": self._system.render(record) or None,
            "id": self._cell(record, ID),
            "model": self._cell(record, MODEL) or self._recipe.model,
            "priority": None if priority is None else _whole(priority),
            "metadata": {name: values[place] for name, place in self._own} or None,
        }
        if self._recipe.max_tokens is not None:
            row["max_tokens"] = self._recipe.max_tokens
        if attachments := self._attach.of(record):
            row["attachments"] = attachments
        return row

    def _cell(self, record: Sequence[str], name: str) -> str | None:
        place = self._places.get(name)
        return None if place is None else record[place].strip() or None


def _whole(cell: str) -> object:
    try:
        return int(cell)
    except ValueError:
        return cell


class _Records:
    """The records of a table: lists of cells, or error messages."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        #: Of the current record: its length, and whether all of it could be decoded.
        self._length = 0
        self._decoded = True
        csv.field_size_limit(LONGEST_LINE)
        self._csv = csv.reader(self._texts(), delimiter=delimiter_of(reader.path) or ",", strict=True)

    def header(self) -> list[str]:
        """The names of the columns."""
        line, cells = next(self, (1, None))
        name = self._reader.name
        if cells is None:
            raise ConfigError(f"{name} is empty", hint="a table begins with the names of its columns")
        if isinstance(cells, str):
            raise ConfigError(f"{name}:{line}: {cells}", hint="a table begins with the names of its columns")
        columns = [cell.strip() for cell in cells]
        for place, column in enumerate(columns):
            if column in columns[:place]:
                what = f"two columns are called '{column}'" if column else "two columns have no name"
                raise ConfigError(f"{name}:{line}: {what}", hint="give each a name of its own")
        return columns

    def __iter__(self) -> Iterator[tuple[int, list[str] | str]]:
        return self

    def __next__(self) -> tuple[int, list[str] | str]:
        while True:
            line = self._csv.line_num + 1
            self._length, self._decoded = 0, True
            try:
                cells = next(self._csv)
            except csv.Error as error:
                return line, self._wrong(line, str(error))
            if not self._decoded:
                return line, "not valid UTF-8: save the file as UTF-8"
            if cells:  # A blank line has none.
                return line, cells

    def _wrong(self, line: int, what: str) -> str:
        """The message for an error of the csv module."""
        if what == _UNCLOSED:
            raise ConfigError(
                f"{self._reader.name}:{line}: a quote is opened here and never closed",
                hint='inside quotes a quote is written twice: ""',
            )
        return "a carriage return outside of quotes" if what.startswith(_RETURN) else what

    def _texts(self) -> Iterator[str]:
        """The lines as texts. A line that is not UTF-8 makes only its own record bad."""
        for raw in self._reader.raw_lines():
            self._length += len(raw)
            if self._length > LONGEST_LINE:
                raise ConfigError(
                    f"{self._reader.name}:{self._reader.lines}: a record is longer than {LONGEST_LINE / 1e6:g} MB",
                    hint="is a quote opened and never closed?",
                )
            try:
                yield raw.decode()
            except UnicodeDecodeError:
                self._decoded = False
                yield raw.decode(errors="replace")
