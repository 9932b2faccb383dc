"""A line becomes exactly the request that will be sent, or a bad row that says what is wrong."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.batch.configs import ALPHA, BETA, BOTH, config

from headway.batch import reader as reading
from headway.batch.field_checks import MOST_TOKENS
from headway.batch.prompt_families import NO_TRAITS
from headway.batch.reader import Reader
from headway.batch.rows import BadRow, Row, parse, read, rows_of
from headway.config import Config
from headway.config.routing import Router

HI: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
CHAT = "/v1/chat/completions"


def parsed(row: object, under: Config = BOTH, number: int = 17) -> Row | BadRow:
    line = row if isinstance(row, bytes) else json.dumps(row).encode()
    return parse(number, line, Router(under))


def good(row: object, under: Config = BOTH) -> Row:
    found = parsed(row, under)
    assert isinstance(found, Row), found
    return found


def bad(row: object, under: Config = BOTH) -> str:
    found = parsed(row, under)
    assert isinstance(found, BadRow), found
    assert found.line == 17
    return found.message


def batch(body: object = None, **others: Any) -> dict[str, Any]:
    body = {"model": "gpt-x", "messages": HI} if body is None else body
    return {"custom_id": "b1", "method": "POST", "url": CHAT, "body": body, **others}


# Short rows


def test_a_prompt_is_one_user_message() -> None:
    row = good({"id": "a1", "prompt": "Hi", "model": "alpha/gpt-x", "max_tokens": 50, "temperature": 0})
    assert msgspec.structs.replace(row, traits=NO_TRAITS) == Row(
        custom_id="a1",
        provider="alpha",
        model="gpt-x",
        path=CHAT,
        body=b'{"model":"gpt-x","messages":[{"role":"user","content":"Hi"}],"max_tokens":50,"temperature":0}',
        chars=2,
        max_tokens=50.0,
        priority=0,
        serial=False,
        metadata=None,
        raw_model="alpha/gpt-x",
    )


def test_messages_are_sent_as_they_are() -> None:
    row = good(
        {"messages": [*HI, {"role": "assistant", "content": None, "x": [1.5, {"ä": None}]}], "top_p": 0.5}
    )
    assert (
        row.body
        == (
            '{"model":"gpt-d","messages":[{"role":"user","content":"Hi"},'
            '{"role":"assistant","content":null,"x":[1.5,{"ä":null}]}],"top_p":0.5}'
        ).encode()
    )
    assert (row.model, row.raw_model) == ("gpt-d", "")


def test_a_system_prompt_is_the_first_message_for_openai() -> None:
    row = good({"prompt": "Hi", "system": "Be brief."})
    assert row.body == (
        b'{"model":"gpt-d","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}'
    )
    assert row.chars == 11


def test_anthropic_has_its_system_prompt_on_top_and_needs_a_limit() -> None:
    row = good({"prompt": "Hi", "system": "Be brief.", "model": "beta/claude-x"})
    assert (row.path, row.provider, row.max_tokens) == ("/v1/messages", "beta", 4096.0)
    assert row.body == (
        b'{"model":"claude-x","messages":[{"role":"user","content":"Hi"}],"system":"Be brief.","max_tokens":4096}'
    )
    own = good({"messages": HI, "system": [{"type": "text", "text": "abc"}], "max_tokens": 7}, config(BETA))
    assert (own.max_tokens, own.chars, own.model) == (7.0, 5, "claude-d")
    assert own.body.endswith(b'"system":[{"type":"text","text":"abc"}],"max_tokens":7}')


def test_an_input_is_embedded() -> None:
    row = good({"id": 5, "input": ["one", "two"], "model": "embed-x", "dimensions": 64})
    assert (row.path, row.custom_id, row.chars, row.max_tokens) == ("/v1/embeddings", "5", 6, 0.0)
    assert row.body == b'{"model":"embed-x","input":["one","two"],"dimensions":64}'


@pytest.mark.parametrize(
    ("given_id", "custom_id"),
    [("a", "a"), (7, "7"), (0, "0"), (1.5, "1.5"), (None, "row-17"), ("row 9", "row 9")],
)
def test_an_id_becomes_a_string(given_id: object, custom_id: str) -> None:
    assert good({"id": given_id, "prompt": "Hi"}).custom_id == custom_id
    assert good({"custom_id": given_id, "prompt": "Hi"}).custom_id == custom_id
    assert good(batch(custom_id=given_id)).custom_id == custom_id


def test_a_row_without_an_id_is_named_after_its_line() -> None:
    assert good({"prompt": "Hi"}).custom_id == "row-17"


def test_fields_for_headway_are_not_sent() -> None:
    row = good({"prompt": "Hi", "metadata": {"b": [1, "ü"], "a": None}, "priority": -3, "serial": True})
    assert (row.priority, row.serial, row.metadata) == (-3, True, '{"b":[1,"ü"],"a":null}'.encode())
    assert row.body == b'{"model":"gpt-d","messages":[{"role":"user","content":"Hi"}]}'
    assert good({"prompt": "Hi", "metadata": 0}).metadata == b"0"


@pytest.mark.parametrize("key", ["id", "custom_id", "metadata", "priority", "serial", "model", "system"])
def test_null_means_the_same_as_a_missing_field(key: str) -> None:
    for under in (BOTH, config(BETA)):
        assert good({"prompt": "Hi", key: None, "messages": None}, under) == good({"prompt": "Hi"}, under)


def test_a_null_limit_is_sent_where_the_api_takes_it_and_replaced_where_it_does_not() -> None:
    row = good({"prompt": "Hi", "max_tokens": None})
    assert (row.max_tokens, row.body.endswith(b'"max_tokens":null}')) == (0.0, True)
    assert good({"prompt": "Hi", "max_tokens": None}, config(BETA)).body.endswith(b'"max_tokens":4096}')


# Batch rows


def test_a_batch_row_is_sent_as_it_is_but_for_the_models_name() -> None:
    row = good(
        b'{"custom_id": "b1", "method": "POST", "url": "/v1/chat/completions", "body": {"stop": ["x"], '
        b'"messages": [{"content": "H\\u00efi", "role": "user"}], "model": "alpha/gpt-x", "metadata": {"k": "v"}, '
        b'"max_tokens": 5, "seed": 12345678901234567890123}, "metadata": [1, 2], "priority": 4, "serial": true}'
    )
    assert msgspec.structs.replace(row, traits=NO_TRAITS) == Row(
        custom_id="b1",
        provider="alpha",
        model="gpt-x",
        path=CHAT,
        body=(
            '{"stop":["x"],"messages":[{"content":"Hïi","role":"user"}],"model":"gpt-x","metadata":{"k":"v"},'
            '"max_tokens":5,"seed":12345678901234567890123}'
        ).encode(),
        chars=3,
        max_tokens=5.0,
        priority=4,
        serial=True,
        metadata=b"[1,2]",
        raw_model="alpha/gpt-x",
    )


@pytest.mark.parametrize("body", [{"messages": HI}, {"messages": HI, "model": None}])
def test_a_body_without_a_model_gets_one(body: dict[str, Any]) -> None:
    row = good(batch(body))
    assert (row.raw_model, row.body) == (
        "",
        b'{"model":"gpt-d","messages":[{"role":"user","content":"Hi"}]}',
    )


@pytest.mark.parametrize(
    ("url", "body", "path", "chars"),
    [
        (CHAT, {"messages": HI}, CHAT, 2),
        ("/chat/completions", {"messages": HI}, CHAT, 2),
        ("/v1/responses", {"input": "Hello", "instructions": "Be"}, "/v1/responses", 7),
        ("/responses", {"input": "Hello"}, "/v1/responses", 5),
        ("/v1/embeddings", {"input": "Hello"}, "/v1/embeddings", 5),
        ("/embeddings", {"input": [1, 2, 3]}, "/v1/embeddings", 12),
        (
            "/v1/messages",
            {"messages": HI, "max_tokens": 9, "model": "beta/claude-x", "system": "ab"},
            "/v1/messages",
            4,
        ),
        ("/messages", {"messages": HI, "max_tokens": 9, "model": "beta/claude-x"}, "/v1/messages", 2),
    ],
)
def test_every_endpoint_with_and_without_v1(url: str, body: dict[str, Any], path: str, chars: int) -> None:
    row = good(batch(body, url=url))
    assert (row.path, row.chars) == (path, chars)


@pytest.mark.parametrize(
    ("body", "url", "most"),
    [
        ({"max_tokens": 50}, CHAT, 50.0),
        ({"max_completion_tokens": 60, "max_tokens": 50}, CHAT, 60.0),
        ({"max_tokens": 50, "n": 4}, CHAT, 200.0),
        ({"n": 4}, CHAT, 0.0),
        ({"n": None}, CHAT, 0.0),
        ({}, CHAT, 0.0),
        ({"max_output_tokens": 70, "input": "x"}, "/v1/responses", 70.0),
        ({"max_tokens": 50, "input": "x"}, "/v1/embeddings", 0.0),
    ],
)
def test_the_output_limit_of_a_row(body: dict[str, Any], url: str, most: float) -> None:
    assert good(batch({"messages": HI, **body}, url=url)).max_tokens == most


def test_a_method_left_out_is_post() -> None:
    row = batch()
    del row["method"]
    assert good(row) == good(batch()) == good(batch(method=None))


# Bad rows


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[1]", "must be a JSON object, one per line (for an array: jq -c '.[]')"),
        (b'"text"', "must be a JSON object, one per line (for an array: jq -c '.[]')"),
        (b"{nope}", "not JSON: object keys must be strings (byte 1)"),
        (b'{"prompt": "Hi"', "not JSON: it ends too early"),
        (b'{"prompt": "Hi"} x', "not JSON: trailing characters (byte 18)"),
        (b'{"prompt": NaN}', "not JSON: invalid character (byte 11)"),
        (b'{"prompt": 1e999}', "not JSON: number out of range"),
        (b'{"prompt": "\xff"}', "not valid UTF-8: save the file as UTF-8"),
        (b'{"\xff": 1}', "not valid UTF-8: save the file as UTF-8"),
        (b'{"prompt": "\\uD83D"}', "not JSON: half of a surrogate pair"),
        (
            b'{"prompt": "\\ud83d, cut"}',
            "not JSON: unexpected end of escaped utf-16 surrogate pair (byte 18)",
        ),
        (b'{"prompt": ' + b"9" * 5000 + b"}", "not JSON: integer value out of range"),
        (b'{"prompt": ' + b"[" * 99_999, "nested too deeply"),
    ],
)
def test_a_line_that_is_not_a_row_is_bad(line: bytes, said: str) -> None:
    assert bad(line) == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, 'expected one of "prompt", "messages" and "input"'),
        ({"id": 1, "text": "Hi"}, 'expected one of "prompt", "messages" and "input"'),
        ({"prompt": "Hi", "messages": HI}, 'expected one of "prompt", "messages" and "input", not several'),
        ({"prompt": "Hi", "input": "Hi"}, 'expected one of "prompt", "messages" and "input", not several'),
        ({"prompt": ""}, '"prompt" must be a string that is not empty'),
        ({"prompt": 5}, '"prompt" must be a string that is not empty'),
        ({"prompt": ["Hi"]}, '"prompt" must be a string that is not empty'),
        ({"messages": []}, '"messages" must be a list of at least one message'),
        ({"messages": "Hi"}, '"messages" must be a list of at least one message'),
        ({"messages": {"role": "user"}}, '"messages" must be a list of at least one message'),
        ({"messages": [*HI, "Hi"]}, '"messages[1]" must be an object with a "role"'),
        ({"messages": [{"content": "Hi"}]}, '"messages[0]" must be an object with a "role"'),
        ({"messages": [{"role": 5}]}, '"messages[0]" must be an object with a "role"'),
        ({"prompt": "Hi", "id": True}, '"id" must be a string or a number'),
        ({"prompt": "Hi", "id": ""}, '"id" must be a string or a number'),
        ({"prompt": "Hi", "id": "a\0"}, '"id" must be a string or a number'),
        ({"prompt": "Hi", "id": ["a"]}, '"id" must be a string or a number'),
        ({"prompt": "Hi", "custom_id": {}}, '"custom_id" must be a string or a number'),
        ({"prompt": "Hi", "id": "a", "custom_id": "b"}, 'expected one of "id" and "custom_id", not both'),
        ({"prompt": "Hi", "model": 5}, '"model" must be a string'),
        ({"prompt": "Hi", "model": ""}, '"model" must be a string'),
        ({"prompt": "Hi", "model": ["gpt-x"]}, '"model" must be a string'),
        (
            {"prompt": "Hi", "model": "alpha/"},
            "\"model\" 'alpha/' names a provider and no model of it — write PROVIDER/MODEL, such as alpha/gpt-d",
        ),
        ({"prompt": "Hi", "system": ["x"]}, '"system" must be a string'),
        (
            {"prompt": "Hi", "system": 5, "model": "beta/c"},
            '"system" must be a string, or a list of text blocks',
        ),
        ({"prompt": "Hi", "max_tokens": 0}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "Hi", "max_tokens": -5}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "Hi", "max_tokens": 1.5}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "Hi", "max_tokens": "50"}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "Hi", "max_tokens": True}, '"max_tokens" must be a whole number above 0'),
        (
            {"prompt": "Hi", "max_tokens": MOST_TOKENS + 1},
            '"max_tokens" must be a whole number up to 1,000,000,000',
        ),
        ({"prompt": "Hi", "max_tokens": 10**400}, '"max_tokens" must be a whole number up to 1,000,000,000'),
        (
            {"prompt": "Hi", "max_completion_tokens": 0},
            '"max_completion_tokens" must be a whole number above 0',
        ),
        ({"prompt": "Hi", "n": 0}, '"n" must be a whole number above 0'),
        ({"prompt": "Hi", "n": "2"}, '"n" must be a whole number above 0'),
        ({"prompt": "Hi", "priority": "high"}, '"priority" must be a whole number'),
        ({"prompt": "Hi", "priority": 1.5}, '"priority" must be a whole number'),
        ({"prompt": "Hi", "priority": True}, '"priority" must be a whole number'),
        ({"prompt": "Hi", "priority": 2**31}, '"priority" must be a whole number'),
        ({"prompt": "Hi", "serial": 1}, '"serial" must be true or false'),
        ({"input": "Hi"}, '"input" is for embeddings, and needs a "model" in its row'),
        ({"input": "", "model": "e"}, '"input" must be a string or a list, and not empty'),
        ({"input": [], "model": "e"}, '"input" must be a string or a list, and not empty'),
        ({"input": {"a": 1}, "model": "e"}, '"input" must be a string or a list, and not empty'),
        ({"input": "Hi", "model": "e", "system": "x"}, '"system" cannot be combined with "input"'),
        (
            {"input": "Hi", "model": "beta/c"},
            '"input" is for embeddings, and provider \'beta\' has none: use "prompt" or "messages"',
        ),
    ],
)
def test_a_bad_short_row_says_which_field_and_what_it_must_be(row: dict[str, Any], said: str) -> None:
    assert bad(row) == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"url": CHAT}, '"body" must be an object: the request itself'),
        (batch([]), '"body" must be an object: the request itself'),
        (batch(method="GET"), '"method" must be "POST"'),
        (batch(method=["POST"]), '"method" must be "POST"'),
        (
            {"body": {"messages": HI}},
            '"url" must be one of /v1/chat/completions, /v1/responses, /v1/embeddings',
        ),
        (
            batch(url="/v1/completions"),
            '"url" must be one of /v1/chat/completions, /v1/responses, /v1/embeddings',
        ),
        (batch(url=[CHAT]), '"url" must be one of /v1/chat/completions, /v1/responses, /v1/embeddings'),
        (batch({"model": "beta/c"}, url="/v2"), '"url" must be one of /v1/messages'),
        (
            batch(url="/v1/messages"),
            "\"url\" /v1/messages does not fit provider 'alpha', whose kind is openai: it has "
            "/v1/chat/completions, /v1/responses, /v1/embeddings",
        ),
        (
            batch({"model": "beta/claude-x", "messages": HI}),
            "\"url\" /v1/chat/completions does not fit provider 'beta', whose kind is anthropic: it has /v1/messages",
        ),
        (batch(temperature=1), '"temperature" does not belong beside "body": put it inside'),
        (batch(**{"x" * 60: 1}), f'"{"x" * 40}…" does not belong beside "body": put it inside'),
        (batch({"messages": []}), '"body.messages" must be a list of at least one message'),
        (batch({}), '"body.messages" must be a list of at least one message'),
        (batch({"messages": [1]}), '"body.messages[0]" must be an object with a "role"'),
        (batch({"messages": HI, "model": 5}), '"body.model" must be a string'),
        (batch({"messages": HI, "max_tokens": 0}), '"body.max_tokens" must be a whole number above 0'),
        (batch({"messages": HI, "n": -1}), '"body.n" must be a whole number above 0'),
        (
            batch({"messages": HI}, url="/v1/responses"),
            '"body.input" must be a string or a list, and not empty',
        ),
        (
            batch({"input": "x", "max_output_tokens": 0}, url="/v1/responses"),
            '"body.max_output_tokens" must be a whole number above 0',
        ),
        (
            batch({"model": "beta/c", "messages": HI}, url="/v1/messages"),
            '"body.max_tokens" is missing: /v1/messages requires it',
        ),
        (batch(custom_id=True), '"custom_id" must be a string or a number'),
        (batch(id="a"), 'expected one of "id" and "custom_id", not both'),
        (batch(priority="x"), '"priority" must be a whole number'),
    ],
)
def test_a_bad_batch_row_says_which_field_and_what_it_must_be(row: dict[str, Any], said: str) -> None:
    assert bad(row) == said


def test_a_model_that_names_no_provider_is_a_bad_row() -> None:
    said = bad({"prompt": "Hi", "model": "gpt-x"}, config(ALPHA, BETA))
    assert said.startswith(
        "\"model\" 'gpt-x' names no provider, and there are several (alpha, beta) — write "
    )


def test_a_bad_row_is_reported_by_file_and_line() -> None:
    row = parsed({"prompt": "Hi", "max_tokens": 0})
    assert isinstance(row, BadRow)
    assert row.at("requests.jsonl") == 'requests.jsonl:17: "max_tokens" must be a whole number above 0'


# Whole files


def test_a_file_is_read_row_by_row_bad_ones_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 1000)
    lines = [b'{"prompt":"one"}', b"", b"nope", b'{"prompt":"' + b"x" * 400_000 + b'"}', b'{"prompt":"two"}']
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"\r\n".join(lines))
    found = list(read(path, BOTH))
    assert [row.custom_id if isinstance(row, Row) else row for row in found] == [
        "row-1",
        BadRow(3, "not JSON: invalid character (byte 4)"),
        BadRow(4, "longer than 100 MB"),
        "row-5",
    ]
    reader = Reader("-", io.BytesIO(gzip.compress(path.read_bytes())))
    assert list(rows_of(reader, Router(BOTH))) == found
    assert reader.digest == reading.digest_of(path)


def test_the_examples_of_the_page_are_good_rows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "batch.md").read_text(encoding="utf-8")
    text = page.split("## Output")[0]
    blocks = [block.split("```")[0] for block in text.split("```json\n")[1:]]
    rows = list(read("-", BOTH, io.BytesIO("".join(blocks).encode())))
    assert [row for row in rows if isinstance(row, BadRow)] == []
    assert len(rows) == 8


# Anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "id",
        "custom_id",
        "prompt",
        "messages",
        "input",
        "model",
        "system",
        "max_tokens",
        "n",
        "metadata",
        "priority",
        "serial",
        "url",
        "body",
        "method",
        "tools",
        "temperature",
    ]
)
OWN = {"id", "custom_id", "metadata", "priority", "serial", "prompt", "messages", "model", "system", "input"}


@given(st.dictionaries(KEYS, JSON | st.sampled_from(["alpha/x", CHAT, "POST"])))
def test_any_object_is_a_row_or_a_bad_row(row: dict[str, Any]) -> None:
    for under in (BOTH, config(BETA)):
        found = parsed(msgspec.json.encode(row), under)
        if isinstance(found, Row):
            assert type(msgspec.json.decode(found.body)) is dict
        else:
            assert found.message
            assert "\n" not in found.message


@given(st.binary())
def test_any_line_is_a_row_or_a_bad_row(line: bytes) -> None:
    assert isinstance(parse(1, line, Router(BOTH)), Row | BadRow)


@given(
    st.text(min_size=1), st.dictionaries(st.text().filter(lambda key: key not in OWN | {"url", "body"}), JSON)
)
def test_all_other_fields_are_sent_unchanged(prompt: str, others: dict[str, Any]) -> None:
    others = {key: value for key, value in others.items() if not key.startswith("max_") and key != "n"}
    row = good(msgspec.json.encode({"prompt": prompt, **others}))
    sent = json.loads(row.body)
    assert sent == {"model": "gpt-d", "messages": [{"role": "user", "content": prompt}], **others}
    assert list(sent) == ["model", "messages", *others]
    assert row.chars >= len(prompt)


@given(st.dictionaries(st.text(), JSON), JSON)
def test_a_batch_body_round_trips(others: dict[str, Any], metadata: Any) -> None:
    fixed = {"messages": HI, "model": "alpha/m/x"}
    others = {key: value for key, value in others.items() if not key.startswith("max_") and key != "n"}
    row = good(msgspec.json.encode(batch({**others, **fixed}, metadata=metadata)))
    assert json.loads(row.body) == {**others, **fixed, "model": "m/x"}
    assert list(json.loads(row.body)) == list({**others, **fixed})
    assert json.loads(row.metadata or b"null") == metadata
