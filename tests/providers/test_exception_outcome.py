"""Exceptions of clients and SDKs are understood by their shape: the real packages raise them, at a real fake."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import botocore.config
import botocore.exceptions
import botocore.session
import httpx
import httpx2
import openai
import pytest
import requests
from google import genai
from google.genai import types
from tests.api.scripted import scripted

import headway
from headway.core.model import Dimension, Kind, Usage
from headway.fake.process import FakeProcess, fake_process
from headway.providers.limits.exception_outcome import outcome_of

HELLO = [{"role": "user", "content": "hello"}]
CHAT: dict[str, Any] = {"model": "m", "messages": HELLO, "max_tokens": 16}
#: An account for every way to fail; its name is its key.
FAULTS = ("500", "529", "401", "quota", "reset", "hang", "reset-body")
#: For an answer that never comes; one that comes is waited for on the busiest machine.
TIMEOUT_S = 0.3
LONG_S = 30.0


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    accounts: dict[str, Any] = {fault: {"faults": [{"kind": fault}]} for fault in FAULTS}
    accounts["429"] = {"rpm": 1, "burst": "1s"}
    path = tmp_path_factory.mktemp("fake") / "fake.json"
    path.write_text(json.dumps({"strict": True, "accounts": accounts}), encoding="utf-8")
    with fake_process("--config", str(path)) as process:
        yield process


# -- one call, by each of them ------------------------------------------------------------------------------------


def patience_s(key: str) -> float:
    """How long an account's answer is waited for."""
    return TIMEOUT_S if key == "hang" else LONG_S


def with_openai(url: str, key: str) -> None:
    with openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0, timeout=patience_s(key)) as client:
        client.chat.completions.create(**CHAT)


def with_anthropic(url: str, key: str) -> None:
    with anthropic.Anthropic(api_key=key, base_url=url, max_retries=0, timeout=patience_s(key)) as client:
        client.messages.create(**CHAT)


def with_httpx(library: Any) -> Callable[[str, str], None]:
    def call(url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        answer = library.post(
            f"{url}/v1/chat/completions", json=CHAT, headers=headers, timeout=patience_s(key)
        )
        answer.raise_for_status()

    return call


def with_requests(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    answer = requests.post(f"{url}/v1/chat/completions", json=CHAT, headers=headers, timeout=patience_s(key))
    answer.raise_for_status()


def with_aiohttp(url: str, key: str) -> None:
    async def call() -> None:
        timeout = aiohttp.ClientTimeout(sock_read=patience_s(key))
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            aiohttp.ClientSession(timeout=timeout, raise_for_status=True, headers=headers) as session,
            session.post(f"{url}/v1/chat/completions", json=CHAT) as answer,
        ):
            await answer.read()

    asyncio.run(call())


CLIENTS: dict[str, Callable[[str, str], None]] = {
    "openai": with_openai,
    "anthropic": with_anthropic,
    "httpx": with_httpx(httpx),
    "httpx2": with_httpx(httpx2),
    "requests": with_requests,
    "aiohttp": with_aiohttp,
}
KINDS = {
    "429": Kind.RATE,
    "500": Kind.TRANSIENT,
    "529": Kind.OVERLOAD,
    "401": Kind.AUTH,
    "quota": Kind.QUOTA,
    "reset": Kind.TRANSIENT,
    "reset-body": Kind.TRANSIENT,
    "hang": Kind.TIMEOUT,
}
#: aiohttp's exceptions have no body: an empty account looks like a rate limit.
WITHOUT_BODY = {("aiohttp", "quota"): Kind.RATE}


def raised(call: Callable[[], Any]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is the package's business
        call()
    return caught.value


def use_up(fake: FakeProcess) -> None:
    """The one request that the account 429 allows every minute, unless an earlier test has used it."""
    with suppress(httpx.HTTPStatusError):
        with_httpx(httpx)(fake.url, "429")


@pytest.mark.parametrize("fault", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_exceptions_of_clients_are_understood(fake: FakeProcess, client: str, fault: str) -> None:
    use_up(fake)
    error = raised(lambda: CLIENTS[client](fake.url, fault))
    outcome = outcome_of(error, Usage(1))
    assert outcome.kind is WITHOUT_BODY.get((client, fault), KINDS[fault]), repr(error)
    assert outcome.usage == Usage(1)
    if fault == "429":
        assert outcome.hint is not None
        assert outcome.hint.retry_after_s is not None
        assert 0 < outcome.hint.retry_after_s <= 60
        assert {report.dimension for report in outcome.hint.reports} == {Dimension.REQUESTS}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_closed_port(client: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        error = raised(lambda: CLIENTS[client](url, "key"))
    assert outcome_of(error).kind is Kind.TRANSIENT, repr(error)


async def test_an_error_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    with fake_process("--fault", "stream-error") as fake:
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{fake.url}/v1", max_retries=0) as client:
            with pytest.raises(openai.APIError) as caught:
                [chunk async for chunk in await client.chat.completions.create(**CHAT, stream=True)]
        assert outcome_of(caught.value).kind in (Kind.TRANSIENT, Kind.OVERLOAD)
        async with anthropic.AsyncAnthropic(api_key="k", base_url=fake.url, max_retries=0) as client2:
            with pytest.raises(anthropic.APIError) as caught2:
                async with client2.messages.stream(**CHAT) as stream:
                    await stream.get_final_text()
        assert outcome_of(caught2.value).kind in (Kind.TRANSIENT, Kind.OVERLOAD)


# -- google-genai and botocore ------------------------------------------------------------------------------------


def with_google(url: str) -> None:
    client = genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url, timeout=5_000))
    client.models.generate_content(model="gemini-x", contents="hello")


def with_botocore(url: str, **config: Any) -> None:
    client = botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="secret",
        config=botocore.config.Config(retries={"total_max_attempts": 1}, **config),
    )
    client.converse(modelId="model", messages=[{"role": "user", "content": [{"text": "hello"}]}])


def google_error(code: int, status: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no", "status": status, "details": list(details)}}


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
PER_DAY = {
    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "50"}],
}


