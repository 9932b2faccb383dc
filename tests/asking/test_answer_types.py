"""`schema=`: what it takes, the JSON Schema that is sent, and the instances that come back."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from headway.api.asking.answer_types import DoesNotFit, answer_type
from headway.errors import UsageError


class Model(pydantic.BaseModel):
    mood: Literal["good", "bad"]
    score: int = pydantic.Field(ge=0)


@dataclasses.dataclass
class Data:
    mood: Literal["good", "bad"]
    score: int


class Struct(msgspec.Struct):
    mood: Literal["good", "bad"]
    score: int


@pydantic.dataclasses.dataclass
class ModelData:
    mood: Literal["good", "bad"]
    score: int


class Typed(TypedDict):
    mood: Literal["good", "bad"]
    score: int


SCHEMA = {
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "score": {"type": "integer"}},
    "required": ["mood", "score"],
}
KINDS: list[tuple[Any, Any]] = [
    (Model, Model(mood="good", score=3)),
    (Data, Data("good", 3)),
    (Struct, Struct("good", 3)),
    (ModelData, ModelData("good", 3)),
    (Typed, {"mood": "good", "score": 3}),
    (SCHEMA, {"mood": "good", "score": 3}),
]


@pytest.mark.parametrize(("schema", "instance"), KINDS)
def test_texts_dicts_and_instances_become_instances(schema: Any, instance: Any) -> None:
    kind = answer_type(schema)
    assert kind.parse('{"mood": "good", "score": 3}') == instance
    assert kind.fit(b'{"mood": "good", "score": 3}') == instance
    assert kind.fit({"mood": "good", "score": 3}) == instance
    assert kind.fit(instance) == instance
    assert kind.plain(instance) == {"mood": "good", "score": 3}


@pytest.mark.parametrize(("schema", "instance"), KINDS)
def test_the_schema_that_is_sent_is_an_object_with_its_fields(schema: Any, instance: Any) -> None:
    kind = answer_type(schema)
    assert kind.schema["type"] == "object"
    assert kind.field_names == ["mood", "score"]
    if schema is not SCHEMA:
        assert kind.schema["additionalProperties"] is False


@pytest.mark.parametrize(("schema", "instance"), KINDS)
@pytest.mark.parametrize("wrong", ['{"mood": "so-so", "score": 3}', '{"mood": "good"}', "good", "[1]", ""])
def test_what_does_not_fit_says_what_is_wrong(schema: Any, instance: Any, wrong: str) -> None:
    kind = answer_type(schema)
    with pytest.raises(DoesNotFit, match="does not fit the schema"):
        kind.parse(wrong)
    assert kind.mismatches(wrong)
    assert kind.mismatches('{"mood": "good", "score": 3}') == []
    with pytest.raises(DoesNotFit):
        kind.fit(7)


@pytest.mark.parametrize(("schema", "instance"), KINDS[:4])
def test_a_mismatch_names_its_place(schema: Any, instance: Any) -> None:
    (found,) = answer_type(schema).mismatches('{"mood": "good", "score": "many"}')
    assert found.place == "score"


class Nested(pydantic.BaseModel):
    reviews: list[Model]


def test_a_mismatch_in_a_list_names_its_index() -> None:
    text = '{"reviews": [{"mood": "good", "score": 1}, {"mood": "good", "score": -1}]}'
    assert answer_type(Nested).mismatches(text)[0].place == "reviews[1].score"


def test_other_types_are_possible() -> None:
    assert answer_type(list[Struct]).parse('[{"mood": "bad", "score": 0}]') == [Struct("bad", 0)]
    assert answer_type(list[Struct]).field_names == []


@pytest.mark.parametrize("schema", ["Review", 7, None, object(), lambda: None, {"typ": "object"}, {}])
def test_anything_else_is_an_error_that_says_so(schema: Any) -> None:
    with pytest.raises((UsageError, headway_config_error()), match="schema"):
        answer_type(schema)


def headway_config_error() -> type[Exception]:
    from headway.errors import ConfigError

    return ConfigError


def test_pydantic_is_not_imported_for_other_schemas() -> None:
    code = (
        "import sys, dataclasses, headway\n"
        "from headway.api.asking.answer_types import answer_type\n"
        "answer_type(dataclasses.make_dataclass('A', [('x', int)]))\n"
        "import headway.api.asking.ask, headway.api.asking.frame\n"
        "print([name for name in ('pydantic', 'pandas', 'polars') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
