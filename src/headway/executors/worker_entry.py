"""What runs inside a worker process: one unit's payload → its value, or a note of what went wrong.

A pool starts a worker with the name of one of the `serve_*` functions. Nothing that a callable does leaves as an
exception: a value that cannot be pickled, or is not JSON, is an outcome of its unit. Imports nothing above
`executors`.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Final

import msgspec

from headway.core.model import Kind, Outcome, Usage
from headway.core.retry import THROTTLES
from headway.executors.attempt_details import plain_value
from headway.executors.json_values import dump_model, encode_json
from headway.executors.worker_main import fault, publish_usage, running_unit
from headway.executors.worker_protocol import ReplyNote
from headway.providers.call_reports import RateLimited, current_attempt, usage
from headway.providers.error_messages import describe_exception
from headway.providers.limits.exception_outcome import exit_codes_in, outcome_of
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_result
from headway.runtime.loops import run_on

UnitReply = tuple[bytes, ReplyNote | None]
Serve = Callable[[bytes], UnitReply]
RetryOn = tuple[type[BaseException], ...]

#: The end of a traceback that is passed on.
_MAX_TRACE_CHARS: Final = 20_000


class Context:
    """What a function with a `context` parameter can report while it runs.

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

    #: Tokens and cost, for the lane's meters; several calls add up. The same as `headway.usage`.
    usage = staticmethod(usage)

    def message(self, role: str, content: Any) -> None:
        """One turn of the conversation that led to the result."""
        self.messages.append({"role": role, "content": content})

    def output_file(self, path: str) -> None:
        """A file that the unit wrote."""
        self.files.append(str(path))


class _Attempt:
    """The usage of one attempt. It is published at once, because a process that dies cannot report it later."""

    __slots__ = ("_number", "_usage")

    def __init__(self) -> None:
        self._number = running_unit()
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """What was reported so far."""
        return self._usage

    @usage.setter
    def usage(self, used: Usage | None) -> None:
        self._usage = used
        if used is not None:
            publish_usage(self._number, used)


class CallRunner:
    """Calls a callable; awaits the result of an asynchronous one on an event loop that is kept for the next call."""

    def __init__(self) -> None:
        self._loop: asyncio.Runner | None = None

    def __call__(self, call: Callable[..., Any], *arguments: Any) -> Any:
        value = call(*arguments)
        if not inspect.isawaitable(value):
            return value
        if self._loop is None:
            self._loop = asyncio.Runner()
        return run_on(self._loop.get_loop(), _awaited(value))


