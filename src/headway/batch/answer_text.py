"""The text of an answer, in the formats of all chat APIs; and whether it was cut off or refused."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.providers.dialects.structured_output import TOOL


class _AnsweredMessage(msgspec.Struct, gc=False):
    content: str


class _AnsweredChoice(msgspec.Struct, gc=False):
    message: _AnsweredMessage


class _AnsweredChat(msgspec.Struct, gc=False):
    choices: list[_AnsweredChoice]


_decode: Final = msgspec.json.Decoder().decode
#: Why Gemini ends an answer that it does not give.
_GEMINI_FILTERS: Final = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
    }
)
#: Only the text of a chat answer: a third of the time of decoding all of it.
_decode_chat: Final = msgspec.json.Decoder(_AnsweredChat).decode


def decoded(body: bytes) -> dict[str, Any]:
    """The body of an answer; empty if it is not a JSON object."""
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def answer_of(body: bytes) -> str:
    """The text of an answer (of the first choice); the body itself if it has no text."""
    text = text_of(decoded(body))
    return body.decode(errors="replace") if text is None else text


def plain_text(body: bytes) -> str | None:
    """The text of an answer, or of a function that returns a text; None if there is none."""
    if b'"content"' not in body and b'"text"' not in body and not body.startswith(b'"'):
        return None  # Embeddings are long: they are not decoded.
    try:
        return _decode_chat(body).choices[0].message.content
    except (msgspec.DecodeError, UnicodeError, RecursionError, IndexError):
        pass  # Not the most frequent form: all forms are tried.
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if isinstance(answer, str):
        return answer
    return text_of(answer) if isinstance(answer, dict) else None


def text_of(answer: dict[str, Any]) -> str | None:
    """The text of an answer; None if it has none."""
    match answer:
        case {"choices": [{"message": {"content": content}}, *_]}:
            return content if isinstance(content, str) else _joined(content)
        case {"choices": [{"text": str(text)}, *_]}:
            return text
        case {"output": list(items)}:
            contents = [item.get("content") for item in items if isinstance(item, dict) and "content" in item]
            return _joined([part for parts in contents if isinstance(parts, list) for part in parts])
        case {"output": {"message": {"content": list(parts)}}}:
            return _tool_input(parts) or _joined(parts)
        case {"content": parts}:
            return _joined(parts)
        case {"candidates": [{"content": {"parts": list(parts)}}, *_]}:
            return _joined([part for part in parts if isinstance(part, dict) and not part.get("thought")])
    return None


def _tool_input(parts: list[Any]) -> str | None:
    """The input of the tool through which Converse returns structured output."""
    for part in parts:
        match part:
            case {"toolUse": {"name": name, "input": value}} if name == TOOL:
                return msgspec.json.encode(value).decode()
    return None


def _joined(parts: object) -> str | None:
    """The joined texts of a list of parts; None if no part is a text."""
    if not isinstance(parts, list):
        return None
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type", "text") in ("text", "output_text")
        and isinstance(part.get("text"), str)
    ]
    return "".join(texts) if texts else None


def cut_short(answer: dict[str, Any]) -> bool:
    """Whether the answer ended at its token limit."""
    match answer:
        case {"choices": [{"finish_reason": "length"}, *_]}:
            return True
        case {"stop_reason": "max_tokens"} | {"incomplete_details": {"reason": "max_output_tokens"}}:
            return True
        case {"stopReason": "max_tokens"} | {"candidates": [{"finishReason": "MAX_TOKENS"}, *_]}:
            return True
    return False


def refusal_of(answer: dict[str, Any]) -> str | None:
    """The text of a refusal; None if the model did not refuse."""
    match answer:
        case {"choices": [{"message": {"refusal": str(refusal)}}, *_]} if refusal:
            return refusal
        case {"stop_reason": "refusal"}:
            return text_of(answer) or "it gave no reason"
        case {"output": list(items)}:
            contents = [item.get("content") for item in items if isinstance(item, dict)]
            parts = [part for content in contents if isinstance(content, list) for part in content]
            return next((part["refusal"] for part in parts if _refuses(part)), None)
    return None


def filter_of(answer: dict[str, Any]) -> str | None:
    """The word with which a provider says that it filtered the answer; None if it did not."""
    match answer:
        case {"choices": [{"finish_reason": "content_filter" as word}, *_]}:
            return str(word)
        case {"incomplete_details": {"reason": "content_filter" as word}}:
            return str(word)
        case {"stopReason": "content_filtered" | "guardrail_intervened" as word}:
            return str(word)
        case {"candidates": [{"finishReason": str(word)}, *_]} if word in _GEMINI_FILTERS:
            return word
        case {"promptFeedback": {"blockReason": str(word)}}:
            return word
    return None


def outgrew_context(answer: dict[str, Any]) -> bool:
    """Whether the answer ended because the context window of the model was full."""
    full = "model_context_window_exceeded"
    return full in (answer.get("stop_reason"), answer.get("stopReason"))


def is_api_response(answer: dict[str, Any]) -> bool:
    """Whether an object is the response of a chat API, with or without a text, and not a value that a function returned."""
    match answer:
        case {"choices": [*_]} | {"candidates": [*_]} | {"promptFeedback": {}} | {"stopReason": str()}:
            return True
        case {"object": "response"} | {"type": "message", "role": "assistant"}:
            return True
    return False


def _refuses(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("refusal"), str)
