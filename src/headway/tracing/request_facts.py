"""PURE: what a request and its answer say about a model call, for attributes of spans. Reads no text of prompts or answers."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.tracing import genai_names as names

#: A name in a request or an answer is foreign text: no longer than this.
LONGEST: Final = 200
_MOST_STOPS: Final = 8


class _RequestFields(msgspec.Struct):
    """The parameters of OpenAI's and Anthropic's APIs. Others are ignored, and a field of another type is left out."""

    model: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    temperature: Any = None
    top_p: Any = None
    top_k: Any = None
    frequency_penalty: Any = None
    presence_penalty: Any = None
    seed: Any = None
    stop: Any = None
    stop_sequences: Any = None
    stream: Any = None
    n: Any = None
    generationConfig: Any = None


class _AnswerChoice(msgspec.Struct):
    finish_reason: Any = None
    finishReason: Any = None


class _AnswerFields(msgspec.Struct):
    id: Any = None
    model: Any = None
    stop_reason: Any = None
    choices: list[_AnswerChoice] = []
    candidates: list[_AnswerChoice] = []
    modelVersion: Any = None
    responseId: Any = None


class _GeminiConfig(msgspec.Struct):
    maxOutputTokens: Any = None
    temperature: Any = None
    topP: Any = None
    topK: Any = None
    seed: Any = None
    stopSequences: Any = None


_read_request: Final = msgspec.json.Decoder(_RequestFields).decode
_read_answer: Final = msgspec.json.Decoder(_AnswerFields).decode

Attributes = dict[str, Any]


def request_attributes(body: bytes, model: str) -> Attributes:
    """The parameters of a request. `model` is the route's, for a request that names none."""
    try:
        fields = _read_request(body)
    except (ValueError, RecursionError):
        fields = _RequestFields()
    config = _gemini(fields.generationConfig)
    named = fields.model if isinstance(fields.model, str) and fields.model else model
    found = {
        names.REQUEST_MODEL: named[:LONGEST] or None,
        "gen_ai.request.max_tokens": _first_int(
            fields.max_completion_tokens, fields.max_tokens, fields.max_output_tokens, config.maxOutputTokens
        ),
        "gen_ai.request.temperature": _number(fields.temperature, config.temperature),
        "gen_ai.request.top_p": _number(fields.top_p, config.topP),
        "gen_ai.request.top_k": _first_int(fields.top_k, config.topK),
        "gen_ai.request.frequency_penalty": _number(fields.frequency_penalty),
        "gen_ai.request.presence_penalty": _number(fields.presence_penalty),
        "gen_ai.request.seed": _first_int(fields.seed, config.seed),
        "gen_ai.request.stop_sequences": _texts(fields.stop, fields.stop_sequences, config.stopSequences),
        "gen_ai.request.stream": True if fields.stream is True else None,
        "gen_ai.request.choice.count": fields.n if type(fields.n) is int and fields.n > 1 else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def answer_attributes(body: bytes) -> Attributes:
    """The id, the model and the finish reasons of an answer."""
    try:
        fields = _read_answer(body)
    except (ValueError, RecursionError):
        return {}
    reasons = [
        choice.finish_reason or choice.finishReason for choice in (*fields.choices, *fields.candidates)
    ]
    found = {
        names.RESPONSE_ID: _text(fields.id) or _text(fields.responseId),
        names.RESPONSE_MODEL: _text(fields.model) or _text(fields.modelVersion),
        names.FINISH_REASONS: _texts([*reasons, fields.stop_reason]),
    }
    return {name: value for name, value in found.items() if value}


def _gemini(value: Any) -> _GeminiConfig:
    try:
        return msgspec.convert(value, _GeminiConfig)
    except (ValueError, RecursionError):
        return _GeminiConfig()


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""


def _first_int(*values: Any) -> int | None:
    return next((value for value in values if type(value) is int and abs(value) < 2**63), None)


def _number(*values: Any) -> float | None:
    return next((float(value) for value in values if type(value) in (int, float)), None)


def _texts(*values: Any) -> list[str] | None:
    """The texts of the first value that has any."""
    for value in values:
        listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        if texts := [text for each in listed[:_MOST_STOPS] if (text := _text(each))]:
            return texts
    return None
