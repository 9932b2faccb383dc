"""The result of an item, and the exception for calls that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec

from headway.core.model import Usage

T = TypeVar("T")
R = TypeVar("R")


class Result(msgspec.Struct, Generic[T, R], frozen=True):
    """How one item ended.

    `error` is the exception of its last attempt, or a `UnitError` if there was none; `code` is its kind.
    """

    index: int
    item: T
    value: R | None
    error: BaseException | None = None
    status: str = "succeeded"
    code: str = ""
    attempts: int = 0
    lane: str = ""
    usage: Usage | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None

    def get(self) -> R:
        """The value, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # without an error there is one


class CallsFailed(ExceptionGroup[Exception]):
    """Some calls failed: the group has their exceptions (`except*` works), `results` has all of them in order."""

    results: Sequence[Result[Any, Any]]

    def __new__(
        cls, message: str, errors: Sequence[Exception], results: Sequence[Result[Any, Any]]
    ) -> CallsFailed:
        made = super().__new__(cls, message, errors)
        made.results = results
        return made

    def __init__(
        self, message: str, errors: Sequence[Exception], results: Sequence[Result[Any, Any]]
    ) -> None:
        super().__init__(message, errors)

    def derive(self, errors: Sequence[Exception]) -> CallsFailed:  # type: ignore[override]
        """The same group with some of the exceptions."""
        return CallsFailed(self.message, errors, self.results)
