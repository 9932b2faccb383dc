"""The chat formats of all APIs: where a request has its turns and its system prompt, and how an earlier answer is written there.
A function's row has a format, too: the row is the last turn, and the earlier ones are in a key of their own.

Pure. To continue a conversation, the earlier turns are put in front of a row's own turns (`continued`). Within one API they are
copied unchanged, including images and tool calls. Between two APIs they are copied as texts, so every turn must be a text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headway.batch import input_size
from headway.errors import UsageError

_encode: Final = msgspec.json.Encoder().encode
Body = dict[str, Any]
#: (role, text): "user" or "assistant".
Text = tuple[str, str]

#: Replaces an answer without text: APIs reject empty messages.
NO_TEXT: Final = "(no text)"
_SYSTEM_ROLES: Final = ("system", "developer")
#: The key under which a function gets the earlier turns, and the keys of its row that are not part of its text.
EARLIER_TURNS: Final = "earlier_turns"
_NOT_TEXT: Final = ("conversation", "store_as", EARLIER_TURNS, "model")
#: The keys of texts in a turn or a system prompt.
_TEXT_KEYS: Final = ("content", "text")


class ChatFormat(msgspec.Struct, frozen=True):
    """The format of one API. `split` returns the system prompt and the turns of a request; `join` puts them in."""

    name: str
    split: Callable[[Body], tuple[Any, list[Any]]]
    join: Callable[[Body, Any, list[Any]], None]
    #: Make a turn, and a system prompt, from a text.
    turn: Callable[[Text], Any]
    system: Callable[[str], Any]
    chars: Callable[[Mapping[str, Any]], int]


# -- each API -----------------------------------------------------------------------------------------------------


def _split_chat(body: Body) -> tuple[Any, list[Any]]:
    """In OpenAI's format, the first messages are the system prompt."""
    messages = body["messages"]
    first = next((n for n, one in enumerate(messages) if one.get("role") not in _SYSTEM_ROLES), len(messages))
    return messages[:first] or None, messages[first:]


def _join_chat(body: Body, system: Any, turns: list[Any]) -> None:
    body["messages"] = [*(system or ()), *turns]


def _split_responses(body: Body) -> tuple[Any, list[Any]]:
    value = body["input"]
    turns = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return body.get("instructions"), turns


def _join_responses(body: Body, system: Any, turns: list[Any]) -> None:
    body["input"] = turns
    if system is not None:
        body["instructions"] = system


def _split_messages(body: Body) -> tuple[Any, list[Any]]:
    return body.get("system"), body["messages"]


def _join_messages(body: Body, system: Any, turns: list[Any]) -> None:
    body["messages"] = turns
    if system is not None:
        body["system"] = system


def _split_contents(body: Body) -> tuple[Any, list[Any]]:
    return body.get("systemInstruction") or body.get("system_instruction"), body["contents"]


def _join_contents(body: Body, system: Any, turns: list[Any]) -> None:
    body["contents"] = turns
    if system is not None:
        body["system_instruction" if "system_instruction" in body else "systemInstruction"] = system


def _message(text: Text) -> Body:
    role, content = text
    return {"role": role, "content": content}


def _content(text: Text) -> Body:
    role, content = text
    return {"role": "model" if role == "assistant" else "user", "parts": [{"text": content}]}


def _blocks(text: Text) -> Body:
    role, content = text
    return {"role": role, "content": [{"text": content}]}


_FORMATS: Final = {
    "/chat/completions": ChatFormat(
        "chat completions",
        _split_chat,
        _join_chat,
        _message,
        lambda text: [{"role": "system", "content": text}],
        input_size.of_chat,
    ),
    "/responses": ChatFormat(
        "responses", _split_responses, _join_responses, _message, lambda text: text, input_size.of_response
    ),
    "/messages": ChatFormat(
        "messages", _split_messages, _join_messages, _message, lambda text: text, input_size.of_chat
    ),
    ":generateContent": ChatFormat(
        "generateContent",
        _split_contents,
        _join_contents,
        _content,
        lambda text: {"parts": [{"text": text}]},
        input_size.of_contents,
    ),
    "/converse": ChatFormat(
        "Converse",
        _split_messages,
        _join_messages,
        _blocks,
        lambda text: [{"text": text}],
        input_size.of_chat,
    ),
}


def _split_function_row(body: Body) -> tuple[Any, list[Any]]:
    """The row's text is its `prompt`, or the row as JSON."""
    earlier = list(body.get(EARLIER_TURNS, ()))
    system = earlier.pop(0)["content"] if earlier and earlier[0]["role"] == "system" else None
    text = body.get("prompt")
    if not isinstance(text, str):
        text = _encode({key: value for key, value in body.items() if key not in _NOT_TEXT}).decode()
    return system, [*earlier, {"role": "user", "content": text}]


