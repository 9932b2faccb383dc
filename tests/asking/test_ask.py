"""`headway.ask` and `headway.aask`: answers of a configured provider, without an SDK."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import pydantic
import pytest
from tests.asking.conftest import configure

import headway
from headway.errors import UsageError
from headway.testing import FakeProvider


class Review(pydantic.BaseModel):
    mood: str
    score: int


@dataclass
class Plain:
    mood: str
    score: int


def total(provider: FakeProvider, what: str) -> int:
    return int(provider.stats()["total"][what])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another thread's counts
            await asyncio.sleep(0.01)


def test_the_text_of_the_answer(provider: FakeProvider) -> None:
    assert assert_type(headway.ask("Why is the sky blue?"), str).startswith("echo: Why is the sky blue?")


@pytest.mark.parametrize("schema", [Review, Plain])
def test_an_instance_of_the_schema(provider: FakeProvider, schema: Any) -> None:
    assert headway.ask("#fits", schema=schema) == schema(mood="good", score=3)


def test_a_json_schema_gives_a_dict(provider: FakeProvider) -> None:
    schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
    assert headway.ask("#fits", schema=schema) == {"mood": "good", "score": 3}


def test_the_type_of_an_answer_is_its_schema(provider: FakeProvider) -> None:
    assert assert_type(headway.ask("#fits", schema=Review), Review).score == 3


def test_what_does_not_fit_is_asked_again_with_what_is_wrong(provider: FakeProvider) -> None:
    assert headway.ask("#repaired", schema=Review) == Review(mood="better", score=1)
    assert total(provider, "received") == 2
    with pytest.raises(headway.UnitError, match="does not fit the schema") as failed:
        headway.ask("#never", schema=Review)
    assert failed.value.code == "invalid"
    assert total(provider, "received") == 4


def test_failures_are_tried_again(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-flaky-7d1f0c55a9")
    assert all(headway.ask(f"q{n}").startswith("echo:") for n in range(4))


def test_a_refused_key_says_why_and_a_new_one_works(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-7d1f0c55a9")
    with pytest.raises(headway.UnitError) as refused:
        headway.ask("Why?")
    assert refused.value.code == "auth"
    monkeypatch.setenv("ALPHA_KEY", "sk-asking-7d1f0c55a9")
    assert headway.ask("Why?").startswith("echo: Why?")


async def test_many_questions_at_once_share_a_lane(provider: FakeProvider) -> None:
    answers = await asyncio.gather(*(headway.aask(f"q{n}") for n in range(100)))
    assert [answer.split()[1] for answer in answers] == [f"q{n}" for n in range(100)]
    assert provider.stats()["total"]["peak_in_flight"] <= 32


def test_calls_share_connections(provider: FakeProvider) -> None:
    threads = [threading.Thread(target=headway.ask, args=("Hi",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    from headway.api.asking import provider_calls

    shared = provider_calls._running()
    assert len(shared._all) == 1
    assert total(provider, "received") == 8


async def test_ask_works_inside_a_running_loop(provider: FakeProvider) -> None:
    assert headway.ask("Hi").startswith("echo: Hi")


def test_a_changed_config_is_read_again(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.asking.provider_calls.FRESH_S", 0.0)
    assert headway.ask("Hi").startswith("echo: Hi")
    configure(provider, more="[run]\nmax_attempts = 1\n")
    assert headway.ask("Hi").startswith("echo: Hi")
    from headway.api.asking import provider_calls

    assert len(provider_calls._running()._all) == 2


async def test_a_cancelled_question_ends_at_the_provider(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-7d1f0c55a9")
    task = asyncio.create_task(headway.aask("Hi"))
    await until(lambda: total(provider, "received") == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: total(provider, "in_flight") == 0)


def test_ctrl_c_ends_the_wait(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-7d1f0c55a9")

    def interrupt() -> None:
        while not total(provider, "received"):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        headway.ask("Hi")
    thread.join()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt": ""}, "prompt is ''"),
        ({"prompt": 7}, "prompt is 7"),
        ({"prompt": "Hi", "schema": "Review"}, "schema is 'Review'"),
        ({"prompt": "Hi", "max_tokens": 0}, "max_tokens is 0"),
        ({"prompt": "Hi", "model": 7}, "model is 7"),
        ({"prompt": "Hi", "timeout": "soon"}, "timeout is 'soon'"),
        ({"prompt": "Hi", "config": "none.toml"}, "none.toml"),
    ],
)
def test_wrong_arguments_are_named(provider: FakeProvider, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(headway.HeadwayError, match=message):
        headway.ask(**arguments)
    assert total(provider, "received") == 0


def test_an_unknown_argument_is_named(provider: FakeProvider) -> None:
    with pytest.raises(TypeError, match="there is no argument 'mdel'"):
        headway.ask("Hi", mdel="x")  # type: ignore[call-overload]


def test_without_a_provider_it_says_what_to_do(
    provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("headway.toml").unlink()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(headway.HeadwayError, match="headway init"):
        headway.ask("Hi")


@pytest.mark.usefixtures("provider")
def test_a_provider_that_is_probably_misspelt_is_warned_about_once() -> None:
    with pytest.warns(UserWarning, match="no provider 'alhpa'.*did you mean alpha/gpt-x") as warned:
        headway.ask("hi", model="alhpa/gpt-x")
    assert [one.filename for one in warned] == [__file__]
    headway.ask("hi", model="alhpa/gpt-x")  # Every warning is an error in these tests.
    with pytest.warns(UserWarning, match="no provider 'alfa'"):
        asyncio.run(headway.aask("hi", model="alfa/gpt-x"))


def test_without_a_model_the_error_names_the_argument(provider: FakeProvider) -> None:
    configure(provider)
    toml = Path("headway.toml")
    toml.write_text(toml.read_text().replace('model = "gpt-x"', ""))
    with pytest.raises(UsageError, match=r"no model is named.* — give model=…, or set model in"):
        headway.ask("hi")
