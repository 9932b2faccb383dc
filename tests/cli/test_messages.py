"""The table `messages` has the whole conversation of every API: system prompt, turns, tool calls, the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.fake.process import FakeProcess

SYSTEM = {"role": "system", "content": "Be brief."}
#: A kind, and where its stored messages have their text.
KINDS = {
    "openai": "{}",
    "anthropic": "{}",
    "gemini": '[{{"text":{}}}]',
    "bedrock": '[{{"text":{}}}]',
}


def stored(stage: Stage) -> list[tuple[str, Any]]:
    rows = stage.query("SELECT role, content FROM messages ORDER BY attempt, position")
    return [(role, json.loads(content)) for role, content in rows]


def configure(stage: Stage, kind: str, url: str, monkeypatch: pytest.MonkeyPatch, more: str = "") -> None:
    root = f"{url}/v1" if kind == "openai" else url
    (stage.root / "headway.toml").write_text(
        f'[providers.p]\nkind = "{kind}"\nbase_url = "{root}"\nmodel = "model-x"\napi_key_env = "SOME_KEY"\n{more}'
    )
    monkeypatch.setenv("SOME_KEY", "key-5b0f7d2e91c34aa8")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_of_every_kind_is_whole(
    stage: Stage,
    headway: Headway,
    provider: FakeProcess,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    stream: bool,
) -> None:
    more = 'region = "eu-central-1"\n' if kind == "bedrock" else ""
    configure(stage, kind, provider.url, monkeypatch, f"stream = {str(stream).lower()}\n{more}")
    turns = [SYSTEM, {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    stage.write_input(
        [{"id": "u", "messages": [*turns, {"role": "user", "content": "three"}], "max_tokens": 99}]
    )
    assert headway("run", "in.jsonl", "-q").code == 0
    *asked, (role, said) = stored(stage)
    texts = ("Be brief.", "one", "two", "three")
    expected = [json.loads(KINDS[kind].format(json.dumps(text))) for text in texts]
    assert asked == list(zip(("system", "user", "assistant", "user"), expected, strict=True))
    assert role == "assistant"
    assert "echo: three" in json.dumps(said)


@pytest.mark.parametrize("given", ["three", [{"role": "user", "content": "three"}]])
def test_a_conversation_of_responses_is_whole(
    stage: Stage, headway: Headway, provider: FakeProcess, monkeypatch: pytest.MonkeyPatch, given: Any
) -> None:
    configure(stage, "openai", provider.url, monkeypatch)
    body = {"model": "model-x", "instructions": "Be brief.", "input": given}
    row = {"custom_id": "u", "method": "POST", "url": "/v1/responses", "body": body}
    stage.write_input([row])
    assert headway("run", "in.jsonl", "-q").code == 0
    *asked, (role, said) = stored(stage)
    assert asked == [("system", "Be brief."), ("user", "three")]
    assert role == "assistant"
    assert "echo: three" in json.dumps(said)