def call_to_end(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call in the current thread; an asynchronous callable gets an event loop for this call."""
    value = call(*arguments)
    if not inspect.isawaitable(value):
        return value
    with asyncio.Runner() as runner:
        return run_on(runner.get_loop(), _awaited(value))


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


def serve_calls(call: Callable[[Any], Any], retry_on: RetryOn = ()) -> Serve:
    """For `headway.map`: items and values are pickled."""
    run = CallRunner()

    def serve(payload: bytes) -> UnitReply:
        attempt = _Attempt()
        current_attempt.set(attempt)
        try:
            value = run(call, pickle.loads(payload))
        except BaseException as error:
            return b"", failure_note(error, attempt.usage, retry_on)
        limit = limit_outcome(value, attempt.usage)
        if limit is not None:
            return b"", ReplyNote(limit, source="result")
        try:
            packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            text = f"returned a value that cannot be sent to another process: {describe_exception(error)}"
            return b"", ReplyNote(Outcome(Kind.INVALID, attempt.usage, message=text))
        return packed, None if attempt.usage is None else ReplyNote(Outcome(usage=attempt.usage))

    return serve


class JsonCall:
    """One call of a function for `kind = "python"`: its payload and its value are JSON."""

    __slots__ = ("arguments", "attempt", "context", "most")

    def __init__(self, payload: bytes, model: str, most: int, *, with_context: bool) -> None:
        self.most = most
        self.attempt, self.context = _Attempt(), Context(model)
        current_attempt.set(self.attempt)
        value = msgspec.json.decode(payload)
        self.arguments = (value, self.context) if with_context else (value,)

    def returned(self, value: Any) -> UnitReply:
        return _as_json(value, self.attempt.usage, self.context, self.most)

    def raised(self, error: BaseException) -> UnitReply:
        note = failure_note(error, self.attempt.usage, ())
        note.messages, note.files = _plain(self.context.messages), self.context.files
        return b"", note


def serve_rows(target: str, model: str, root: str, most: int) -> Serve:
    """For `kind = "python"` in worker processes. `root` is the directory of headway.toml, `most` the bytes of a value."""
    return _rows(target, model, root, most, CallRunner())


def serve_rows_in_threads(target: str, model: str, root: str, most: int) -> Serve:
    """For `kind = "python"` in threads, one for each call."""
    return _rows(target, model, root, most, call_to_end)


def _rows(target: str, model: str, root: str, most: int, run: Callable[..., Any]) -> Serve:
    function = import_target(target, root)
    with_context = _asks_for_context(function)

    def serve(payload: bytes) -> UnitReply:
        row = JsonCall(payload, model, most, with_context=with_context)
        try:
            value = run(function, *row.arguments)
        except BaseException as error:
            return row.raised(error)
        return row.returned(value)

    return serve


def serve_rows_inline(
    target: str, model: str, root: str, most: int
) -> Callable[[bytes], Awaitable[UnitReply]]:
    """For `kind = "python"` on the running event loop. Asynchronous functions run concurrently and can be cancelled."""
    function = import_target(target, root)
    with_context = _asks_for_context(function)

    async def serve(payload: bytes) -> UnitReply:
        row = JsonCall(payload, model, most, with_context=with_context)
        try:
            value = function(*row.arguments)
            if inspect.isawaitable(value):
                value = await value
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return row.raised(error)
        except BaseException as error:
            return row.raised(error)
        return row.returned(value)

    return serve


def import_target(target: str, root: str) -> Callable[..., Any]:
    """Import the function that "package.module:function" names. A module in `root` wins over an installed one."""
    module, _, name = target.partition(":")
    _import_from(root, module.partition(".")[0])
    function: Any = import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    if not callable(function):
        raise TypeError(f"{target} is not a function")
    callable_target: Callable[..., Any] = function
    return callable_target


def _import_from(root: str, name: str) -> None:
    """Import a top-level module from a directory, if it is there, although the directory is last on the path."""
    spec = None if name in sys.modules else PathFinder.find_spec(name, [root])
    if spec is None or spec.loader is None:
        return
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _asks_for_context(function: Callable[..., Any]) -> bool:
    try:
        return "context" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # Some builtins have no signature.
        return False


def _as_json(value: Any, used: Usage | None, context: Context, most: int) -> UnitReply:
    try:
        body = encode_json(value, dump_model)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        text = f"returned a value that is not JSON: {error}".rstrip(": ")
        return b"", ReplyNote(Outcome(Kind.INVALID, used, message=text), messages=_plain(context.messages))
    if len(body) > most:
        text = f"returned {len(body):,} bytes of JSON; max_answer_bytes of this provider is {most:,}"
        return b"", ReplyNote(Outcome(Kind.INVALID, used, message=text), messages=_plain(context.messages))
    limit = limit_outcome(value, used)
    if limit is not None:
        return b"", ReplyNote(limit, source="result", messages=_plain(context.messages), files=context.files)
    if used is None and not context.messages and not context.files:
        return body, None
    return body, ReplyNote(Outcome(usage=used), messages=_plain(context.messages), files=context.files)


def _plain(messages: list[Any]) -> list[Any]:
    """Messages as JSON values; one that JSON cannot hold becomes its text."""
    return [plain_value(message) for message in messages]


def limit_outcome(value: Any, used: Usage | None = None) -> Outcome | None:
    """The outcome of a result that reports a rate limit: `{"rate_limit": {"retry_after_s": 30, "message": "…"}}`."""
    facts = limit_in_result(value)
    return None if facts is None else Outcome(facts.kind, used, facts.hint, facts.message)


def failure_note(error: BaseException, used: Usage | None, retry_on: RetryOn) -> ReplyNote:
    """The note for an exception that a callable raised."""
    if isinstance(error, SystemExit):
        limit = outcome_of(error, used)
        if limit.kind in LIMIT_KINDS:  # sys.exit("…") prints the text on standard error.
            return ReplyNote(limit, source="SystemExit")
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return ReplyNote(Outcome(Kind.CRASH, used, message=f"it called sys.exit({error.code!r})"), code=code)
    if isinstance(error, asyncio.CancelledError):
        return ReplyNote(Outcome(Kind.INVALID, used, message="it raised CancelledError itself"))
    if isinstance(error, MemoryError) or not isinstance(error, Exception):
        # Out of memory, or an exception that ends a process: the process is not used again.
        return ReplyNote(
            Outcome(Kind.CRASH, used, message=fault(error)), trace=traceback_of(error), spoiled=True
        )
    outcome = outcome_of(error, used, retry_on)
    limited = outcome.kind in THROTTLES
    source = "RateLimited" if isinstance(error, RateLimited) else type(error).__name__
    return ReplyNote(
        outcome,
        _pickled(error),
        traceback_of(error),
        source=source if limited else "",
        exit_codes=[] if limited else list(exit_codes_in(error)),
    )


def _pickled(error: Exception) -> bytes:
    try:
        return pickle.dumps(error)
    except BaseException:  # Its `__reduce__` may raise anything.
        return b""


def traceback_of(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))[-_MAX_TRACE_CHARS:]
    except Exception:  # Its `__str__` may raise.
        return ""
