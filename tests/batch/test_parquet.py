"""A Parquet file becomes one row a record, and comes back with the types that it had."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.batch.configs import ALPHA, config

from headway.batch.input_source import open_batch
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row
from headway.batch.tables.arrow_types import packed, plain_values, restored, unpacked
from headway.batch.tables.cell_text import text_of
from headway.config.routing import Router
from headway.errors import HeadwayError
from headway.install_hint import install_command

ROUTER = Router(config(ALPHA))

COLUMNS: dict[str, Any] = {
    "text": pa.array(["a", "", None]),
    "large": pa.array(["a", "b", None], pa.large_string()),
    "whole": pa.array([1, -(2**63), None], pa.int64()),
    "unsigned": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "small": pa.array([1, 2, None], pa.int8()),
    "real": pa.array([1.5, float("inf"), None], pa.float64()),
    "half": pa.array([1.5, 0.25, None], pa.float16()),
    "flag": pa.array([True, False, None]),
    "nothing": pa.array([None, None, None]),
    "bytes": pa.array([b"\xff\x00", b"", None]),
    "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), None]),
    "date": pa.array([dt.date(2024, 1, 31), dt.date(1, 1, 1), None]),
    "day": pa.array([0, 86_400_000, None], pa.date64()),
    "time": pa.array([dt.time(10, 1, 2, 3), dt.time(0), None]),
    "seconds": pa.array([dt.time(10, 1, 2), dt.time(0), None], pa.time32("s")),
    "local": pa.array([1_706_695_200_000_000, -62_135_592_938_999_999, None], pa.timestamp("us")),
    "nano": pa.array([1_700_000_000_123_456_789, -1, None], pa.timestamp("ns")),
    "utc": pa.array([1_700_000_000_123_456, 0, None], pa.timestamp("us", tz="UTC")),
    "berlin": pa.array([1_700_000_000, 1_720_000_000, None], pa.timestamp("s", tz="Europe/Berlin")),
    "span": pa.array([dt.timedelta(seconds=5), dt.timedelta(0), None]),
    "coded": pa.array(["a", "b", None]).dictionary_encode(),
    "list": pa.array([["a", None], [], None]),
    "dates": pa.array([[dt.date(2024, 1, 1), None], [], None]),
    "pair": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int32(), 2)),
    "object": pa.array(
        [{"at": 1_704_067_200_000_000, "n": [Decimal("1.1")], "b": b"x"}, {"at": None, "n": None, "b": None}, None],
        pa.struct({"at": pa.timestamp("us"), "n": pa.list_(pa.decimal128(2, 1)), "b": pa.binary()}),
    ),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    "times": pa.array([[dt.time(1, 2, 3)], [], None]),
}  # fmt: skip


def through_json(column: Any) -> Any:
    values = msgspec.json.decode(msgspec.json.encode(plain_values(column)))
    [kind] = unpacked(packed(pa.schema([("c", column.type)]))).types
    return restored(values, kind)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_round_trips(name: str) -> None:
    column = COLUMNS[name]
    assert through_json(column).type == column.type
    assert through_json(column).equals(column)
    assert through_json(column.slice(2)).to_pylist() == [None]
    assert through_json(column.slice(0, 0)).to_pylist() == []


#: Arrow writes the first second of all nanoseconds, and does not read it.
FIRST_NS = -(2**63) + 1_000_000_000


@given(st.lists(st.one_of(st.none(), st.integers(FIRST_NS, 2**63 - 1))))
def test_nanoseconds_round_trip(instants: list[int | None]) -> None:
    column = pa.array(instants, pa.timestamp("ns"))
    assert through_json(column).equals(column)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([FIRST_NS - 10**9, 5], pa.timestamp("ns")),
        pa.array([10**18, 5], pa.timestamp("us")),
        pa.array([10**7, 5], pa.date32()),
        pa.array([[10**18], [5]], pa.list_(pa.timestamp("us"))),
    ],
    ids=["nanoseconds", "microseconds", "days", "inside of a list"],
)
def test_an_instant_that_cannot_be_read_back_is_null_and_others_are_kept(column: Any) -> None:
    again = through_json(column)
    assert again[1].equals(column[1])
    assert again[0].as_py() is None or again[0].equals(column[0])


def test_nan_and_infinity_round_trip() -> None:
    assert str(through_json(pa.array([float("nan")]))[0]) == "nan"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "a"),
        ("whole", "1"),
        ("real", "1.5"),
        ("flag", "true"),
        ("nothing", ""),
        ("bytes", "/wA="),
        ("decimal", "1.50"),
        ("date", "2024-01-31"),
        ("time", "10:01:02.000003"),
        ("local", "2024-01-31T10:00:00"),
        ("nano", "2023-11-14T22:13:20.123456789"),
        ("utc", "2023-11-14T22:13:20.123456Z"),
        ("berlin", "2023-11-14T23:13:20+0100"),
        ("coded", "a"),
        ("list", '["a",null]'),
        ("object", '{"at":"2024-01-01 00:00:00.000000","n":["1.1"],"b":"eA=="}'),
    ],
)
def test_values_in_a_template(name: str, text: str) -> None:
    values = plain_values(COLUMNS[name])
    assert text_of(values[0]) == text
    assert text_of(values[2]) == ""


# -- rows -------------------------------------------------------------------------------------------------------------


def rows(path: Path, request_options: RequestOptions) -> list[Row | BadRow]:
    with open_batch(str(path), request_options=request_options) as source:
        return [row for _, row in source.numbered(ROUTER)]


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_one_record_one_row(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", id=[7, None, 9], text=["a", "b", None], n=[1.5, None, 3.0])
    first, second, third = rows(path, RequestOptions(prompt="say {{text}} {{n}}", max_tokens=5))
    assert isinstance(first, Row)
    assert (first.custom_id, first.metadata) == ("7", b'{"text":"a","n":1.5}')
    body = msgspec.json.decode(first.body)
    assert (body["messages"][0]["content"], body["max_tokens"]) == ("say a 1.5", 5)
    assert isinstance(second, Row)
    assert (second.custom_id, second.metadata) == ("row-2", b'{"text":"b","n":null}')
    assert isinstance(third, Row)
    assert msgspec.json.decode(third.body)["messages"][0]["content"] == "say  3.0"


def test_id_model_and_priority_columns_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=["a", "b"], model=["gpt-y", None], priority=[3, None])
    first, second = rows(path, RequestOptions(prompt="{{text}}", model="gpt-z"))
    assert isinstance(first, Row)
    assert isinstance(second, Row)
    assert [(row.model, row.priority) for row in (first, second)] == [("gpt-y", 3), ("gpt-z", 0)]


def test_a_bad_row_has_its_record_number(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=["a", None, "c"])
    assert rows(path, RequestOptions(prompt="{{text}}"))[1] == BadRow(
        2, '"prompt" must be a string that is not empty'
    )


def test_only_the_rows_up_to_the_limit_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=[str(n) for n in range(5_000)])
    assert len(rows(path, RequestOptions(prompt="{{text}}", limit=1_500))) == 1_500


# -- mistakes ---------------------------------------------------------------------------------------------------------


def refused(path: Path, request_options: RequestOptions) -> str:
    with pytest.raises(HeadwayError) as error:
        rows(path, request_options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=["a"])
    said = refused(path, RequestOptions(prompt="{{txet}}"))
    assert said == "t.parquet has no column 'txet', which --prompt names — did you mean 'text'?"


def test_two_columns_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["x", "x"]), path)
    assert "two columns are called 'x'" in refused(path, RequestOptions(prompt="{{x}}"))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"id,text\n1,a\n", b"x" * 5_000])
def test_a_file_that_is_not_parquet_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    assert (
        refused(path, RequestOptions(prompt="{{x}}"))
        == "t.parquet is not a Parquet file — check what wrote it"
    )


def test_a_truncated_or_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", text=[str(n) * 9 for n in range(3_000)])
    data = bytearray(path.read_bytes())
    path.write_bytes(data[: len(data) // 2])
    assert "is not a Parquet file" in refused(path, RequestOptions(prompt="{{text}}"))
    data[4:2_000] = b"\0" * 1_996
    path.write_bytes(data)
    assert "t.parquet: cannot be read" in refused(path, RequestOptions(prompt="{{text}}"))


def test_without_pyarrow_one_line_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", text=["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(path, RequestOptions(prompt="{{text}}"))
    assert said == f"'t.parquet' needs pyarrow — {install_command('parquet')}"


def test_compressed_parquet_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.parquet.gz").touch()
    assert "gunzip" in refused(tmp_path / "t.parquet.gz", RequestOptions(prompt="{{text}}"))
