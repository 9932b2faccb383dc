"""Recognises calls that fail because a client belongs to another event loop, and says what to use instead.

An asynchronous client binds itself to the loop of its first call. In a notebook, `await ask(x)` binds it to the notebook's loop, and
`headway.map(ask, xs)` then calls it on a loop of its own, where every call would fail.
"""

from __future__ import annotations

from typing import Final

from headway.errors import UsageError
from headway.providers.error_messages import exception_text

#: How asyncio, anyio and uvloop say it.
_TEXTS: Final = ("different event loop", "different loop", "event loop is closed")
_MOST_CAUSES: Final = 20


def foreign_loop_error(error: BaseException) -> UsageError | None:
    """The error to raise instead, if a call failed because of another event loop."""
    each: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if each is None:
            return None
        if isinstance(each, RuntimeError) and any(text in exception_text(each).lower() for text in _TEXTS):
            made = UsageError(
                "your function uses a client that belongs to another event loop, where it was used before",
                hint="in a notebook or a coroutine, use 'await headway.amap(…)'; or create the client inside the function",
            )
            made.__cause__ = each
            return made
        each = each.__context__ if each.__cause__ is None else each.__cause__
    return None
