"""Messages of every API and agent CLI in one form. PURE.

Chat completions, Anthropic, Responses, Gemini, Converse, and the messages that agents' transcripts have: what was said, tools that were
called, and what they returned. An unknown form is shown as JSON, and nothing raises: a body may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.batch.answer_text import decoded
from headway.safe_text import visible

#: The most characters of one text. A file in a prompt may have millions.
MOST_CHARS: Final = 100_000
#: Keys with a text, and names of parts that are tool calls or results, in all APIs.
_TEXTS: Final = ("text", "input_text", "output_text", "thinking", "refusal")
_CALL_PARTS: Final = ("tool_use", "function_call", "server_tool_use")
_RESULT_PARTS: Final = ("tool_result", "function_call_output")


class CalledTool(msgspec.Struct, frozen=True):
    """A tool that was called. `arguments` are JSON, or a text."""

    name: str
    arguments: Any


class SpokenTurn(msgspec.Struct, frozen=True):
    """One message. A message of a tool has `tool_result`; `at_utc` is known of transcripts."""

    role: str
    text: str
    tool_calls: tuple[CalledTool, ...] = ()
    tool_result: str | None = None
    at_utc: float | None = None
    attempt: int | None = None


def shown(text: str) -> str:
    """A text without control characters, and not longer than a page can show."""
    more = len(text) - MOST_CHARS
    return visible(text if more <= 0 else f"{text[:MOST_CHARS]}… ({more:,} more characters)")


def request_turns(body: bytes) -> list[SpokenTurn]:
    """The messages of a request. A body that is no chat is one message of the user."""
    request = decoded(body)
    turns: list[SpokenTurn] = []
    for name in ("system", "systemInstruction", "system_instruction", "instructions"):
        if name in request:
            turns += _of_message("system", request[name])
    for name in ("messages", "contents", "input", "prompt"):
        value = request.get(name)
        if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for message in value:
                turns += message_turns(message)
        elif isinstance(value, str | list):
            turns.append(SpokenTurn("user", shown(_text_of(value))))
    return turns or ([SpokenTurn("user", shown(body.decode(errors="replace")))] if body else [])


def answer_turns(body: bytes) -> list[SpokenTurn]:
    """The messages of an answer: every choice. A value that is no answer of an API is a text."""
    answer = decoded(body)
    turns: list[SpokenTurn] = []
    for message in _answered(answer):
        turns += message_turns(message)
    return turns or ([SpokenTurn("assistant", shown(_plain(body)))] if body else [])


def _answered(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The messages of an answer, with the role of the assistant."""
    output = answer.get("output")
    if isinstance(output, Mapping):  # Converse
        answer = output["message"] if isinstance(output.get("message"), Mapping) else {}
    for one in _objects(answer.get("choices")):  # chat and text completions
        message = one.get("message")
        yield {
            "role": "assistant",
            **(message if isinstance(message, Mapping) else {"content": one.get("text")}),
        }
    for one in _objects(answer.get("candidates")):  # Gemini
        content = one.get("content")
        yield {**(content if isinstance(content, Mapping) else {}), "role": "assistant"}
    for one in _objects(output):  # Responses
        yield {"role": "assistant", **one}
    if isinstance(answer.get("content"), list | str):
        yield {"role": "assistant", "content": answer["content"]}


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _plain(body: bytes) -> str:
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return body.decode(errors="replace")
    return _text_of(value)


def message_turns(
    message: Mapping[str, Any], at_utc: float | None = None, attempt: int | None = None
) -> list[SpokenTurn]:
    """The turns of one message. Results of tools are turns of their own, also where an API has them in a message of the user."""
    role = str(message.get("role") or _role_of(message))
    role = "assistant" if role == "model" else role
    content = message.get("content", message.get("parts"))
    if message.get("type") in (*_CALL_PARTS, *_RESULT_PARTS):  # An item of Responses is a part by itself.
        content = [message]
    elif content is None and not message.get("tool_calls") and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    is_item = isinstance(content, list) and content == [message]
    if role in ("tool", "function") and "parts" not in message and not is_item:
        turns = [SpokenTurn("tool", "", tool_result=shown(_text_of(content)))]
    else:
        turns = _of_message(role, content, _calls_of(message))
    stamped = at_utc is not None or attempt is not None
    return (
        [msgspec.structs.replace(turn, at_utc=at_utc, attempt=attempt) for turn in turns]
        if stamped
        else turns
    )


