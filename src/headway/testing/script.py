"""A callable with scripted outcomes that records its calls."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a scripted callable: the item, and the time on its loop's clock."""

    item: Any
    at: float


@dataclass(frozen=True, slots=True)
class _After:
    seconds: float
    outcome: Any


def after(seconds: float, outcome: Any = None) -> Any:
    """An outcome that comes after a delay. In virtual time it costs no real time."""
    return _After(seconds, outcome)


class Scripted:
    """The asynchronous callable that `scripted` returns. `calls` has every call in order."""

    def __init__(self, outcomes: Iterable[Any] | Mapping[Any, Any]) -> None:
        self.calls: list[Call] = []
        self._by_item: dict[Any, Iterator[Any]] | None = None
        if isinstance(outcomes, Mapping):
            self._by_item = {item: iter(_as_list(of_item)) for item, of_item in outcomes.items()}
        else:
            self._in_order = iter(outcomes)

    @property
    def items(self) -> list[Any]:
        """The items of all calls in order; a retried item appears again."""
        return [call.item for call in self.calls]

    async def __call__(self, item: Any) -> Any:
        """Produce the next outcome."""
        self.calls.append(Call(item, asyncio.get_running_loop().time()))
        outcome = self._next(item)
        while True:
            if isinstance(outcome, _After):
                await asyncio.sleep(outcome.seconds)
                outcome = outcome.outcome
            elif isinstance(outcome, BaseException) or _raisable(outcome):
                raise outcome
            elif inspect.isfunction(outcome) or isinstance(outcome, partial):
                outcome = outcome(item)
            else:
                return outcome

    def _next(self, item: Any) -> Any:
        outcomes = self._in_order if self._by_item is None else self._by_item.get(item, iter(()))
        for outcome in outcomes:
            return outcome
        times = self.items.count(item)
        raise AssertionError(
            f"the script has no outcome for call {len(self.calls)} ({item!r}, its call number {times})"
        )


def _as_list(outcomes: Any) -> list[Any]:
    return outcomes if isinstance(outcomes, list) else [outcomes]


def _raisable(outcome: Any) -> bool:
    return isinstance(outcome, type) and issubclass(outcome, BaseException)


def scripted(outcomes: Iterable[Any] | Mapping[Any, Any] | Callable[[Any], Any]) -> Scripted:
    """An asynchronous callable whose outcomes are given in advance.

    An iterable has one outcome for each call, in the order of the calls. A mapping has the outcomes of each item; a list there
    has one outcome for each attempt. A function is called for every outcome.

    An outcome is a value, an exception to raise (also `headway.RateLimited(retry_after=30)`), `after(seconds, outcome)`, or
    a function of the item that returns one of these. A call without an outcome in the script raises an AssertionError.

    >>> import headway
    >>> call = scripted({"a": [headway.RateLimited(retry_after=30), 1], "b": after(5, 2)})
    >>> with headway.testing.virtual_time():
    ...     headway.map(call, ["a", "b"], limits=headway.Limits(max_concurrency=1))
    [1, 2]
    >>> call.items
    ['a', 'a', 'b']
    """
    if callable(outcomes) and not isinstance(outcomes, Iterable):
        return Scripted(repeat(partial(outcomes)))
    return Scripted(outcomes)
