"""`headway.map(schema=…)`: what the function returns becomes instances; for what does not fit it is called again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, assert_type

import msgspec
import pydantic
import pytest

import headway
from headway import Retry
from headway.testing import virtual_time


class Review(pydantic.BaseModel):
    mood: str
    score: int


class Struct(msgspec.Struct):
    mood: str
    score: int


class Asked:
    """A function that returns these values, one after the other, and counts its calls."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.calls: Counter[str] = Counter()

    def __call__(self, item: str) -> Any:
        self.calls[item] += 1
        return self.values[min(self.calls[item], len(self.values)) - 1]


GOOD = {"mood": "good", "score": 3}


@pytest.mark.parametrize("value", ['{"mood": "good", "score": 3}', GOOD, Review(mood="good", score=3)])
def test_texts_dicts_and_instances(value: Any) -> None:
    results = headway.map(Asked(value), ["a", "b"], schema=Review)
    assert assert_type(results, list[Review]) == [Review(mood="good", score=3)] * 2


def test_a_value_that_does_not_fit_is_asked_for_again() -> None:
    asked = Asked("sorry", {"mood": "good"}, GOOD)
    assert headway.map(asked, ["a"], schema=Struct) == [Struct("good", 3)]
    assert asked.calls["a"] == 3


def test_it_ends_with_the_attempts() -> None:
    asked = Asked("sorry")
    (error,) = headway.map(asked, ["a"], schema=Struct, retry=Retry(max_attempts=3), on_error="return")
    assert isinstance(error, headway.UnitError)
    assert error.code == "invalid"
    assert "what the function returned: it does not fit the schema" in str(error)
    assert asked.calls["a"] == 3


def test_values_that_do_not_fit_do_not_slow_the_lane() -> None:
    """The calls succeeded: ten bad values in a row open no breaker and halve no window."""
    asked = Asked(*["sorry"] * 10, GOOD)
    with virtual_time() as clock:
        began = clock.now
        headway.map(asked, ["a"], schema=Struct, retry=Retry(max_attempts=11))
        assert clock.now - began < 0.1


async def test_amap_and_stream_take_it_too() -> None:
    assert await headway.amap(Asked(GOOD), ["a"], schema=Struct) == [Struct("good", 3)]
    async for done in headway.stream(Asked(GOOD), ["a"], schema=Struct):
        assert assert_type(done.get(), Struct) == Struct("good", 3)


def test_kept_values_come_back_as_instances(tmp_path: Path) -> None:
    asked = Asked("sorry", GOOD)
    for _ in range(2):
        results = headway.map(asked, ["a"], schema=Review, db=tmp_path / "calls.db", key=str)
        assert results == [Review(mood="good", score=3)]
    assert asked.calls["a"] == 2


def fitting(item: str) -> str:
    return '{"mood": "good", "score": 3}'


def test_worker_processes_too() -> None:
    assert headway.map(fitting, ["a"], schema=Struct, isolation="process", workers=1) == [Struct("good", 3)]


def test_a_wrong_schema_is_an_error_before_any_call() -> None:
    asked = Asked(GOOD)
    with pytest.raises(headway.HeadwayError, match="schema is 'Review'"):
        headway.map(asked, ["a"], schema="Review")
    assert not asked.calls
