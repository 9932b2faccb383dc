"""Exceptions of every awkward kind, and functions that raise them. Worker processes import this file by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class Panic(BaseException):
    """As extension modules written in Rust raise it."""


class Mute(Exception):
    """Nothing that is asked of it works."""

    def _fails(self, *_: Any) -> Any:
        raise RuntimeError("ask me nothing")

    __str__ = __repr__ = __eq__ = __bool__ = __len__ = __reduce__ = __reduce_ex__ = add_note = _fails
    __hash__ = Exception.__hash__

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


class MutePanic(BaseException):
    """The same, and no `Exception`. Its text is the exception itself."""

    def __str__(self) -> str:
        raise self

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise SystemExit(1)


#: By their names: an exception that was raised once is not used again.
RAISED: dict[str, Callable[[], BaseException]] = {
    "exception": lambda: ValueError("oh"),
    "panic": lambda: Panic("index out of bounds"),
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "cancelled": lambda: asyncio.CancelledError("by hand"),
    "generator exit": GeneratorExit,
    "stop": lambda: StopIteration(7),
    "async stop": StopAsyncIteration,
    "mute": Mute,
    "mute panic": MutePanic,
    "group": lambda: BaseExceptionGroup("some", [KeyboardInterrupt(), ValueError("oh")]),
}


def act(name: str) -> str:
    """Raises what is named; gives the name where there is nothing to raise."""
    if name in RAISED:
        raise RAISED[name]()
    return name


async def aact(name: str) -> str:
    await asyncio.sleep(0)
    return act(name)


async def task_act(name: str) -> str:
    """In a task of its own: asyncio stops its loop when a task raises SystemExit or KeyboardInterrupt."""
    return await asyncio.create_task(aact(name))


async def cancels_itself(name: str) -> str:
    """Does not raise: cancels its own task."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return name
