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
    added = dict(zip(USAGE, [pa.int64(), pa.int64(), pa.float64()], strict=True))
    added |= {f"answer.{field.name}": kinds[field.kind] for field in layout.fields}
    first = 1 + len(layout.columns)
    return pa.schema(
        [
            ("id", own if pa.types.is_integer(own) else pa.string()),
            *((name, known.get(name, pa.string())) for name in layout.columns),
            *(
                (name, added.get(column, pa.string()))
                for name, (column, _) in zip(layout.header()[first:], layout.added(), strict=True)
            ),
        ]
    )


def _columns(group: list[TableRecord], layout: TableLayout, schema: Any) -> list[Any]:
    """The records of a row group, column by column, in the schema's order."""
    pa = pyarrow("")
    ids: list[Any] = [record.id for record in group]
    if pa.types.is_integer(schema.field("id").type):
        ids = [int(one) if one.lstrip("-").isdecimal() else None for one in ids]
    kinds = {f"answer.{field.name}": field.kind for field in layout.fields}
    plain = [
        ids,
        *([record.cells.get(name) for record in group] for name in layout.columns),
        *(
            [_fitting(record.value(column, model), kinds.get(column, "")) for record in group]
            for column, model in layout.added()
        ),
    ]
    return [restored(values, each.type) for values, each in zip(plain, schema, strict=True)]


def _fitting(value: Any, kind: str) -> Any:
    """The value of a field for its column. A number beyond 64 bits becomes null; it is still in the answer."""
    if kind == "integer" and isinstance(value, int | float):
        return int(value) if -_LARGEST <= value < _LARGEST else None
    return value
