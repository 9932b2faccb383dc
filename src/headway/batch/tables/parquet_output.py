"""Writes the results of a job as a Parquet file: the columns of the input with their types, then those that Headway adds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, Final

from headway.batch.tables.arrow_types import pyarrow, restored, unpacked
from headway.batch.tables.table_output import TableLayout, TableRecord, layout_of, records
from headway.stores.records import Job
from headway.stores.store import Store

#: TableRecords in a row group: enough to compress well, few enough to fit in memory with long answers.
GROUP: Final = 10_000
#: Columns that a .csv file does not have.
USAGE: Final = ("input_tokens", "output_tokens", "cost_usd")
_LARGEST: Final = 2**63


def write_parquet(file: BinaryIO, name: str, store: Store, job: Job) -> None:
    """Write the whole table to an open file. `name` is the name of the file, for the error without pyarrow."""
    pa = pyarrow(name)
    layout = layout_of(store, job, USAGE)
    schema = _schema(layout, job)
    with pa.parquet.ParquetWriter(file, schema) as writer:
        for group in _groups(records(store, job, layout)):
            writer.write_batch(pa.record_batch(_columns(group, layout, schema), schema=schema))


def _groups(rest: Iterator[TableRecord]) -> Iterator[list[TableRecord]]:
    while group := list(islice(rest, GROUP)):
        yield group


def _schema(layout: TableLayout, job: Job) -> Any:
    """The types of all columns. Columns of a .csv are texts. An id is a text, unless it was a number in the input."""
    pa = pyarrow(job.input)
    packed = job.form.get("columns")
    known = {each.name: each.type for each in unpacked(packed)} if packed else {}
    own = known.get("id", pa.string())
    kinds = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    usage = [pa.int64(), pa.int64(), pa.float64()]
    return pa.schema(
        [
            ("id", own if pa.types.is_integer(own) else pa.string()),
            *((name, known.get(name, pa.string())) for name in layout.columns),
            (layout.names["answer"], pa.string()),
            *((layout.names[f"answer.{field.name}"], kinds[field.kind]) for field in layout.fields),
            (layout.names["status"], pa.string()),
            (layout.names["error"], pa.string()),
            *((layout.names[name], kind) for name, kind in zip(USAGE, usage, strict=True)),
        ]
    )


def _columns(group: list[TableRecord], layout: TableLayout, schema: Any) -> list[Any]:
    """The records of a row group, column by column, in the schema's order."""
    pa = pyarrow("")
    results = [record.result for record in group]
    ids: list[Any] = [result.custom_id for result in results]
    if pa.types.is_integer(schema.field("id").type):
        ids = [int(one) if one.lstrip("-").isdecimal() else None for one in ids]
    fields = [
        [_fitting(record.fields[place], field.kind) for record in group]
        for place, field in enumerate(layout.fields)
    ]
    plain = [
        ids,
        *([record.cells.get(name) for record in group] for name in layout.columns),
        [record.answer for record in group],
        *fields,
        [result.status for result in results],
        [record.error or None for record in group],
        [None if result.usage is None else int(result.usage.input_tokens) for result in results],
        [None if result.usage is None else int(result.usage.output_tokens) for result in results],
        [result.cost_usd for result in results],
    ]
    return [restored(values, each.type) for values, each in zip(plain, schema, strict=True)]


def _fitting(value: Any, kind: str) -> Any:
    """The value of a field for its column. A number beyond 64 bits becomes null; it is still in the answer."""
    if kind == "integer" and isinstance(value, int | float):
        return int(value) if -_LARGEST <= value < _LARGEST else None
    return value
