"""The length of an input is that of its texts; whatever else it holds counts a fixed number and raises nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.batch import input_size
from headway.batch.input_size import IMAGE_CHARS, TOKEN_CHARS


@pytest.mark.parametrize(
    ("content", "length"),
    [
        ("äbc", 3),
        (None, 0),
        ([], 0),
        ([{"type": "text", "text": "abc"}, {"type": "input_text", "text": "de"}, "f"], 6),
        ([{"type": "image_url", "image_url": {"url": "data:" + "x" * 9999}}], IMAGE_CHARS),
        ([{"type": "image", "source": {"type": "base64", "data": "x" * 9999}}, {"type": "text", "text": "a"}], IMAGE_CHARS + 1),
        ([{"type": "file", "file": {"file_data": "x" * 9999}}], IMAGE_CHARS),
        ([{"type": "thinking", "thinking": "abcd"}], 4),
        ([{"type": "refusal", "refusal": "abcd"}], 4),
        ([{"type": "tool_use", "input": {"a": 1}}], 7),
        ([{"type": "tool_result", "content": "abc"}], 3),
        ([{"type": "tool_result", "content": [{"type": "text", "text": "ab"}, {"type": "image"}]}], 2 + IMAGE_CHARS),
        ([{"type": "tool_result"}], 0),
        ([{"type": "function_call", "arguments": "{}"}, {"type": "function_call_output", "output": "abc"}], 5),
        ([{"role": "user", "content": "abc"}, {"type": "message", "content": [{"type": "output_text", "text": "d"}]}], 4),
        ([{"type": []}, 5, None], IMAGE_CHARS),
        (7, 0),
    ],
)  # fmt: skip
def test_the_length_of_a_content(content: object, length: int) -> None:
    assert input_size.of_content(content) == length
    assert input_size.of_chat({"messages": [{"role": "user", "content": content}]}) == length
    assert input_size.of_response({"input": content}) == length


def test_everything_of_a_chat_that_costs_tokens_counts() -> None:
    body: dict[str, Any] = {
        "system": "abc",
        "messages": [
            {"role": "user", "content": "de"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": 1}]},
        ],
        "tools": [{"a": 1}],
        "response_format": {"b": 2},
        "stop": "never counted",
    }
    assert input_size.of_chat(body) == len('abcde[{"id":1}][{"a":1}]{"b":2}')
    assert input_size.of_response({"input": "a", "instructions": "bc", "tools": [], "text": {}}) == len(
        "abc[]{}"
    )


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ("abc", 3),
        (["abc", "d"], 4),
        ([1, 2, 3], 3 * TOKEN_CHARS),
        ([[1, 2], [3]], 3 * TOKEN_CHARS),
    ],
)
def test_embedded_texts_and_tokens(value: object, length: int) -> None:
    assert input_size.of_embedding({"input": value}) == length


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["type", "text", "content", "input", "output"]), inner)
        ),
        max_leaves=10,
    )
)
def test_no_body_is_rejected(content: object) -> None:
    assert input_size.of_content(content) >= 0
