"""A conversation goes on in each API's own form, and from one API to another as texts."""

from __future__ import annotations

from typing import Any

import pytest

from headway.batch.requests.chat_formats import Earlier, change_texts, chat_format, continued, is_plain
from headway.errors import UsageError

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI, CONVERSE = "/v1beta/models/g:generateContent", "/model/c/converse"
AZURE = "/deployments/gpt/chat/completions"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def block(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"text": text}]}


def part(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


#: path → a request that asks "one" with the system prompt "brief", one that asks "two" without, and both with the answer "1".
APIS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    CHAT: (
        {"messages": [{"role": "system", "content": "brief"}, user("one")]},
        {"model": "m", "messages": [user("two")], "n": 1},
        {"model": "m", "messages": [{"role": "system", "content": "brief"}, user("one"), said("1"), user("two")], "n": 1},
    ),
    RESPONSES: (
        {"input": "one", "instructions": "brief"},
        {"model": "m", "input": [user("two")]},
        {"model": "m", "input": [user("one"), said("1"), user("two")], "instructions": "brief"},
    ),
    MESSAGES: (
        {"messages": [user("one")], "system": "brief", "max_tokens": 5},
        {"messages": [user("two")], "max_tokens": 9},
        {"messages": [user("one"), said("1"), user("two")], "max_tokens": 9, "system": "brief"},
    ),
    GEMINI: (
        {"contents": [part("user", "one")], "systemInstruction": {"parts": [{"text": "brief"}]}},
        {"contents": [part("user", "two")], "generationConfig": {"seed": 1}},
        {
            "contents": [part("user", "one"), part("model", "1"), part("user", "two")],
            "generationConfig": {"seed": 1},
            "systemInstruction": {"parts": [{"text": "brief"}]},
        },
    ),
    CONVERSE: (
        {"messages": [block("user", "one")], "system": [{"text": "brief"}]},
        {"messages": [block("user", "two")]},
        {
            "messages": [block("user", "one"), block("assistant", "1"), block("user", "two")],
            "system": [{"text": "brief"}],
        },
    ),
}  # fmt: skip
paths = pytest.mark.parametrize("path", APIS)


def go_on(path: str, body: dict[str, Any], before: str, earlier: dict[str, Any], answer: str = "1") -> None:
    own, theirs = chat_format(path), chat_format(before)
    assert own is not None
    assert theirs is not None
    continued(own, body, Earlier(theirs, earlier, answer))


@paths
def test_a_conversation_continues_in_the_format_of_its_api(path: str) -> None:
    first, second, both = APIS[path]
    go_on(path, second.copy(), path, first)
    body = second.copy()
    go_on(path, body, path, first)
    assert body == both


@paths
@pytest.mark.parametrize("before", APIS)
def test_a_conversation_may_continue_at_another_api(path: str, before: str) -> None:
    body = APIS[path][1].copy()
    go_on(path, body, before, APIS[before][0])
    assert body == APIS[path][2]


@paths
def test_a_row_with_a_system_prompt_keeps_it(path: str) -> None:
    own = chat_format(path)
    assert own is not None
    body = APIS[path][0].copy()
    earlier = APIS[path][1].copy()
    own.join(earlier, own.system("talk at length"), own.split(earlier)[1])
    go_on(path, body, path, earlier)
    assert own.split(body)[0] == own.split(APIS[path][0])[0]


@paths
def test_an_answer_without_a_text_is_not_an_empty_message(path: str) -> None:
    own = chat_format(path)
    assert own is not None
    body = APIS[path][1].copy()
    go_on(path, body, path, APIS[path][0], answer="")
    assert own.split(body)[1][1] == own.turn(("assistant", "(no text)"))


def test_azure_deployments_use_the_openai_format() -> None:
    assert chat_format(AZURE) is chat_format(CHAT)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/model/m/invoke", "python"])
def test_paths_that_are_not_chats_have_no_format(path: str) -> None:
    assert chat_format(path) is None


IMAGE = {
    "role": "user",
    "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}],
}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}


def test_within_an_api_turns_are_copied_unchanged() -> None:
    body = {"messages": [user("two")]}
    go_on(CHAT, body, CHAT, {"messages": [IMAGE, CALL, {"role": "tool", "content": "3"}]})
    assert body["messages"][:3] == [IMAGE, CALL, {"role": "tool", "content": "3"}]


@pytest.mark.parametrize(
    "turn", [IMAGE, CALL, {"role": "tool", "content": "3"}, {"role": "user", "content": None}]
)
def test_turns_that_are_not_texts_cannot_continue_at_another_api(turn: dict[str, Any]) -> None:
    own = chat_format(CHAT)
    assert own is not None
    assert is_plain(own, {"messages": [user("a")]})
    assert not is_plain(own, {"messages": [user("a"), turn]})
    with pytest.raises(UsageError):
        go_on(MESSAGES, {"messages": [user("two")]}, CHAT, {"messages": [user("a"), turn]})


def test_a_system_prompt_of_text_blocks_is_one_text_at_another_api() -> None:
    earlier = {
        "messages": [user("one")],
        "system": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}],
    }
    body: dict[str, Any] = {"messages": [user("two")]}
    go_on(CHAT, body, MESSAGES, earlier)
    assert body["messages"][0] == {"role": "system", "content": "be brief"}


# -- texts ---------------------------------------------------------------------------------------------------------


def shout(text: str) -> str:
    return text.upper()


@paths
def test_only_the_texts_of_turns_and_system_prompts_are_changed(path: str) -> None:
    own = chat_format(path)
    assert own is not None
    body = {**APIS[path][0], "model": "m", "tools": [{"name": "one", "text": "one"}]}
    change_texts(path, body, shout)
    assert own.split(body) == (own.system("BRIEF"), [own.turn(("user", "ONE"))])
    assert (body["model"], body["tools"]) == ("m", [{"name": "one", "text": "one"}])


def test_parts_that_are_not_texts_are_unchanged() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "b"}}]
    body = {"messages": [{"role": "user", "content": content}]}
    change_texts(CHAT, body, shout)
    assert body["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "A"}, {"type": "image_url", "image_url": {"url": "b"}}],
        }
    ]


def test_every_text_of_a_body_that_is_not_a_chat_is_changed() -> None:
    assert change_texts("python", {"a": ["b", {"c": "d"}], "n": 1}, shout) == {"a": ["B", {"c": "D"}], "n": 1}
