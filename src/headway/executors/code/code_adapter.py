"""The code of an eval as a provider: assertions and transforms, and functions that are providers, in worker processes that stay.

It is a `PythonAdapter` whose workers run Python or keep a node process. A request for an assertion or a transform has the code in its
body (`CodeCall`), and its answer is `{"output": …}`. A function that is a provider gets the prompt, its options and the context.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headway.config.settings import CodeConfig
from headway.core.model import Kind, Outcome
from headway.executors.code import javascript_code, python_code
from headway.executors.code.code_call import CodeCall, decode_call, encode_call, returned_nothing
from headway.executors.entry_point import EntryPoint, entry_name
from headway.executors.python_adapter import PythonAdapter
from headway.executors.work_result import WorkResult, last_words
from headway.providers.adapter import Request
from headway.providers.error_messages import short_message
from headway.providers.program_answer import answer_of
from headway.providers.scrubber import NO_SECRETS, Scrubber

NO_OPTIONS: Final[Mapping[str, Any]] = MappingProxyType({})
_decode: Final = msgspec.json.Decoder().decode


class CodeAdapter(PythonAdapter):
    """Runs code for every unit. `options` are those of a provider, with their templates filled."""

    def __init__(
        self,
        settings: CodeConfig,
        size: int,
        place: str,
        scrub: Scrubber = NO_SECRETS,
        max_answer_bytes: int = 0,
        options: Mapping[str, Any] = NO_OPTIONS,
    ) -> None:
        super().__init__(settings, "", size, settings.directory, place, scrub, max_answer_bytes)
        self._code = settings
        self._options = {"config": {"basePath": settings.directory, **options}}

    def _entry(self) -> EntryPoint:
        serve = (
            python_code.serve_python if self._code.language == "python" else javascript_code.serve_javascript
        )
        return EntryPoint(entry_name(serve), pickle.dumps((self._code.directory, self._max_value)))

    def _payload(self, request: Request) -> bytes:
        if not self._code.file:
            return request.body
        row = _decode(request.body)
        given = {
            "prompt": row.get("prompt"),
            "options": self._options,
            "context": row.get("context", {}),
        }
        return encode_call(CodeCall("provider", given, self._code.file, self._code.function))

    async def _one(self, request: Request, timeout_s: float) -> WorkResult:
        limit = self._code.timeout_s
        result = await super()._one(request, min(timeout_s, limit) if limit else timeout_s)
        if result.end == "value":
            return _provided(result) if self._code.file else _returned(result, request)
        said = last_words(result.stderr) if result.end != "timeout" else ""
        if not said or said in result.outcome.message:
            return result
        message = short_message(f"{result.outcome.message}; last on standard error: {said}")
        return msgspec.structs.replace(
            result, outcome=msgspec.structs.replace(result.outcome, message=message)
        )


def _provided(result: WorkResult) -> WorkResult:
    """The result of a function that returns an output or an error: a provider, or one that computes a variable."""
    answer = answer_of(_decode(result.value))
    usage = answer.outcome.usage or result.outcome.usage
    outcome = msgspec.structs.replace(answer.outcome, usage=usage)
    if outcome.kind is None:
        return msgspec.structs.replace(result, value=answer.body, outcome=outcome)
    return msgspec.structs.replace(result, end="error", value=b"", outcome=outcome)


def _returned(result: WorkResult, request: Request) -> WorkResult:
    """The result of an assertion, a transform, or a variable."""
    role = decode_call(request.body).role
    if role == "variable":
        return _provided(result)
    problem = ""
    if result.value == b"null":
        problem = returned_nothing(role)
    elif role == "vars" and not result.value.startswith(b"{"):
        problem = "transformVars must return an object: the variables"
    if problem:
        outcome = Outcome(Kind.INVALID, result.outcome.usage, message=problem)
        return msgspec.structs.replace(result, end="error", value=b"", outcome=outcome)
    return msgspec.structs.replace(result, value=b'{"output":%b}' % result.value)
