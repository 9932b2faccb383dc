"""`headway run` with Parquet files."""

from __future__ import annotations

import csv
import datetime as dt
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.install_hint import install_command

PROMPT = ("--prompt", "say {{text}} on {{day}}")


@pytest.fixture
def reviews(stage: Stage) -> Path:
    path = stage.root / "reviews.parquet"
    table = pa.table(
        {
            "id": pa.array([7, 8, None], pa.int32()),
            "text": ["good", "bad", "so so"],
            "day": pa.array([dt.date(2024, 1, 31), None, dt.date(2024, 2, 1)]),
            "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            "error": pa.array([1, 2, 3]),
        }
    )
    pq.write_table(table, path)
    return path


def test_parquet_in_and_out_keeps_the_types(
    stage: Stage, headway: Headway, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.batch.tables.parquet_output.GROUP", 2)
    done = headway("run", "reviews.parquet", *PROMPT, "--out", "out.parquet")
    assert done.code == 0, done.err
    before, after = pq.read_table(reviews), pq.read_table(stage.root / "out.parquet")
    assert pq.ParquetFile(stage.root / "out.parquet").num_row_groups == 2
    assert after.schema.names == [
        "id", "text", "day", "kind", "error", "answer", "status", "headway_error", "input_tokens", "output_tokens", "cost_usd",
    ]  # fmt: skip
    for name in before.schema.names:
        assert after[name].type == before[name].type, name
        assert after[name].to_pylist() == before[name].to_pylist()
    assert after["answer"].to_pylist() == [
        "echo: say good on 2024-01-31",
        "echo: say bad on ",
        "echo: say so so on 2024-02-01",
    ]
    assert after["status"].to_pylist() == ["succeeded"] * 3
    assert after["headway_error"].to_pylist() == [None] * 3
    assert all(after["output_tokens"].to_pylist())
    assert not list(stage.root.glob("*.new"))


def test_a_complete_job_is_not_sent_again_and_its_file_stays(
    stage: Stage, headway: Headway, reviews: Path
) -> None:
    run = ("run", "reviews.parquet", *PROMPT, "--out", "out.parquet")
    assert headway(*run, "-q").code == 0
    first = (stage.root / "out.parquet").read_bytes()
    reviews.rename(stage.root / "renamed.parquet")
    assert "is already complete" in headway("run", "renamed.parquet", *PROMPT, "--out", "out.parquet").err
    assert (stage.root / "out.parquet").read_bytes() == first


@pytest.mark.usefixtures("reviews")
def test_parquet_in_csv_out(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.parquet", *PROMPT, "--out", "o.csv", "-q").code == 0
    with (stage.root / "o.csv").open(newline="") as file:
        records = list(csv.reader(file))
    assert records[0] == ["id", "text", "day", "kind", "error", "answer", "status", "headway_error"]
    assert records[2] == ["8", "bad", "", "b", "2", "echo: say bad on ", "succeeded", ""]
    assert records[3][0] == "row-3"


def test_rows_in_parquet_out(stage: Stage, headway: Headway) -> None:
    stage.write_input([stage.row(0), stage.row(1)])
    assert headway("run", "in.jsonl", "--out", "o.parquet", "-q").code == 0
    table = pq.read_table(stage.root / "o.parquet")
    assert table["id"].to_pylist() == ["u0", "u1"]
    assert table["answer"].to_pylist() == ["echo: say 0", "echo: say 1"]


@pytest.mark.usefixtures("reviews")
def test_a_table_is_the_default_and_export_makes_rows_and_tables(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.parquet", *PROMPT, "-q").code == 0
    assert (
        pq.read_table(stage.root / "reviews.results.parquet")["answer"].to_pylist()[0]
        == "echo: say good on 2024-01-31"
    )
    first = json.loads(headway("export").out.splitlines()[0])
    assert first["headway"]["metadata"] == {"text": "good", "day": "2024-01-31", "kind": "a", "error": 1}
    assert headway("export", "--out", "x.parquet").code == 0
    assert pq.read_table(stage.root / "x.parquet")["day"].to_pylist()[0] == dt.date(2024, 1, 31)


@pytest.mark.usefixtures("reviews")
def test_unfinished_units_are_in_the_table_too(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "reviews.parquet", *PROMPT, "--out", "o.parquet", "-q").code == 1
    table = pq.read_table(stage.root / "o.parquet")
    assert table["answer"].to_pylist() == [None] * 3
    assert all(error.startswith("auth: ") for error in table["headway_error"].to_pylist())


@pytest.mark.usefixtures("reviews")
def test_a_foreign_file_is_not_overwritten(stage: Stage, headway: Headway) -> None:
    pq.write_table(pa.table({"mine": [1]}), stage.root / "o.parquet")
    refused = headway("run", "reviews.parquet", *PROMPT, "--out", "o.parquet")
    assert refused.code == 2
    assert "is not the output of job" in refused.err
    assert pq.read_table(stage.root / "o.parquet").schema.names == ["mine"]


@pytest.mark.usefixtures("reviews")
def test_without_pyarrow_nothing_is_sent(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for args, name in (
        (("run", "reviews.parquet", *PROMPT), "reviews.parquet"),
        (("run", "in.jsonl", "--out", "o.parquet"), "o.parquet"),
        (("run", "in.jsonl", "--out", "o.parquet", "--dry-run"), "o.parquet"),
    ):
        refused = headway(*args)
        assert refused.code == 2
        said = f"'{name}' needs pyarrow — {install_command('parquet')}"
        assert refused.err.splitlines() == [f"headway: {said}"]
    assert stage.query("SELECT count(*) FROM jobs") == [(0,)]