@pytest.mark.parametrize(
    ("status", "body", "kind", "wait_s"),
    [
        (429, google_error(429, "RESOURCE_EXHAUSTED", RETRY_INFO), Kind.RATE, 17),
        (429, google_error(429, "RESOURCE_EXHAUSTED", PER_DAY), Kind.HOLD, None),
        (503, google_error(503, "UNAVAILABLE"), Kind.OVERLOAD, None),
        (400, google_error(400, "INVALID_ARGUMENT"), Kind.INVALID, None),
        (500, google_error(500, "INTERNAL"), Kind.TRANSIENT, None),
    ],
)
def test_google_genai(status: int, body: Any, kind: Kind, wait_s: float | None) -> None:
    with scripted(status, body) as url:
        outcome = outcome_of(raised(lambda: with_google(url)))
    assert outcome.kind is kind
    assert outcome.hint is not None
    if wait_s is not None:
        assert outcome.hint.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (429, "ThrottlingException", Kind.RATE),
        (503, "ServiceUnavailableException", Kind.OVERLOAD),
        (403, "AccessDeniedException", Kind.AUTH),
        (400, "ValidationException", Kind.INVALID),
        (400, "ServiceQuotaExceededException", Kind.QUOTA),
        (500, "InternalServerException", Kind.TRANSIENT),
    ],
)
def test_botocore(status: int, code: str, kind: Kind) -> None:
    with scripted(status, {"message": "no"}, {"x-amzn-ErrorType": code}) as url:
        error = raised(lambda: with_botocore(url))
    assert isinstance(error, botocore.exceptions.ClientError)
    assert outcome_of(error).kind is kind


def test_botocore_without_an_answer(fake: FakeProcess) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        closed = raised(lambda: with_botocore(f"http://127.0.0.1:{held.getsockname()[1]}"))
        assert outcome_of(closed).kind is Kind.TRANSIENT, repr(closed)
        held.listen()  # It takes the connection and says nothing.
        late = raised(
            lambda: with_botocore(f"http://127.0.0.1:{held.getsockname()[1]}", read_timeout=TIMEOUT_S)
        )
    assert outcome_of(late).kind is Kind.TIMEOUT, repr(late)


# -- where it is found --------------------------------------------------------------------------------------------


def limited_error(fake: FakeProcess) -> Exception:
    use_up(fake)
    return raised(lambda: with_openai(fake.url, "429"))


def test_exceptions_are_found_in_causes_groups_and_contexts(fake: FakeProcess) -> None:
    inner = limited_error(fake)

    def from_it() -> None:
        raise RuntimeError("the model failed") from inner

    def beside_it() -> None:
        try:
            raise inner
        except Exception:
            raise ValueError("giving up")  # noqa: B904 - that is what is tested

    def grouped() -> None:
        raise ExceptionGroup("both", [ValueError("x"), RuntimeError("y"), inner])

    for way in (from_it, beside_it, grouped):
        assert outcome_of(raised(way)).kind is Kind.RATE


