"""Conversations as text: what was said in full, tool calls folded to one line each.

A tool call is its name, its shortened arguments, and the first line of its result. Unfolded, arguments and results follow in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.display.formatting import count, short

#: The most characters of arguments, and of the first line of a result.
ARGUMENTS: Final = 80
RESULT: Final = 100
#: The most characters of an event that no reader knows.
EVENT: Final = 120


def conversation_lines(messages: Iterable[object], *, unfold: bool = False) -> list[str]:
    """The lines of a whole conversation: a call and its result share a line."""
    known = [
        message if isinstance(message, Mapping) else {"role": "event", "content": message}
        for message in messages
    ]
    results = {
        _id(message.get("tool_call_id")): message for message in known if message.get("role") == "tool"
    }
    lines: list[str] = []
    for message in known:
        calls = _calls(message)
        if calls and not unfold:
            lines += (_call_line(call, results.pop(_id(call.get("id")), None)) for call in calls)
        elif message.get("role") != "tool" or unfold or _id(message.get("tool_call_id")) in results:
            lines += message_lines(message, unfold=unfold)
    return lines


def _id(value: object) -> str:
    """The id of a call. It may be any JSON value."""
    return value if isinstance(value, str) else repr(value)


def message_lines(message: Mapping[str, Any], *, unfold: bool = False) -> Iterator[str]:
    """The lines of one message by itself, as a conversation goes on."""
    role, content = str(message.get("role") or ""), message.get("content")
    if calls := _calls(message):
        for call in calls:
            yield _call_line(call, None, unfold=unfold)
            if unfold:
                yield from _indented(_text(call.get("arguments"), whole=True))
        return
    if not role:
        yield _text(message)
    elif role == "tool":
        yield from _result_lines(content, unfold=unfold)
    elif role == "event" and not unfold:
        yield f"event: {short(_text(content), EVENT)}"
    else:
        first, *rest = _text(content, whole=True).splitlines() or [""]
        yield f"{role}: {first}".rstrip()
        yield from _indented("\n".join(rest))


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


def _call_line(call: Mapping[str, Any], result: Mapping[str, Any] | None, *, unfold: bool = False) -> str:
    arguments = "" if unfold else f"({short(_arguments(call.get('arguments')), ARGUMENTS)})"
    answered = "" if result is None else f" → {_first_line(result.get('content'))}"
    return f"▸ {call.get('name') or 'tool'}{arguments}{answered}"


def _arguments(arguments: object) -> str:
    """Arguments as `name=value`; the name of a single one is left out."""
    if not isinstance(arguments, Mapping):
        return "" if arguments is None else _text(arguments)
    values = [(str(name), _text(value)) for name, value in arguments.items()]
    if len(values) == 1:
        return values[0][1]
    return ", ".join(f"{name}={value}" for name, value in values)


def _result_lines(content: object, *, unfold: bool) -> Iterator[str]:
    if not unfold:
        yield f"  → {_first_line(content)}"
        return
    first, *rest = _text(content, whole=True).splitlines() or ["(nothing)"]
    yield f"  → {first}"
    yield from ("    " + line for line in rest)


def _first_line(content: object) -> str:
    lines = [line for line in _text(content).splitlines() if line.strip()]
    if not lines:
        return "(nothing)"
    return short(lines[0], RESULT) + (f" (+{count(len(lines) - 1, 'line')})" if len(lines) > 1 else "")


def _text(value: object, *, whole: bool = False) -> str:
    """A value as text: the texts of a list of parts, or JSON (`whole`: indented)."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(_is_text(part) for part in value):
        return "\n".join(str(part["text"]) for part in value)
    if value is None:
        return ""
    encoded = msgspec.json.encode(value)
    return (msgspec.json.format(encoded, indent=2) if whole else encoded).decode()


def _is_text(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
