"""How a worker pool's attempts and results go on record."""

from __future__ import annotations

from math import inf
from typing import Any

import msgspec

from headway.api.agents.agent_result import AgentRunResult
from headway.api.pool.work_units import WorkerResult
from headway.api.value_codec import ValueCodec
from headway.executors.attempt_details import AttemptDetails, text_of
from headway.executors.json_values import encode_json
from headway.providers.scrubber import Scrubber
from headway.safe_text import visible


def codec_of(scrub: Scrubber) -> ValueCodec:
    """The codec for results. What has no JSON form is stored as its text."""
    return ValueCodec(WorkerResult, text_of, scrub)


def details_of(prompt: str, result: WorkerResult | None) -> AttemptDetails:
    """The prompt as it was sent, the conversation and the session; for a failure also the output, if there is one. An agent's
    run has more: its directory, its process and its turns.

    `prompt` is the submitted one: the worker may have rendered another from it. The result comes from outside, so its fields
    may have any type.
    """
    if result is None:
        return AttemptDetails(prompt=_text(prompt))
    if isinstance(result, AgentRunResult):
        return msgspec.structs.replace(result.details, prompt=_text(result.rendered_prompt) or _text(prompt))
    return AttemptDetails(
        prompt=_text(result.rendered_prompt) or _text(prompt),
        messages=_list(result.conversation),
        session_id=_text(result.session_id),
        files=[_text(each) for each in _list(result.output_files)],
        output=None if result.success else result.output,
    )


def _text(value: Any) -> str:
    try:
        return value if isinstance(value, str) else "" if value is None else str(value)
    except BaseException:  # Its class may raise anything.
        return f"a {type(value).__name__}"


def _list(value: Any) -> list[Any]:
    if value is None or isinstance(value, str):
        return [value] if value else []
    return list(value) if isinstance(value, list | tuple) else [value]


def encoded(result: WorkerResult, codec: ValueCodec) -> tuple[bytes, WorkerResult]:
    """A result for the records, and the one for the callback: the same, or the recorded one if a secret was removed from it.

    A result that cannot be encoded at all is recorded as texts.
    """
    try:
        body, value, was_scrubbed = codec.encode(as_declared(result))
    except BaseException:  # Its values may raise anything when they are encoded or compared.
        plain = WorkerResult(result.success is True, text_of(result.output), text_of(result.error))
        body, value, was_scrubbed = codec.encode(plain)
    return body, value if was_scrubbed else result


def as_declared(result: WorkerResult) -> WorkerResult:
    """The result with every field of its declared type: `error=None` is no error, and must not lose the output."""
    return WorkerResult(
        bool(result.success),
        result.output,
        visible(_text(result.error)),
        _number(result.execution_time) or 0.0,
        [_text(each) for each in _list(result.output_files)],
        _text(result.rendered_prompt),
        _list(result.conversation),
        _text(result.session_id),
        _number(result.cost_usd) or 0.0,
    )


def cost_of(result: WorkerResult) -> float | None:
    """The reported cost; None if it is no amount: not a number, negative, infinite."""
    return _number(result.cost_usd)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except BaseException:  # The value may be of any class.
        return None
    return number if 0.0 <= number < inf else None


def as_json(value: Any) -> bytes:
    """JSON, with texts for values that have no JSON form."""
    return encode_json(value, text_of)
