"""Reads a .parquet file: one row a record, in batches, with at most one row group in memory.

Records are numbered from 1. Their values are stored as JSON and keep their types as far as JSON can; templates get them as
texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, from_fields
from headway.batch.tables.arrow_types import packed, plain_values, pyarrow, readable
from headway.batch.tables.cell_text import text_of
from headway.batch.tables.csv_input import bound
from headway.config.routing import Router
from headway.errors import ConfigError

#: Records that are converted to Python objects at once.
BATCH: Final = 1_000


def numbered(
    path: str, name: str, router: Router, request_options: RequestOptions
) -> Iterator[tuple[int, Row | BadRow]]:
    """Every record with its number, in order, including bad ones."""
    schema = request_options.schema_requests()
    with _opened(path, name) as file:
        short_rows = bound(_columns(file, name), name, request_options)
        for number, values in enumerate(_records(file, name), 1):
            row = short_rows.of([text_of(value) for value in values], values)
            yield number, from_fields(number, row, router, schema)


def cell_texts(path: str, name: str) -> tuple[list[str], Iterator[list[str] | None]]:
    """The names of the columns, and the cells of each record as texts."""
    with _opened(path, name) as file:
        columns = _columns(file, name)

    def cells() -> Iterator[list[str] | None]:
        with _opened(path, name) as file:
            for values in _records(file, name):
                yield [text_of(value) for value in values]

    return columns, cells()


def records(path: str, name: str) -> Iterator[dict[str, Any]]:
    """Every record, by the names of its columns."""
    with _opened(path, name) as file:
        columns = _columns(file, name)
        for values in _records(file, name):
            yield dict(zip(columns, values, strict=True))


def check_columns(path: str, name: str, request_options: RequestOptions) -> None:
    """Raise if a template names a column that the table does not have."""
    with _opened(path, name) as file:
        bound(_columns(file, name), name, request_options)


def columns_of(path: str, name: str) -> str:
    """The names and types of the columns, for the record."""
    with _opened(path, name) as file:
        _columns(file, name)
        return packed(file.schema_arrow)


@contextmanager
def _opened(path: str, name: str) -> Iterator[Any]:
    pa = pyarrow(name)
    with readable(name):
        file = pa.parquet.ParquetFile(path, memory_map=False)
    with file:
        yield file


def _columns(file: Any, name: str) -> list[str]:
    columns: list[str] = file.schema_arrow.names
    twice = next((column for place, column in enumerate(columns) if column in columns[:place]), None)
    if twice is not None:
        raise ConfigError(f"{name}: two columns are called '{twice}'", hint="give each a name of its own")
    return columns


def _records(file: Any, name: str) -> Iterator[tuple[Any, ...]]:
    """The values of each record. Only the reading is inside `readable`: errors of callers pass unchanged."""
    batches = file.iter_batches(BATCH, use_threads=False)
    while True:
        with readable(name):
            batch = next(batches, None)
            if batch is None:
                return
            values = [plain_values(column) for column in batch.columns]
        yield from zip(*values, strict=True)
