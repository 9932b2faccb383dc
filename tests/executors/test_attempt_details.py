"""The details of attempts: one format, bounded, without keys, for any values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.core.model import Kind, Outcome
from headway.executors.attempt_details import LARGEST, LONGEST_TEXT, AttemptDetails, details_of
from headway.executors.work_result import WorkResult

KEY = "sk-proj-abcdefghijklmnop0123456789"


def recorded(**fields: Any) -> Any:
    encoded = AttemptDetails(**fields).encode()
    assert len(encoded) <= LARGEST
    return json.loads(encoded) if encoded else None


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


def itself() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def test_an_attempt_without_details_has_no_record() -> None:
    assert AttemptDetails().encode() == b""
    assert details_of(WorkResult("value", b"{}")).encode() == b""


def test_only_fields_with_a_value_are_recorded() -> None:
    turns = [
        {"role": "user", "content": "Hi 日本"},
        {"type": "tool_use", "input": {"path": "a.py", "n": [1, None]}},
    ]
    record = recorded(prompt="Hi", messages=turns, session_id="s-1", files=["a"], output={"n": 1})
    assert record == {
        "prompt": "Hi",
        "messages": turns,
        "session_id": "s-1",
        "files": ["a"],
        "output": {"n": 1},
    }


def test_the_ends_of_a_workers_output_are_kept() -> None:
    result = WorkResult(
        "crash",
        outcome=Outcome(Kind.CRASH),
        stdout=b"x" * 5_000 + b"end",
        stderr=b" \n",
        trace="T",
        memory=12_340_000,
    )
    record = json.loads(details_of(result).encode())
    assert record == {"memory_mb": 12.3, "stdout": "x" * 4_093 + "end", "trace": "T"}


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": f"use {KEY} please"},
        {"messages": [{"role": "user", "content": [{"text": f"key\n{KEY}"}]}]},
        {"messages": [{"headers": {"authorization": f"Bearer {KEY}"}}]},
        {"messages": [{"input": {"api_key": "abcdefghijklmnop0123456789"}}]},
        {"stderr": f"x\tauthorization: {KEY}"},
        {"output": {KEY: 1}},
    ],
)
def test_keys_are_removed_everywhere(fields: dict[str, Any]) -> None:
    encoded = AttemptDetails(**fields).encode().decode()
    assert "abcdefghijklmnop" not in encoded
    assert "…" in encoded


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {(1, 2): 3},
        "\ud800 half",
        nested(100_000),
        itself(),
        2**80,
        float("nan"),
        Rude(),
        b"\xff",
        {1: 2},
        Kind.RATE,
    ],
)
def test_any_value_can_be_recorded(value: Any) -> None:
    for fields in ({"output": value}, {"messages": [{"role": "tool", "content": value}]}):
        record = recorded(prompt="p", **fields)
        assert record["prompt"] == "p"
        assert set(record) == {"prompt", *fields}


def test_a_long_text_is_cut_in_its_middle() -> None:
    record = recorded(prompt="a" * LONGEST_TEXT + "b" * LONGEST_TEXT)["prompt"]
    assert record.startswith("aaa")
    assert record.endswith("bbb")
    assert f"… {LONGEST_TEXT:,} characters left out …" in record
    assert len(record) < LONGEST_TEXT + 100


def test_a_large_conversation_has_its_long_texts_cut_first() -> None:
    turns = [{"role": "tool", "content": str(n) * 100_000} for n in range(100)]
    record = recorded(messages=turns)["messages"]
    assert len(record) == 100
    assert all("characters left out" in turn["content"] for turn in record[10:])


def test_a_larger_conversation_loses_turns_in_the_middle() -> None:
    turns = [{"role": "user", "content": f"{n:07d}"} for n in range(200_000)]
    record = recorded(messages=turns, prompt="p")["messages"]
    assert record[0]["content"] == "0000000"
    assert record[-1]["content"] == "0199999"
    assert record[len(record) // 2]["content"].endswith("messages left out")


def test_a_field_that_is_still_too_large_is_replaced_by_its_size() -> None:
    record = recorded(prompt="p", output=list(range(2_000_000)))
    assert record["prompt"] == "p"
    assert record["output"].endswith("bytes, too large to keep")
