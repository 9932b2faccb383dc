"""Rows for a function: the payload, or everything that is not Headway's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row, from_fields, parse
from headway.config import Config, ProviderConfig, WorkersConfig
from headway.config.routing import Router

WORK = ProviderConfig("work", "python", "", "", model="grade", kind_settings=WorkersConfig("grading:grade"))
ALPHA = ProviderConfig("alpha", "openai", "http://127.0.0.1:1", "KEY", model="gpt-x")
ALONE = Router(Config(None, Path(), "h.db", {"work": WORK}))
BOTH = Router(Config(None, Path(), "h.db", {"work": WORK, "alpha": ALPHA}))


def row(given: dict[str, Any], router: Router = ALONE, request_options: RequestOptions | None = None) -> Row:
    read = parse(1, json.dumps(given).encode(), router, request_options)
    assert isinstance(read, Row), read
    return read


@pytest.mark.parametrize(
    ("given", "payload"),
    [
        ({"payload": [1]}, [1]),
        ({"payload": None}, None),
        ({"text": "x", "n": 1}, {"text": "x", "n": 1}),
        ({"prompt": "hello"}, {"prompt": "hello"}),
        ({"url": "http://127.0.0.1/"}, {"url": "http://127.0.0.1/"}),
        ({"body": "some text"}, {"body": "some text"}),
        ({}, {}),
        ({"text": "x", "model": "large"}, {"text": "x", "model": "large"}),
    ],
)
def test_a_function_gets_all_fields_that_are_not_for_headway(given: dict[str, Any], payload: object) -> None:
    read = row({"id": "a", "metadata": {"k": 1}, "priority": 3, "serial": True, **given})
    assert json.loads(read.body) == payload
    assert (read.custom_id, read.provider, read.path, read.priority, read.serial) == (
        "a",
        "work",
        "python",
        3,
        True,
    )
    assert read.metadata == b'{"k":1}'
    assert read.model == given.get("model", "grade")


def test_rows_for_servers_are_unchanged() -> None:
    asked = {"id": "a", "prompt": "hello", "model": "alpha/gpt-y"}
    assert row(asked, BOTH).path == "/v1/chat/completions"
    body = {"model": "alpha/gpt-y", "messages": [{"role": "user", "content": "x"}]}
    assert row({"custom_id": "b", "url": "/v1/chat/completions", "body": body}, BOTH).provider == "alpha"
    assert row({"id": "c", "model": "work/grade", "text": "x"}, BOTH).provider == "work"


def test_a_flag_names_the_model_of_rows_that_name_none() -> None:
    assert row({"text": "x"}, BOTH, RequestOptions(model="work/large")).model == "large"


def test_records_of_a_table_are_rows_too() -> None:
    read = from_fields(4, {"prompt": "Grade: x"}, ALONE)
    assert isinstance(read, Row)
    assert (json.loads(read.body), read.custom_id) == ({"prompt": "Grade: x"}, "row-4")


def test_extra_keys_beside_a_payload_are_an_error() -> None:
    read = parse(7, b'{"payload": 1, "txt": 2}', ALONE)
    assert read == BadRow(7, '"txt" does not belong beside "payload": put it inside')
