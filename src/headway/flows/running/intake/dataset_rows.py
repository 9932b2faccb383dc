"""The rows of `dataset` nodes: read from their file when the job is taken in, and kept as values of the job.

.jsonl (one JSON value a line), .csv and .tsv (an object of texts for each record), all of them also as .gz; .parquet (an object for each
record); .json (one list). A row that cannot be read is an error with its line, before anything starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from headway.batch.file_types import delimiter_of, is_parquet
from headway.batch.reader import LONGEST_LINE, Reader, digest_of
from headway.errors import InputError, UsageError
from headway.jobs.base import RowProgress, Sink

#: The most rows and bytes in one transaction: about 0.1 s.
PAGE: Final = 20_000
PAGE_BYTES: Final = 16_000_000
#: Bad rows that an error names.
MOST_SHOWN: Final = 20
_check: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def rows_name(node: str) -> str:
    """The list of the job's values that has the rows of a node, by the path of the node."""
    return f"rows:{node}"


def dataset_digest(path: Path) -> str:
    """The digest of a file's content. A file and its .gz are the same."""
    return digest_of(path)


def add_rows(sink: Sink, job: int, node: str, path: Path, progress: RowProgress = lambda rows: None) -> int:
    """Write the rows of a file to a job's values; returns how many. Raises InputError with every bad row, up to a few."""
    name, count = rows_name(node), 0
    for page in _pages(rows_of(path)):
        sink.add_values(job, name, count, page)
        count += len(page)
        progress(count)
    return count


def _pages(rows: Iterator[bytes]) -> Iterator[list[bytes]]:
    page: list[bytes] = []
    size = 0
    for row in rows:
        page.append(row)
        size += len(row)
        if len(page) == PAGE or size >= PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def rows_of(path: Path) -> Iterator[bytes]:
    """The rows as JSON. Raises InputError with every bad row, up to a few."""
    if is_parquet(path):
        return _parquet_rows(path)
    if delimiter_of(path) is not None:
        return _good_rows(path, _records(path))
    if path.name.removesuffix(".gz").endswith(".json"):
        return _list_rows(path)
    return _good_rows(path, _lines(path))


def _good_rows(path: Path, rows: Iterator[tuple[int, bytes | str]]) -> Iterator[bytes]:
    """The rows. `rows` has each with its line, or what is wrong with it as a text."""
    bad: list[str] = []
    for line, row in rows:
        if isinstance(row, str):
            bad.append(f"{path}:{line}: {row}")
            if len(bad) >= MOST_SHOWN:
                break
        elif not bad:
            yield row
    if len(bad) == 1:
        raise InputError(f"{bad[0]}; nothing was started", hint="fix that row")
    if bad:
        more = ("and perhaps more",) if len(bad) >= MOST_SHOWN else ()
        raise InputError(f"{path} has bad rows; nothing was started", (*bad, *more), hint="fix them")


def _lines(path: Path) -> Iterator[tuple[int, bytes | str]]:
    for number, line in Reader(path):
        if line is None:
            yield number, f"longer than {LONGEST_LINE / 1e6:g} MB"
            continue
        try:
            _check(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            yield number, f"not JSON: {_why(error)}"
        else:
            yield number, line


def _records(path: Path) -> Iterator[tuple[int, bytes | str]]:
    from headway.batch.tables import csv_input

    columns, records = csv_input.records(Reader(path))
    for line, record in records:
        yield line, record if isinstance(record, str) else _encode(dict(zip(columns, record, strict=True)))


def _parquet_rows(path: Path) -> Iterator[bytes]:
    from headway.batch.tables import parquet_input  # imports pyarrow

    return map(_encode, parquet_input.records(str(path), path.name))


def _list_rows(path: Path) -> Iterator[bytes]:
    data = b"".join(Reader(path).raw_lines()) if path.suffix == ".gz" else path.read_bytes()
    try:
        rows = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        why = "not a list" if isinstance(error, msgspec.ValidationError) else f"not JSON: {_why(error)}"
        raise UsageError(
            f"{path}: {why}; nothing was started",
            hint="a .json file of rows is one list; a .jsonl file has a row a line",
        ) from None
    return map(bytes, rows)


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "not valid UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    what = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if what == "Input data was truncated" else what
