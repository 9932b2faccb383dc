"""A schema is checked before anything is sent. An answer that does not fit is reported with its place and rule."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.providers.wire import Admissions

from headway.batch.answer_schema import MOST_REPORTED, Validator, read_schema
from headway.batch.schema_adapter import SchemaAdapter, correction_for
from headway.batch.tables.answer_columns import fields_of
from headway.core.model import Kind, Outcome
from headway.errors import HeadwayError
from headway.providers.adapter import Admitted, Answer, Request

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


# -- the file ---------------------------------------------------------------------------------------------------------


def test_spaces_do_not_change_the_identity_of_a_schema(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(PERSON, indent=4))
    (tmp_path / "b.json").write_text("\ufeff" + json.dumps(PERSON))
    assert (
        read_schema(tmp_path / "a.json")
        == read_schema(tmp_path / "b.json")
        == json.dumps(PERSON, separators=(",", ":"))
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n"type": ', ":2: not JSON"),
        ("[]", "a schema is a JSON object"),
        ("true", "a schema is a JSON object"),
        ("{}", "the schema is empty"),
        ('{"type": "objekt"}', 'type: "objekt" is no type'),
        ('{"properties": {"a": {"type": "strin"}}}', 'properties.a.type: "strin" is no type'),
        ('{"required": "a"}', 'required: "a" is not of type "array"'),
        ('{"requierd": ["a"]}', "no keyword 'requierd' — did you mean 'required'?"),
        ('{"properties": {"a": {"minimun": 1}}}', "no keyword 'minimun' at properties.a — did you mean"),
        ('{"items": {"anyOf": [{}, {"colour": 1}]}}', "no keyword 'colour' at items.anyOf[1]"),
        ('{"pattern": "("}', "pattern:"),
        ('{"$ref": "#/$defs/x"}', "'$ref' points to nothing: '#/$defs/x'"),
        ('{"$ref": "http://127.0.0.1:9/x.json"}', "points outside the file, to http://127.0.0.1:9/x.json"),
        ('{"$ref": "file:///etc/hostname"}', "points outside the file"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_bad_schema_is_an_error_of_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(HeadwayError) as error:
        read_schema(path)
    assert says in str(error.value)
    assert str(error.value).startswith(f"--schema {path}")
    assert "\n" not in str(error.value)


def test_a_property_may_be_called_anything(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"properties": {"requierd": {"enum": [{"minimun": 1}]}}}')
    assert read_schema(tmp_path / "s.json")


def test_without_the_validator_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.json").write_text(json.dumps(PERSON))
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(HeadwayError, match=r"needs jsonschema-rs — .* install .*\[schema\]'"):
        read_schema(tmp_path / "s.json")


def test_optional_packages_are_not_imported_without_need() -> None:
    script = "import sys, headway.cli.run, headway.wiring.run_execution, headway.batch.input_source, headway.batch.tables.table_output;"
    script += "print(sorted({'jsonschema_rs', 'pyarrow', 'numpy'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ['{"name": "A"}', ' {"name":"A","age":3.0,"tags":[]}\n'])
def test_answers_that_fit(text: str) -> None:
    assert Validator(PERSON).mismatches(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ["it is not JSON: it ends too early"]),
        ("Sure!", ["it is not JSON: 'Sure!'"]),
        ("Sure! " * 30, ["it is not JSON: 'Sure! Sure! Sure! Sure! Sure! Sure! Sure! Sure! Sure! Sure! …'"]),
        (
            '```json\n{"name": "A"}\n```',
            ['it is not JSON: it is inside a code fence: \'```json {"name": "A"} ```\''],
        ),
        ('{"name": "A"', ['it is not JSON: it ends too early: \'{"name": "A"\'']),
        ("{}", ['answer: "name" is a required property (required)']),
        ('{"name": 1}', ['answer.name: 1 is not of type "string" (type)']),
        ('{"name": "A", "age": -1}', ["answer.age: -1 is less than the minimum of 0 (minimum)"]),
        ('{"name": "A", "tags": ["a", 2]}', ['answer.tags[1]: 2 is not of type "string" (type)']),
        ("[" * 5_000 + "]" * 5_000, [f"it is not JSON: it is nested too deeply: '{'[' * 60}…'"]),
    ],
)
def test_a_mismatch_names_place_and_rule(text: str, says: list[str]) -> None:
    assert [str(each) for each in Validator(PERSON).mismatches(text)] == says


def test_formats_are_checked() -> None:
    validator = Validator({"type": "string", "format": "date"})
    assert validator.mismatches('"2024-02-29"') == []
    assert [each.rule for each in validator.mismatches('"2023-02-29"')] == ["format"]


def test_the_number_of_reported_mismatches_is_limited() -> None:
    found = Validator({"items": {"type": "string"}}).mismatches(json.dumps(list(range(50))))
    assert len(found) == MOST_REPORTED
    assert "- and perhaps more" in correction_for(found)


# -- the judge --------------------------------------------------------------------------------------------------------


class Fixed:
    """An adapter with one answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        return self.answer