def _join_function_row(body: Body, system: Any, turns: list[Any]) -> None:
    prompt = [] if system is None else [{"role": "system", "content": system}]
    body[EARLIER_TURNS] = prompt + turns[:-1]


FUNCTION_ROW: Final = ChatFormat(
    "functions",
    _split_function_row,
    _join_function_row,
    _message,
    lambda text: text,
    lambda body: len(_encode(body)),
)


def chat_format(path: str) -> ChatFormat | None:
    """The format of requests to this path; None if they are not chats."""
    return next((one for end, one in _FORMATS.items() if path.endswith(end)), None)


# -- continuing a conversation ------------------------------------------------------------------------------------


class Earlier(msgspec.Struct, frozen=True):
    """The earlier turns: the request of the last turn as it was sent, and the text of its answer."""

    format: ChatFormat
    body: Body
    answer: str


def continued(own: ChatFormat, body: Body, earlier: Earlier) -> None:
    """Put the earlier turns and their answer in front of a row's own turns. A row without a system prompt gets theirs."""
    system, turns = own.split(body)
    their_system, their_turns = earlier.format.split(earlier.body)
    if earlier.format is not own:
        their_system = None if their_system is None else own.system(_system_text(their_system))
        their_turns = [own.turn(text) for text in texts_of(earlier.format, their_turns)]
    answer = own.turn(("assistant", earlier.answer or NO_TEXT))
    if system is None or _extends(their_system, system):
        system = their_system
    own.join(body, system, [*their_turns, answer, *turns])


def _extends(their_system: Any, system: Any) -> bool:
    """Whether the earlier system prompt ends with this one. `--schema` adds the same words to every row that needs them: a row
    that has only these words has no system prompt of its own.
    """
    if their_system is None:
        return False
    try:
        return _system_text(their_system).endswith("\n\n" + _system_text(system))
    except UsageError:
        return False


def is_plain(own: ChatFormat, body: Body) -> bool:
    """Whether a request has only texts, so that another API can continue it."""
    system, turns = own.split(body)
    try:
        texts_of(own, turns)
        if system is not None:
            _system_text(system)
    except UsageError:
        return False
    return True


def texts_of(own: ChatFormat, turns: list[Any]) -> list[Text]:
    """The role and text of each turn. Raises if a turn has more than text."""
    texts = []
    for turn in turns:
        role = turn.get("role") if isinstance(turn, dict) else None
        content = None if role is None else turn.get("parts" if "parts" in turn else "content")
        if role not in ("user", "assistant", "model") or turn.get("tool_calls"):
            raise UsageError(f"a turn of {own.name} cannot be converted for another API")
        texts.append(("assistant" if role in ("assistant", "model") else "user", _text(content)))
    return texts


def _system_text(system: Any) -> str:
    if isinstance(system, list) and all(isinstance(one, dict) and "role" in one for one in system):
        return "\n\n".join(_text(one.get("content")) for one in system)
    return _text(system.get("parts") if isinstance(system, dict) else system)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise UsageError("a message has no text")
    texts = []
    for part in content:
        is_text = isinstance(part, dict) and part.get("type", "text") in ("text", "input_text", "output_text")
        if not is_text or not isinstance(part.get("text"), str):
            raise UsageError("a message has more than text")
        texts.append(part["text"])
    return "".join(texts)


# -- texts of a request -------------------------------------------------------------------------------------------

#: Returns the new text for a text.
Change = Callable[[str], str]


def change_texts(path: str, body: Any, change: Change) -> Any:
    """Change the texts of a request: those of its turns and of its system prompt. In a body that is not a chat (the payload of a
    function, a model's own format), every text is changed.
    """
    own = chat_format(path)
    if own is None:
        return _all_changed(body, change)
    system, turns = own.split(body)
    own.join(body, _changed(system, change, True), [_changed(turn, change, False) for turn in turns])
    return body


def _changed(value: Any, change: Change, is_text: bool) -> Any:
    if isinstance(value, str):
        return change(value) if is_text else value
    if isinstance(value, list):
        return [_changed(one, change, is_text) for one in value]
    if isinstance(value, dict):
        return {key: _changed(one, change, _holds_text(key, one)) for key, one in value.items()}
    return value


def _holds_text(key: str, value: Any) -> bool:
    return key in _TEXT_KEYS and (isinstance(value, str | list))


def _all_changed(value: Any, change: Change) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_all_changed(one, change) for one in value]
    if isinstance(value, dict):
        return {key: _all_changed(one, change) for key, one in value.items()}
    return value
