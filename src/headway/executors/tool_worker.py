"""Python functions of files, as tools: what a worker process does with them.

A file is imported when one of its functions is called for the first time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import msgspec

from headway.core.model import Kind, Outcome
from headway.executors.code.python_files import imported_file
from headway.executors.tool_function import ToolFunction
from headway.executors.worker_entry import CallRunner, JsonCall, Serve, UnitReply, traceback_of
from headway.executors.worker_protocol import ReplyNote
from headway.providers.error_messages import describe_exception, short_message


def serve_tools(directory: str, most: int) -> Serve:
    """Serves tools that work in `directory`. A value has at most `most` bytes."""
    os.chdir(directory)
    run = CallRunner()
    known: dict[bytes, tuple[ToolFunction, Callable[..., Any]]] = {}

    def serve(payload: bytes) -> UnitReply:
        name, _, body = payload.partition(b"\0")
        if name not in known:
            tool = ToolFunction.of_path(name.decode())
            try:
                known[name] = tool, _imported(tool)
            except (Exception, SystemExit) as error:
                return _not_imported(tool, error)
        tool, function = known[name]
        call = JsonCall(body, tool.function, most, with_context=False)
        try:
            value = run(function, *call.arguments)
        except BaseException as error:
            return _raised(call.raised(error), retried=tool.retried)
        return call.returned(value)

    return serve


def _imported(tool: ToolFunction) -> Callable[..., Any]:
    function = getattr(imported_file(tool.file), tool.function, None)
    if not callable(function):
        raise AttributeError(f"it has no function '{tool.function}'")
    return function  # type: ignore[no-any-return]


def _not_imported(tool: ToolFunction, error: BaseException) -> UnitReply:
    text = f"{tool.file} cannot be used: {describe_exception(error)}"
    outcome = Outcome(Kind.INVALID, message=short_message(text))
    return b"", ReplyNote(outcome, trace=traceback_of(error))


def _raised(reply: UnitReply, *, retried: bool) -> UnitReply:
    """An exception that says nothing about limits or connections is tried again only if the user wants that."""
    value, note = reply
    if note is not None and note.outcome.kind is Kind.CRASH and not note.spoiled:
        # sys.exit() is an exit code of the tool. Its process goes on.
        note.outcome = msgspec.structs.replace(note.outcome, kind=Kind.INVALID)
        note.exit_codes, note.code = [] if note.code is None else [note.code], None
    if retried and note is not None and note.outcome.kind is Kind.INVALID:
        note.outcome = msgspec.structs.replace(note.outcome, kind=Kind.TRANSIENT)
    return value, note
