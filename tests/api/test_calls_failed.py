"""What `CallsFailed` shows: the first item that failed and the user's own lines, not hundreds of frames."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import headway
from headway import CallsFailed


def check(number: int) -> int:
    if number % 3 == 2:
        return _deeper(number)
    return number


def _deeper(number: int) -> int:
    return int(f"{number}!")


def _with_a_cause(number: int) -> int:
    try:
        return check(number)
    except ValueError as error:
        raise LookupError(f"no {number}") from error


def _failed(call: Callable[[int], Any], count: int = 100) -> CallsFailed:
    with pytest.raises(CallsFailed) as caught:
        headway.map(call, range(count), progress=False)
    return caught.value


def _shown(error: BaseException) -> list[str]:
    return [line for line in "".join(traceback.format_exception(error)).splitlines() if line.strip()]


def test_the_message_has_the_first_item_and_whose_exception_it_is() -> None:
    assert str(_failed(check)) == (
        "33 of 100 calls failed (33 times your function raised ValueError); the first: item 2 (2) (33 sub-exceptions)"
    )
    assert _failed(check, 3).message == (
        "1 of 3 calls failed (your function raised ValueError); the first: item 2 (2)"
    )


def test_the_traceback_has_the_frames_of_the_user_once() -> None:
    failed = _failed(check)
    lines = _shown(failed)
    assert len(lines) < 60, "\n".join(lines)
    first = "".join(traceback.format_exception(failed.exceptions[0]))
    assert "in check" in first
    assert "in _deeper" in first
    assert "headway/api" not in first
    assert failed.exceptions[1].__traceback__ is None, "it failed at the same place"
    assert [type(error) for error in failed.exceptions] == [ValueError] * 33
    assert failed.results[2].error is failed.exceptions[0]


def test_failures_at_other_places_keep_their_frames() -> None:
    def several(number: int) -> int:
        return check(number) if number < 5 else _deeper(number)

    failed = _failed(several, 7)
    frames = [traceback.extract_tb(error.__traceback__) for error in failed.exceptions]
    assert [[frame.name for frame in each] for each in frames] == [
        ["several", "check", "_deeper"],
        ["several", "_deeper"],
        [],
    ]


def test_causes_are_shortened_too() -> None:
    failed = _failed(_with_a_cause)
    first, second, *_ = failed.exceptions
    assert isinstance(first.__cause__, ValueError)
    assert "in _deeper" in "".join(traceback.format_exception(first))
    assert second.__cause__ is not None, "the chain itself stays"
    assert second.__cause__.__traceback__ is None


def test_everything_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_DEBUG", "1")
    failed = _failed(check)
    assert all("headway" in "".join(traceback.format_exception(error)) for error in failed.exceptions)


def test_a_long_item_is_cut_and_one_without_a_repr_has_its_type() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    def raising(item: object) -> None:
        raise KeyError("x")

    with pytest.raises(CallsFailed, match=r"item 0 \('a{58}…\)"):
        headway.map(raising, ["a" * 500], progress=False)
    with pytest.raises(CallsFailed, match=r"item 0 \(Odd\)"):
        headway.map(raising, [Odd()], progress=False)
