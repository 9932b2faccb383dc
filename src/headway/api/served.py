"""What runs inside a worker process: one unit's payload → its value, or a note of what went wrong.

A worker is a program of its own, on the top layer like a command: a pool starts it by the names of what is here
(`headway.api.served:calls`) and imports none of it. Nothing that a callable does leaves as an exception, and whatever
leaves is data: a value that cannot be pickled or is no JSON is an outcome of its unit.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import msgspec

from headway.api import json_floats
from headway.api.attempt import RateLimited, current, usage
from headway.api.failures import outcome_of
from headway.api.loops import completed
from headway.core.model import Hint, Kind, Outcome, Usage
from headway.core.retry import THROTTLES
from headway.executors.frames import Note
from headway.executors.worker import fault, spent
from headway.providers.messages import said

Served = tuple[bytes, Note | None]
Serve = Callable[[bytes], Served]
RetryOn = tuple[type[BaseException], ...]

#: How much of a traceback is passed on.
_LONGEST_TRACE: Final = 20_000


class Context:
    """What a function that asks for `context` may say while it runs.

    >>> def grade(payload, context):
    ...     context.usage(input_tokens=812, output_tokens=64, cost_usd=0.002)
    ...     context.message("assistant", "The essay is well argued.")
    ...     context.output_file("reports/7.md")
    ...     return {"grade": "A"}
    """

    def __init__(self, model: str) -> None:
        #: The model that the row names, or the name of the function.
        self.model = model
        self.messages: list[Any] = []
        self.files: list[str] = []

    #: Tokens and cost, so that the lane's meters settle; several calls add up. The same as `headway.usage`.
    usage = staticmethod(usage)

    def message(self, role: str, content: Any) -> None:
        """One turn of the conversation that led to the result."""
        self.messages.append({"role": role, "content": content})

    def output_file(self, path: str) -> None:
        """A file that the unit wrote."""
        self.files.append(str(path))


class _Attempt:
    """Keeps the usage of one attempt, and shows it at once: a process that dies cannot tell any more."""

    __slots__ = ("_usage",)

    def __init__(self) -> None:
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """What was told so far."""
        return self._usage

    @usage.setter
    def usage(self, used: Usage | None) -> None:
        self._usage = used
        if used is not None:
            spent(used)


class _Runner:
    """Calls, and finishes what an asynchronous callable began."""

    def __init__(self) -> None:
        self._loop: asyncio.Runner | None = None

    def __call__(self, call: Callable[..., Any], *given: Any) -> Any:
        value = call(*given)
        if not inspect.isawaitable(value):
            return value
        if self._loop is None:
            self._loop = asyncio.Runner()

        async def waited() -> Any:
            return await value

        return completed(self._loop.get_loop(), waited())


def calls(call: Callable[[Any], Any], retry_on: RetryOn = ()) -> Serve:
    """For `headway.map`: items and values are pickled."""
    run = _Runner()

    def serve(payload: bytes) -> Served:
        attempt = _Attempt()
        current.set(attempt)
        try:
            value = run(call, pickle.loads(payload))
        except BaseException as error:
            return b"", failed(error, attempt.usage, retry_on)
        try:
            packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            text = f"returned what cannot be sent to another process: {said(error)}"
            return b"", Note(Outcome(Kind.INVALID, attempt.usage, message=text))
        return packed, None if attempt.usage is None else Note(Outcome(usage=attempt.usage))

    return serve


def rows(target: str, model: str) -> Serve:
    """For `kind = "python"`: payloads and values are JSON."""
    function = found(target)
    with_context = _asks_for_context(function)
    run = _Runner()

    def serve(payload: bytes) -> Served:
        attempt, context = _Attempt(), Context(model)
        current.set(attempt)
        try:
            given = msgspec.json.decode(payload)
            value = run(function, given, context) if with_context else run(function, given)
        except BaseException as error:
            note = failed(error, attempt.usage, ())
            note.messages, note.files = _plain(context.messages), context.files
            return b"", note
        return _as_json(value, attempt.usage, context)

    return serve


def found(target: str) -> Callable[..., Any]:
    """The function that "package.module:function" names."""
    module, _, name = target.partition(":")
    function: Any = import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    if not callable(function):
        raise TypeError(f"{target} is no function")
    made: Callable[..., Any] = function
    return made


def _asks_for_context(function: Callable[..., Any]) -> bool:
    try:
        return "context" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # A builtin may have none.
        return False


def _as_json(value: Any, used: Usage | None, context: Context) -> Served:
    try:
        body = json_floats.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"returned what is no JSON: {error}".rstrip(": ")
        return b"", Note(Outcome(Kind.INVALID, used, message=text), messages=_plain(context.messages))
    limit = limit_in(value, used)
    if limit is not None:
        return b"", Note(limit, source="result", messages=_plain(context.messages), files=context.files)
    if used is None and not context.messages and not context.files:
        return body, None
    return body, Note(Outcome(usage=used), messages=_plain(context.messages), files=context.files)


def _plain(messages: list[Any]) -> list[Any]:
    """As they can cross."""
    made: list[Any] = json_floats.json_floats(msgspec.to_builtins(messages, enc_hook=str))
    return made


def limit_in(value: Any, used: Usage | None = None) -> Outcome | None:
    """A result that says itself that a limit was met: `{"rate_limit": {"retry_after_s": 30, "message": "…"}}`."""
    told = value.get("rate_limit") if isinstance(value, dict) else None
    if not told:
        return None
    told = told if isinstance(told, dict) else {"message": told if isinstance(told, str) else ""}
    wait_s = next((told[name] for name in _WAITS if isinstance(told.get(name), int | float)), None)
    message = next((told[name] for name in _WORDS if isinstance(told.get(name), str)), "")
    hint = None if wait_s is None or isinstance(wait_s, bool) else Hint(retry_after_s=max(0.0, float(wait_s)))
    return Outcome(Kind.RATE, used, hint, message or "the result says that a rate limit was met")


#: How results and their frameworks name it; the second is the seed's.
_WAITS: Final = ("retry_after_s", "retry_after_seconds", "retry_after")
_WORDS: Final = ("message", "error_message", "reason")


def failed(error: BaseException, used: Usage | None, retry_on: RetryOn) -> Note:
    """What a callable raised."""
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return Note(Outcome(Kind.CRASH, used, message=f"it called sys.exit({error.code!r})"), code=code)
    if isinstance(error, asyncio.CancelledError):
        return Note(Outcome(Kind.INVALID, used, message="it ended with a CancelledError of its own"))
    if isinstance(error, MemoryError) or not isinstance(error, Exception):
        # Out of memory, or somebody meant to end this process: nothing in it is to be trusted.
        return Note(Outcome(Kind.CRASH, used, message=fault(error)), trace=_trace(error), spoiled=True)
    outcome = outcome_of(error, used, retry_on)
    limited = outcome.kind in THROTTLES
    source = "RateLimited" if isinstance(error, RateLimited) else type(error).__name__
    return Note(outcome, _pickled(error), _trace(error), source=source if limited else "")


def _pickled(error: Exception) -> bytes:
    try:
        return pickle.dumps(error)
    except Exception:
        return b""


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))[-_LONGEST_TRACE:]
    except Exception:  # An exception whose own words raise.
        return ""
