"""`dataset` nodes: rows of every kind of file, bad rows before anything starts, and a million of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.flows.running.conftest import FlowFolder

FLOW = """
  - {id: rows, kind: dataset, file: ./FILE, writes: [rows]}
  - {id: seen, kind: tool, impl: "./tools/work.py:whole", for_each: {source: $.rows, concurrency: 2}, writes: [seen]}
"""
ROWS = [{"id": "a", "n": "1"}, {"id": "b", "n": "2"}, {"id": "c", "n": "3"}]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS)


def write(folder: Path, name: str) -> None:
    path = folder / name
    match name.removesuffix(".gz").rpartition(".")[2]:
        case "jsonl":
            data = JSONL.encode()
        case "csv":
            data = b'id,n\na,1\n"b",2\n\nc,3\n'
        case "tsv":
            data = b"id\tn\na\t1\nb\t2\nc\t3\n"
        case "json":
            data = json.dumps(ROWS, indent=1).encode()
        case _:
            pq.write_table(pa.table({"id": ["a", "b", "c"], "n": ["1", "2", "3"]}), path)
            return
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


@pytest.mark.parametrize(
    "name", ["r.jsonl", "r.jsonl.gz", "r.csv", "r.csv.gz", "r.tsv", "r.parquet", "r.json", "r.json.gz"]
)
def test_rows_of_every_kind_of_file_are_items(folder: FlowFolder, name: str) -> None:
    write(folder.root, name)
    folder.flow(FLOW.replace("FILE", name))
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    state = folder.results()["state"]
    assert state["rows"] == ROWS
    assert [seen["item"] for seen in state["seen"]] == ROWS
    assert folder.results()["nodes"]["rows"]["status"] == "success"


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("r.jsonl", '{"a": 1}\n{"a": 2\n', "r.jsonl:2: not JSON: it ends too early; nothing was started"),
        ("r.csv", "id,n\na,1\nb\n", "r.csv:3: expected 2 cells, not 1; nothing was started"),
        ("r.json", '{"a": 1}', "r.json: not a list; nothing was started"),
        ("r.json", "[1,", "r.json: not JSON: it ends too early; nothing was started"),
    ],
)
def test_a_bad_row_is_an_error_with_its_line_before_anything_starts(
    folder: FlowFolder, name: str, content: str, error: str
) -> None:
    folder.write(name, content)
    folder.flow(FLOW.replace("FILE", name))
    done = folder.headway("run", "flow.yaml")
    assert (done.code, error in done.err) == (2, True), done.err
    assert folder.calls() == []
    assert "there are no jobs yet" in folder.headway("jobs").out


def test_the_rows_are_part_of_the_job_and_kept_with_it(folder: FlowFolder) -> None:
    folder.write("r.jsonl", JSONL)
    folder.flow(FLOW.replace("FILE", "r.jsonl"))
    folder.headway("run", "flow.yaml")
    first = folder.results()["job"]
    (folder.root / "r.jsonl").unlink()
    folder.write("r.jsonl", JSONL + '{"id": "d", "n": "4"}\n')
    done = folder.headway("run", "flow.yaml")
    assert "was run before as job" in done.err
    assert folder.headway("export", first).code == 0
    assert len(json.loads(folder.headway("export", first).out)["state"]["rows"]) == 3


def test_an_empty_file_is_an_empty_list(folder: FlowFolder) -> None:
    folder.write("r.jsonl", "\n\n")
    folder.flow(FLOW.replace("FILE", "r.jsonl"))
    done = folder.headway("run", "flow.yaml")
    assert (done.code, folder.results()["state"]) == (0, {"rows": [], "seen": []}), done.err
