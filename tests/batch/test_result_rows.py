"""An output line is one line of JSON, as DESIGN has it, and tells whose it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.batch.result_rows import ResultRow, instant, owner_of, result_line
from headway.core.model import Usage

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "batch.md"
LANE = "alpha/gpt-x"
STARTED = datetime(2026, 1, 31, 8, 15, 0, 250_000, UTC).timestamp()

SUCCEEDED = ResultRow(
    job="JOB",
    index=0,
    custom_id="a1",
    status="succeeded",
    lane=LANE,
    attempts=1,
    status_code=200,
    request_id="req_1",
    body=b'{"choices":[{"message":{"content":"bonjour"}}]}',
    usage=Usage(input_tokens=12.0, output_tokens=3.0),
    cost_usd=0.00012,
    started_utc=STARTED,
    finished_utc=STARTED + 0.85,
    metadata=b'{"sheet":4}',
)
FAILED = ResultRow(
    job="JOB",
    index=1,
    custom_id="a2",
    status="failed",
    lane=LANE,
    attempts=1,
    status_code=404,
    request_id="req_2",
    body=b'{"error":{}}',
    error_code="invalid",
    error_message="no such model",
    started_utc=STARTED,
    finished_utc=STARTED + 0.85,
)


def test_the_lines_match_the_examples_of_the_page() -> None:
    example = PAGE.read_text(encoding="utf-8").split("## Output")[1].split("```json\n")[1].split("```")[0]
    assert (result_line(SUCCEEDED) + result_line(FAILED)).decode() == example


def test_keys_are_in_the_documented_order() -> None:
    row = json.loads(result_line(SUCCEEDED))
    assert list(row) == ["id", "custom_id", "response", "error", "headway"]
    assert list(row["response"]) == ["status_code", "request_id", "body"]
    assert list(row["headway"]) == [
        "index",
        "status",
        "lane",
        "attempts",
        "usage",
        "cost_usd",
        "started_utc",
        "finished_utc",
        "text",
        "metadata",
    ]


def test_unknown_values_are_null() -> None:
    row = json.loads(result_line(ResultRow("J", 3, "c", "skipped", LANE, 0, error_code="interrupted")))
    assert row == {
        "id": "J-3",
        "custom_id": "c",
        "response": None,
        "error": {"code": "interrupted", "message": ""},
        "headway": {
            "index": 3,
            "status": "skipped",
            "lane": LANE,
            "attempts": 0,
            "usage": None,
            "cost_usd": None,
            "started_utc": None,
            "finished_utc": None,
            "text": None,
        },
    }


def test_an_answer_without_a_body_has_a_null() -> None:
    row = json.loads(result_line(ResultRow("J", 3, "c", "succeeded", LANE, 1, status_code=204)))
    assert row["response"] == {"status_code": 204, "request_id": "", "body": None}


@pytest.mark.parametrize("body", [b'{\n  "a": [1,\r\n 2.50, "x\\ny z"]\n}\n', b'\n{"a":[1,2.50,"x\\ny z"]}'])
def test_a_body_over_several_lines_becomes_one(body: bytes) -> None:
    line = result_line(msgspec.structs.replace(SUCCEEDED, body=body))
    assert line.count(b"\n") == 1
    assert b'"body":{"a":[1,2.50,"x\\ny z"]}}' in line


def test_numbers_of_a_body_are_unchanged() -> None:
    body = b'{"logprob":-0.10000000000000000555,"big":123456789012345678901234567890,"a":1,"a":2}'
    assert body in result_line(msgspec.structs.replace(SUCCEEDED, body=body))


def test_costs_are_rounded() -> None:
    assert b'"cost_usd":0.3,' in result_line(msgspec.structs.replace(SUCCEEDED, cost_usd=0.1 + 0.2))


@given(st.floats(0, 4e9))
def test_an_instant_is_right_to_the_millisecond(seconds: float) -> None:
    text = instant(seconds)
    assert text is not None
    assert len(text) == len("2026-01-31T08:15:00.250Z")
    assert datetime.fromisoformat(text).timestamp() == pytest.approx(seconds, abs=0.00051)


def test_an_instant_carries_over() -> None:
    assert instant(1769847299.9999) == "2026-01-31T08:15:00.000Z"
    assert instant(0.0) == "1970-01-01T00:00:00.000Z"


@given(st.text(min_size=1), st.integers(0, 2**40), st.text(), st.text(), st.booleans())
def test_every_result_is_one_line_with_an_owner(
    job: str, index: int, custom_id: str, message: str, failed: bool
) -> None:
    ended = FAILED if failed else SUCCEEDED
    line = result_line(
        msgspec.structs.replace(ended, job=job, index=index, custom_id=custom_id, error_message=message)
    )
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    row = json.loads(line)
    assert (row["custom_id"], row["headway"]["index"]) == (custom_id, index)
    assert owner_of(line) == owner_of(line.rstrip()) == job


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{}",
        b"[1]",
        b'{"id":"JOB-0"}',
        b'{"id":"JOB-0","custom_id":"a","response":null,"error":null}',
        b'{"id":"JOB-0","headway":{"index":1}}',
        b'{"id":"JOB-00","headway":{"index":0}}',
        b'{"id":"-0","headway":{"index":0}}',
        b'{"id":"0","headway":{"index":0}}',
        b'{"id":5,"headway":{"index":5}}',
        b'{"id":"JOB-0","headway":{"index":0}',
        b'{"id":"\xff-0","headway":{"index":0}}',
        b'{"x":' + b"[" * 99_999,
    ],
)
def test_a_line_of_another_program_has_no_owner(line: bytes) -> None:
    assert owner_of(line) is None


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_line_ends_between_the_parts_of_an_answer_do_not_split_its_row(tmp_path: Path, end: str) -> None:
    """A bare carriage return is white space in JSON, and the end of a line for who reads a file as text."""
    body = f'{{{end}"choices":{end}[ "a\\rb" ]{end}}}'.encode()
    path = tmp_path / "out.jsonl"
    path.write_bytes(result_line(msgspec.structs.replace(SUCCEEDED, body=body)))
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert [row["response"]["body"] for row in rows] == [{"choices": ["a\rb"]}]
    assert owner_of(path.read_bytes()) == "JOB"