CHAT = Request("/v1/chat/completions", b'{"messages":[{"role":"user","content":"who?"}]}')


def chat(content: str | None, **more: Any) -> bytes:
    return json.dumps(
        {"choices": [{"message": {"content": content, **more}, "finish_reason": "stop"}]}
    ).encode()


async def judged(body: bytes, request: Request = CHAT, kind: str = "openai") -> Answer:
    adapter = SchemaAdapter(Fixed(Answer(status=200, body=body)), kind, Validator(PERSON))
    return await adapter.send(request, 1.0, Admissions())


async def test_a_good_answer_passes_unchanged() -> None:
    answer = await judged(chat('{"name":"A"}'))
    assert answer.complaint is None


async def test_an_answer_that_does_not_fit_is_requested_again_with_the_errors() -> None:
    answer = await judged(chat('{"name":1}'))
    assert answer.outcome.kind is None
    complaint = answer.complaint
    assert complaint is not None
    assert (
        complaint.message
        == 'the answer does not fit the schema: answer.name: 1 is not of type "string" (type)'
    )
    assert complaint.again is not None
    turns = json.loads(complaint.again.body)["messages"]
    assert turns[1] == {"role": "assistant", "content": '{"name":1}'}
    assert "- answer.name: 1 is not of type" in turns[2]["content"]
    assert complaint.more_chars == len(turns[1]["content"]) + len(turns[2]["content"])
    second = (await judged(chat("{}"), complaint.again)).complaint
    assert second is not None
    assert second.again is None


@pytest.mark.parametrize(
    "said",
    [
        "<" + "x" * 3_000_000 + ">",
        json.dumps({"name": ["x" * 3_000_000]}),
        json.dumps({"friends": {"k" * 3_000_000: [{"name": 1}]}}),
    ],
)
async def test_a_huge_answer_is_quoted_by_its_beginning_and_end(said: str) -> None:
    complaint = (await judged(chat(said))).complaint
    assert complaint is not None
    assert complaint.again is not None
    assert len(complaint.again.body) < 12_000
    quoted = json.loads(complaint.again.body)["messages"][1]["content"]
    assert quoted.startswith(said[:1_000])
    assert quoted.endswith(said[-1_000:])
    assert "characters left out" in quoted
    assert complaint.more_chars < 12_000


async def test_a_huge_refusal_is_shortened() -> None:
    complaint = (await judged(chat(None, refusal="no " * 1_000_000))).complaint
    assert complaint is not None
    assert complaint.again is not None
    assert len(complaint.again.body) < 12_000


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (chat(None, refusal="I would rather not."), "the model refused: I would rather not."),
        (chat(None, tool_calls=[]), "it has no text"),
        (
            chat('{"name": "A').replace(b'"stop"', b'"length"'),
            "it was cut off at max_tokens: raise --max-tokens",
        ),
        (b"no JSON at all", "it has no text"),
    ],
)
async def test_an_answer_without_text_or_with_a_refusal_says_why(body: bytes, says: str) -> None:
    complaint = (await judged(body)).complaint
    assert complaint is not None
    assert says in complaint.message


async def test_an_answer_cut_off_at_its_limit_says_so() -> None:
    body = json.dumps({"content": [{"type": "text", "text": "{"}], "stop_reason": "max_tokens"}).encode()
    complaint = (await judged(body, Request("/v1/messages", b'{"messages":[]}'), "anthropic")).complaint
    assert complaint is not None
    assert "cut off at max_tokens" in complaint.message


async def test_a_refusal_of_the_responses_api_is_reported() -> None:
    body = json.dumps({"output": [{"content": [{"type": "refusal", "refusal": "no"}]}]}).encode()
    complaint = (await judged(body, Request("/v1/responses", b'{"input":"x"}'))).complaint
    assert complaint is not None
    assert "the model refused: no" in complaint.message


async def test_failed_attempts_are_not_validated() -> None:
    failed = Answer(Outcome(Kind.RATE), 429)
    adapter = SchemaAdapter(Fixed(failed), "openai", Validator(PERSON))
    assert await adapter.send(CHAT, 1.0, Admissions()) is failed


# -- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["integer", "null"]}, "integer"),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": True}, "boolean"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number"),
        ({"$ref": "#/$defs/x"}, "boolean"),
        ({"type": ["string", "number"]}, None),
        ({"enum": ["a", 1]}, None),
        ({"type": "array"}, None),
        ({"$ref": "#/$defs/none"}, None),
        ({}, None),
        (True, None),
    ],
)
def test_plain_properties_become_columns(part: Any, kind: str | None) -> None:
    schema = {"type": "object", "properties": {"p": part}, "$defs": {"x": {"type": "boolean"}}}
    assert [(field.name, field.kind) for field in fields_of(schema)] == ([("p", kind)] if kind else [])


def test_a_schema_that_is_not_an_object_has_no_columns() -> None:
    assert fields_of(None) == fields_of({"type": "array", "items": PERSON}) == fields_of({"enum": [1]}) == []