def test_a_fault_while_an_auth_error_was_handled_stops_no_lane(fake: FakeProcess) -> None:
    inner = raised(lambda: with_openai(fake.url, "401"))

    def refresh() -> None:
        try:
            raise inner
        except Exception:
            dict[str, str]()["token"]

    assert outcome_of(raised(refresh)).kind is Kind.INVALID
    with pytest.raises(RuntimeError) as caught:
        raise RuntimeError("no") from inner
    assert outcome_of(caught.value).kind is Kind.AUTH


def test_a_context_that_was_suppressed_says_nothing(fake: FakeProcess) -> None:
    inner = limited_error(fake)

    def hide() -> None:
        try:
            raise inner
        except Exception:
            raise KeyError("own") from None

    assert outcome_of(raised(hide)).kind is Kind.INVALID


def test_rate_limited_inside_a_group_keeps_its_wait() -> None:
    outcome = outcome_of(ExceptionGroup("one", [headway.RateLimited(retry_after=3)]))
    assert outcome.kind is Kind.RATE
    assert outcome.hint is not None
    assert outcome.hint.retry_after_s == 3


def test_a_chain_that_bites_its_tail_ends() -> None:
    one, two = RuntimeError("one"), RuntimeError("two")
    one.__cause__, two.__cause__ = two, one
    assert outcome_of(one).kind is Kind.INVALID


# -- of no provider ---------------------------------------------------------------------------------------------


class Odd(Exception):
    """Every attribute raises, and so does its text."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("text")


class Mail(Exception):
    body = "Dear Sir, we exceeded nothing."
    code = 429


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), ValueError("429 rows have too many requests"), Odd(), Mail("bounced")],
    ids=lambda error: type(error).__name__,
)
def test_an_unknown_exception_belongs_to_the_callable(error: Exception) -> None:
    outcome = outcome_of(error)
    assert outcome.kind is Kind.INVALID
    assert type(error).__name__ in outcome.message


def test_retry_on_wins_where_nothing_would_be_tried_again() -> None:
    response = httpx.Response(400, request=httpx.Request("POST", "http://127.0.0.1/x"))
    error = raised(response.raise_for_status)
    assert outcome_of(error).kind is Kind.INVALID
    assert outcome_of(error, retry_on=(httpx.HTTPStatusError,)).kind is Kind.TRANSIENT


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_page_that_is_not_there_stops_no_lane(status: int) -> None:
    def get(url: str) -> Exception:
        response = httpx.Response(status, request=httpx.Request("GET", url))
        return raised(response.raise_for_status)

    assert outcome_of(get("https://example.org/a")).kind is Kind.INVALID
    assert outcome_of(get("https://api.openai.com/v1/chat/completions")).kind is Kind.AUTH


def test_the_hosts_own_words_count() -> None:
    """DeepSeek's 429 is about requests in flight: known by its address, whatever client is used."""
    response = httpx.Response(429, request=httpx.Request("POST", "https://api.deepseek.com/chat/completions"))
    assert outcome_of(raised(response.raise_for_status)).kind is Kind.CONCURRENCY


def test_a_response_that_was_not_read_is_no_obstacle() -> None:
    request = httpx.Request("POST", "https://api.openai.com/v1/responses")
    response = httpx.Response(503, request=request, stream=httpx.ByteStream(b"{}"))
    assert outcome_of(raised(response.raise_for_status)).kind is Kind.OVERLOAD


def test_keys_in_a_text_are_blotted_out() -> None:
    assert "abcdefghij" not in outcome_of(ValueError("bad key sk-abcdefghijklmnop")).message


def test_map_tries_again_what_an_sdk_could_not_do(fake: FakeProcess) -> None:
    tries: list[str] = []

    def flaky(number: int) -> int:
        tries.append("")
        if len(tries) == 1:
            with_anthropic(fake.url, "529")
        return number

    retry = headway.Retry(max_attempts=2, base="1ms")
    assert headway.map(flaky, [7], retry=retry) == [7]
    assert len(tries) == 2


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys, headway.providers.limits.exception_outcome as f; f.outcome_of(ValueError('x'));"
        "print(*({'openai','anthropic','httpx','httpx2','aiohttp','requests','google','botocore'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
