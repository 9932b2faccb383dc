"""Python code of an eval file: what a worker process does with it.

A file is imported once. Code that is written in the eval file is one expression, or the body of a function with `return`.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headway.core.model import Kind, Outcome
from headway.executors.code.code_call import USUAL_FUNCTIONS, CodeCall, decode_call
from headway.executors.code.python_files import imported_file
from headway.executors.worker_entry import CallRunner, JsonCall, Serve, UnitReply, traceback_of
from headway.executors.worker_protocol import ReplyNote
from headway.providers.error_messages import describe_exception, short_message

#: The file name of code that has none, in tracebacks.
_INLINE: Final = "<code>"
_LINES_BEFORE: Final = 2
#: Functions that are kept for the next call. Code that is a template may differ in each cell.
_MOST_KNOWN: Final = 256
#: The mark that `headway.eval.assertion` leaves on a function.
GRADER_MARK: Final = "__headway_assertion__"
#: Python's names of what a result says: `pass` is a keyword.
_RENAMED: Final = {
    "pass_": "pass",
    "named_scores": "namedScores",
    "component_results": "componentResults",
    "tokens_used": "tokensUsed",
}


def serve_python(directory: str, most: int) -> Serve:
    """Serves code that works in `directory`. A value has at most `most` bytes."""
    os.chdir(directory)
    run = CallRunner()
    known: dict[tuple[str, ...], Callable[..., Any]] = {}

    def serve(payload: bytes) -> UnitReply:
        code = decode_call(payload)
        key = (code.role, code.file, code.function, code.source, *code.arguments)
        try:
            function = known.get(key) or _function(code)
        except (Exception, SystemExit) as error:
            return _unusable(code, error)
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key] = function
        call = JsonCall(b"null", code.function, most, with_context=False)
        try:
            value = run(function, *code.arguments.values())
        except BaseException as error:
            return _raised(code, error, call.raised(error))
        return call.returned(_renamed(value) if code.role == "assertion" else value)

    return serve


# -- functions ------------------------------------------------------------------------------------------------------


def _function(code: CodeCall) -> Callable[..., Any]:
    if not code.file:
        return _compiled(code.source, tuple(code.arguments))
    module = imported_file(code.file)
    name = code.function or USUAL_FUNCTIONS[code.role]
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None and not code.function and code.role == "assertion":
        found = _only_grader(vars(module).values())
    if not callable(found):
        raise AttributeError(f"it has no function '{name}'")
    return found  # type: ignore[no-any-return]


def _only_grader(values: Any) -> Any:
    """The function with the decorator, if there is one only."""
    graders = [value for value in values if getattr(value, GRADER_MARK, False)]
    return graders[0] if len(graders) == 1 else None


def _compiled(source: str, names: tuple[str, ...]) -> Callable[..., Any]:
    text = source.strip("\n")
    try:
        body = f"    return ({text.strip()}\n)"
        compile(text.strip(), _INLINE, "eval")
    except SyntaxError:
        body = "\n".join(_indented(text))
    scope: dict[str, Any] = {"__name__": "headway_code"}
    exec(compile(f"import json\ndef code({', '.join(names)}):\n{body}\n", _INLINE, "exec"), scope)
    function: Callable[..., Any] = scope["code"]
    return function


def _indented(text: str) -> Iterator[str]:
    """The lines of a function's body, with the indentation that they use themselves."""
    lines = text.split("\n")
    used = (
        next((line[: len(line) - len(line.lstrip())] for line in lines if line[:1].isspace()), "") or "    "
    )
    return (used + line for line in lines)


# -- results --------------------------------------------------------------------------------------------------------


def _renamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {_RENAMED.get(name, name): _renamed_parts(name, part) for name, part in value.items()}
    return value


def _renamed_parts(name: Any, part: Any) -> Any:
    if name in ("component_results", "componentResults") and isinstance(part, list):
        return [_renamed(each) for each in part]
    return part


def _unusable(code: CodeCall, error: BaseException) -> UnitReply:
    said = describe_exception(error)
    if isinstance(error, SyntaxError) and error.filename == _INLINE:
        said = f"{error.msg} in line {_own_line(error.lineno or 0)}"
    text = f"{code.place} cannot be used: {said}"
    return b"", ReplyNote(Outcome(Kind.INVALID, message=short_message(text)), trace=traceback_of(error))


def _raised(code: CodeCall, error: BaseException, reply: UnitReply) -> UnitReply:
    """The exception, with the line of the code that it is from."""
    value, note = reply
    if note is not None and note.outcome.kind is Kind.INVALID and (line := _line_of(code, error)):
        text = short_message(f"{os.path.basename(code.place)}, line {line}: {note.outcome.message}")
        note.outcome = msgspec.structs.replace(note.outcome, message=text)
    return value, note


def _line_of(code: CodeCall, error: BaseException) -> int:
    """The last line of the code's own file in the traceback; 0 if there is none."""
    file = code.file or _INLINE
    lines = [
        frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file
    ]
    if not lines:
        return 0
    return lines[-1] if code.file else _own_line(lines[-1])


def _own_line(line: int) -> int:
    """The line of code without a file, which begins below two lines of ours."""
    return max(1, line - _LINES_BEFORE)