def _role_of(message: Mapping[str, Any]) -> str:
    kind = str(message.get("type") or "")
    return "tool" if kind in _RESULT_PARTS else "assistant" if kind in _CALL_PARTS else "event"


def _of_message(role: str, content: object, calls: tuple[CalledTool, ...] = ()) -> list[SpokenTurn]:
    """The turns of a content: a text, or parts."""
    if isinstance(content, Mapping) and isinstance(content.get("parts"), list):
        content = content["parts"]
    texts: list[str] = []
    found = list(calls)
    results: list[SpokenTurn] = []
    for part in content if isinstance(content, list) else [content]:
        if (call := _call(part)) is not None:
            found.append(call)
        elif (result := _result(part)) is not None:
            results.append(SpokenTurn("tool", "", tool_result=shown(_text_of(result))))
        elif part is not None:
            texts.append(_text_of(part))
    text = shown("\n".join(one for one in texts if one))
    said = [SpokenTurn(role, text, tuple(found))] if text or found or not results else []
    return [*results, *said] if role == "user" else [*said, *results]


def _calls_of(message: Mapping[str, Any]) -> tuple[CalledTool, ...]:
    """The calls beside the content: of chat completions, and of transcripts."""
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    listed = [*(calls if isinstance(calls, list) else []), *([legacy] if isinstance(legacy, Mapping) else [])]
    return tuple(_tool_call(call) for call in listed if isinstance(call, Mapping))


def _tool_call(call: Mapping[str, Any]) -> CalledTool:
    function = call.get("function")
    of = function if isinstance(function, Mapping) else call
    return CalledTool(visible(str(of.get("name") or "tool")), _arguments(of.get("arguments")))


def _arguments(value: object) -> Any:
    """Arguments as JSON; chat completions have them as a text with JSON."""
    if isinstance(value, str):
        try:
            return clean(msgspec.json.decode(value))
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return shown(value)
    return clean(value)


def clean(value: Any) -> Any:
    """A JSON value whose texts have no control characters."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [clean(one) for one in value]
    if isinstance(value, Mapping):
        return {visible(str(name)): clean(one) for name, one in value.items()}
    return value


def _call(part: object) -> CalledTool | None:
    match part:
        case {"type": kind, "name": name} if kind in _CALL_PARTS:
            of = part if isinstance(part, Mapping) else {}
            return CalledTool(visible(str(name)), _arguments(of.get("input", of.get("arguments"))))
        case {"functionCall": {"name": name, **rest}} | {"function_call": {"name": name, **rest}}:
            return CalledTool(visible(str(name)), _arguments(rest.get("args")))
        case {"toolUse": {"name": name, **rest}}:
            return CalledTool(visible(str(name)), _arguments(rest.get("input")))
    return None


def _result(part: object) -> object:
    """What a tool returned; None if the part is no result."""
    match part:
        case {"type": kind, **rest} if kind in _RESULT_PARTS:
            return rest.get("content", rest.get("output", ""))
        case {"functionResponse": {**rest}} | {"function_response": {**rest}}:
            return rest.get("response", "")
        case {"toolResult": {**rest}}:
            return rest.get("content", "")
    return None


def _text_of(value: object) -> str:
    """A value as text: a text itself, the texts of parts, the names of other parts, or JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and value:
        return "\n".join(_parts_text(value))
    if isinstance(value, Mapping):
        return _part_text(value)
    return _json(value)


def _parts_text(parts: list[Any]) -> Iterator[str]:
    for part in parts:
        yield _part_text(part) if isinstance(part, Mapping) else _text_of(part)


def _part_text(part: Mapping[str, Any]) -> str:
    for name in _TEXTS:
        if isinstance(part.get(name), str):
            return str(part[name])
    content = part.get("content")
    if isinstance(content, str | list) and part.get("type") in (None, "text", "message"):
        return _text_of(content)
    kind = part.get("type")
    if isinstance(kind, str) and any(one in kind for one in ("image", "audio", "file", "document")):
        return f"[{kind}]"
    inner = next((name for name in ("inlineData", "inline_data", "image", "document") if name in part), None)
    return f"[{inner}]" if inner else _json(part)


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return str(value)
