"""Results that are objects: with a `db` they are kept as JSON, and none is lost once its call was paid."""

from __future__ import annotations

import enum
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

import headway
from headway import CallsFailed, WorkerPool, WorkerResult, WorkUnit


class Colour(enum.Enum):
    RED = "red"


class Grade(pydantic.BaseModel):
    """An answer as structured outputs give it."""

    score: float
    colour: Colour = Colour.RED
    on: date = date(2026, 1, 10)
    parts: list[Grade] = []


GRADE = Grade(score=0.5, parts=[Grade(score=float("nan"))])
PLAIN = {
    "score": 0.5,
    "colour": "red",
    "on": "2026-01-10",
    "parts": [{"score": float("nan"), "colour": "red", "on": "2026-01-10", "parts": []}],
}


class Strict(pydantic.BaseModel):
    """Takes nothing but what it says itself; with names of its own in JSON, and a field that is computed."""

    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    id: UUID
    size: tuple[int, int]
    kind: str = pydantic.Field(alias="type", serialization_alias="Type")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        return self.size[0] * self.size[1]


STRICT = Strict(id=UUID(int=7), size=(2, 3), type="box")


class Raw(pydantic.BaseModel):
    """Has bytes that are no text."""

    audio: bytes


class Payload:
    """A class that nothing can encode."""


class Holder(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)

    inner: Payload


@dataclass
class Point:
    x: int


@attrs.define
class Size:
    x: int


class Pair(NamedTuple):
    x: int
    y: int


class Row(msgspec.Struct):
    x: int


class Counted:
    """A function that counts its calls."""

    def __init__(self, value: Any) -> None:
        self.value, self.calls = value, 0

    def __call__(self, _: Any) -> Any:
        self.calls += 1
        return self.value


def twice(value: Any, db: Path, **options: Any) -> list[Any]:
    """What a run gives, and what one gives that finds it on record."""
    call = Counted(value)
    seen = [headway.map(call, [1], db=db, key=str, name="n", **options)[0] for _ in range(2)]
    assert call.calls == 1
    return seen


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (GRADE, PLAIN),
        ({"grade": GRADE}, {"grade": PLAIN}),
        ([Strict.model_validate(STRICT, strict=False)], [{"id": str(UUID(int=7)), "size": [2, 3], "kind": "box", "area": 6}]),
        (Raw(audio=b"\xff\x00"), {"audio": b"\xff\x00"}),
        (Raw(audio=b"text"), {"audio": "text"}),
        (Point(1), {"x": 1}),
        (Size(1), {"x": 1}),
        (Pair(1, 2), [1, 2]),
        (Row(1), {"x": 1}),
        ({"a": [Point(1), Pair(1, 2)]}, {"a": [{"x": 1}, [1, 2]]}),
    ],
)  # fmt: skip
def test_an_object_is_its_json_form_on_both_runs(tmp_path: Path, value: Any, plain: Any) -> None:
    for seen in twice(value, tmp_path / "h.db"):
        assert repr(seen) == repr(plain)


@pytest.mark.parametrize(
    ("value", "returns"),
    [
        (GRADE, Grade),
        ([GRADE], list[Grade]),
        ({"a": GRADE}, dict[str, Grade]),
        (None, Grade | None),
        (STRICT, Strict),
        (Raw(audio=b"\xff\x00"), Raw),
        (Raw(audio=b"text"), Raw),
        (Point(1), Point),
        (Size(1), Size),
        (Pair(1, 2), Pair),
        (Row(1), Row),
    ],
)
def test_returns_gives_the_objects_on_both_runs(tmp_path: Path, value: Any, returns: Any) -> None:
    for seen in twice(value, tmp_path / "h.db", returns=returns):
        assert repr(seen) == repr(value)


def test_a_dictionary_can_be_read_as_a_model(tmp_path: Path) -> None:
    (first, second) = twice({"score": 1.0}, tmp_path / "h.db", returns=Grade)
    assert first == second == Grade(score=1.0)


def test_a_value_that_does_not_fit_the_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CallsFailed) as caught:
        headway.map(Counted({"score": "x"}), [1], db=tmp_path / "h.db", key=str, name="n", returns=Grade)
    assert "the returned value (dict) does not fit <class" in str(caught.value.exceptions[0])


@pytest.mark.parametrize(
    "returns", [Payload, complex, list[Payload], dict[str, Payload], tuple[int, Payload], Payload | None]
)
def test_a_type_that_json_cannot_be_read_as_is_refused_before_any_call(returns: Any) -> None:
    call = Counted(1)
    with pytest.raises(
        headway.HeadwayError, match=r"^returns is .* JSON has no |^returns is .* — use a type"
    ):
        headway.map(call, [1], returns=returns)
    assert call.calls == 0


def details(db: Path) -> list[Any]:
    with closing(sqlite3.connect(db)) as connection:
        rows = connection.execute("SELECT note FROM notes").fetchall()
    return [msgspec.json.decode(body) for (body,) in rows]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (1 + 2j, "(1+2j)"),
        (Holder(inner=Payload()), "Holder(inner="),
        ({"score": "x"}, "{'score': 'x'}"),
    ],
)
def test_the_text_of_a_value_that_cannot_be_stored_is_recorded(tmp_path: Path, value: Any, text: str) -> None:
    with pytest.raises(CallsFailed):
        headway.map(Counted(value), [1], db=tmp_path / "h.db", key=str, name="n", returns=Grade)
    (found,) = details(tmp_path / "h.db")
    assert str(found["output"]).startswith(text)


class Worker:
    """Gives a model as its output."""

    def execute(self, prompt: str, payload: Any, timeout: float | None) -> WorkerResult:
        return WorkerResult(True, output=GRADE)


def submit(worker: Any, store: Path) -> WorkUnit:
    unit = WorkUnit("u")
    with WorkerPool(worker, "job", store) as pool:
        assert pool.submit_work_unit(unit, "grade it")
        assert pool.wait_for_completion(20)
    return unit


def test_a_pool_keeps_a_models_fields(tmp_path: Path) -> None:
    first, second = submit(Worker(), tmp_path / "h.db"), submit(Worker(), tmp_path / "h.db")
    assert first.result is not None
    assert first.result.output is GRADE
    assert second.result is not None
    assert repr(second.result.output) == repr(PLAIN)


def test_a_function_of_a_batch_may_return_a_model() -> None:
    from headway.executors.worker_entry import Context, _as_json

    body, note = _as_json(Grade(score=1.0), None, Context("m"), 10_000)
    assert note is None
    assert msgspec.json.decode(body) == {**PLAIN, "score": 1.0, "parts": []}
