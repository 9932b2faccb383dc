"""Which requests have more input than their own text."""

from __future__ import annotations

from typing import Any

import pytest

from headway.batch.input_size import has_open_input
from headway.batch.prompt_families import Families, traits_of


def said(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


TEXT = {"type": "text", "text": "What is on it?"}
FILE = {"type": "file", "file": {"file_id": "file-1"}}


@pytest.mark.parametrize(
    "body",
    [
        said(TEXT, FILE),
        said(TEXT, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}),
        said({"type": "input_audio", "input_audio": {}}),
        said({"type": "tool_result", "content": [TEXT, {"type": "image", "source": {}}]}),
        said({"document": {"format": "pdf", "source": {"s3Location": {"uri": "s3://a/b"}}}}),
        {"contents": [{"parts": [{"text": "x"}, {"fileData": {"fileUri": "gs://a"}}]}]},
        {"contents": [{"parts": [{"text": "x"}]}], "cachedContent": "cachedContents/1"},
        {"input": "Go on.", "previous_response_id": "resp_1"},
        {"input": "Go on.", "conversation": "conv_1"},
        {"input": "x", "prompt": {"id": "pmpt_1"}},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
        {"input": "x", "tools": [{"type": "web_search"}]},
        {**said(TEXT), "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"googleSearch": {}}]},
        {**said(TEXT), "web_search_options": {}},
    ],
)
def test_files_images_searches_and_stored_data_are_open_input(body: dict[str, Any]) -> None:
    assert has_open_input(body)
    families = Families()
    families.number(1, traits_of("/p", body, (), 0.0, templated=False))
    assert families.all()[0].open_input


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]},
        said(TEXT, "plain", {"type": "thinking", "thinking": "x"}, {"type": "refusal", "refusal": "x"}),
        said({"type": "tool_use", "input": {}}, {"type": "tool_result", "content": "x"}, {"type": "tool_result"}),
        said({"text": "x"}, {"toolUse": {}}, {"toolResult": {"content": [{"text": "x"}]}}, {"cachePoint": {}}),
        {"contents": [{"parts": [{"text": "x"}, {"functionCall": {}}, {"functionResponse": {}}]}]},
        {"input": ["one", "two"]},
        {"input": [[1, 2], [3]]},
        {"input": "x", "previous_response_id": None, "tools": [{"type": "function", "name": "f"}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]},
                   {"type": "function_call", "arguments": "{}"}, {"type": "function_call_output", "output": "x"}]},
        {**said(TEXT), "tools": [{"name": "f", "input_schema": {}}, {"type": "custom", "name": "g"}]},
        {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": []}]},
        {"prompt": "Once upon a time"},
        {"messages": None, "tools": "odd", "input": 7},
    ],
)  # fmt: skip
def test_texts_and_tool_calls_are_not_open_input(body: dict[str, Any]) -> None:
    assert not has_open_input(body)


def test_rows_with_a_file_are_a_family_of_their_own() -> None:
    families = Families()
    numbers = [
        families.number(1, traits_of("/p", body, (), 0.0, templated=False))
        for body in (said(TEXT), said(TEXT, FILE), said(TEXT))
    ]
    assert numbers == [1, 2, 1]
