"""What attempts leave behind: one shape, bounded, without keys, whatever it is given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.core.model import Kind, Outcome
from headway.executors.attempt_details import LARGEST, LONGEST_TEXT, AttemptDetails, details_of
from headway.executors.work_result import WorkResult

KEY = "sk-proj-abcdefghijklmnop0123456789"


def recorded(**fields: Any) -> Any:
    said = AttemptDetails(**fields).encode()
    assert len(said) <= LARGEST
    return json.loads(said) if said else None


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


def test_an_attempt_that_leaves_nothing_has_no_record() -> None:
    assert AttemptDetails().encode() == b""
    assert details_of(WorkResult("value", b"{}")).encode() == b""


def test_only_what_there_is_goes_on_record() -> None:
    turns = [
        {"role": "user", "content": "Hi 日本"},
        {"type": "tool_use", "input": {"path": "a.py", "n": [1, None]}},
    ]
    told = recorded(prompt="Hi", messages=turns, session_id="s-1", files=["a"], output={"n": 1})
    assert told == {
        "prompt": "Hi",
        "messages": turns,
        "session_id": "s-1",
        "files": ["a"],
        "output": {"n": 1},
    }


def test_of_a_worker_the_ends_of_its_output_are_kept() -> None:
    result = WorkResult(
        "crash",
        outcome=Outcome(Kind.CRASH),
        stdout=b"x" * 5_000 + b"end",
        stderr=b" \n",
        trace="T",
        memory=12_340_000,
    )
    told = json.loads(details_of(result).encode())
    assert told == {"memory_mb": 12.3, "stdout": "x" * 4_093 + "end", "trace": "T"}


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
def test_keys_are_blotted_out_wherever_they_are(fields: dict[str, Any]) -> None:
    said = AttemptDetails(**fields).encode().decode()
    assert "abcdefghijklmnop" not in said
    assert "…" in said


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
def test_whatever_it_is_given_goes_on_record(value: Any) -> None:
    for fields in ({"output": value}, {"messages": [{"role": "tool", "content": value}]}):
        told = recorded(prompt="p", **fields)
        assert told["prompt"] == "p"
        assert set(told) == {"prompt", *fields}


def test_a_long_text_is_cut_in_its_middle() -> None:
    told = recorded(prompt="a" * LONGEST_TEXT + "b" * LONGEST_TEXT)["prompt"]
    assert told.startswith("aaa")
    assert told.endswith("bbb")
    assert f"… {LONGEST_TEXT:,} characters left out …" in told
    assert len(told) < LONGEST_TEXT + 100


def test_a_conversation_that_is_too_large_has_its_long_texts_cut_first() -> None:
    turns = [{"role": "tool", "content": str(n) * 100_000} for n in range(100)]
    told = recorded(messages=turns)["messages"]
    assert len(told) == 100
    assert all("characters left out" in turn["content"] for turn in told[10:])


def test_then_its_middle_is_left_out() -> None:
    turns = [{"role": "user", "content": f"{n:07d}"} for n in range(200_000)]
    told = recorded(messages=turns, prompt="p")["messages"]
    assert told[0]["content"] == "0000000"
    assert told[-1]["content"] == "0199999"
    assert told[len(told) // 2]["content"].endswith("messages left out")


def test_and_what_is_still_too_large_is_named() -> None:
    told = recorded(prompt="p", output=list(range(2_000_000)))
    assert told["prompt"] == "p"
    assert told["output"].endswith("bytes, too large to keep")
