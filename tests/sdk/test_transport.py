"""`headway.httpx_client()` under the real SDKs and under plain httpx, at a fake that limits, fails and hangs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from tests.fake.virtual_server import until

import headway
from headway import Limits, Retry
from headway.fake.config_file import read
from headway.fake.process import fake_process
from headway.fake.server import FakeServer
from headway.sdk.async_transport import AsyncTransport

QUICK = Retry(max_attempts=4, base="1ms")
CHAT: dict[str, Any] = {"model": "m", "max_tokens": 16}


def hello(text: str = "hello") -> Any:
    return [{"role": "user", "content": text}]


class Rig:
    """A fake, our client, and both SDKs over it. What the SDKs see is counted."""

    def __init__(self, server: FakeServer, client: Any) -> None:
        self.server, self.client = server, client
        self.statuses: list[int] = []
        client.event_hooks = {"response": [self._answered]}

    async def _answered(self, response: Any) -> None:
        self.statuses.append(response.status_code)

    def openai(self, key: str = "any", **more: Any) -> openai.AsyncOpenAI:
        more.setdefault("max_retries", 0)
        return openai.AsyncOpenAI(
            api_key=key, base_url=f"{self.server.url}/v1", http_client=self.client, **more
        )

    def anthropic(self, key: str = "any", **more: Any) -> anthropic.AsyncAnthropic:
        more.setdefault("max_retries", 0)
        return anthropic.AsyncAnthropic(
            api_key=key, base_url=self.server.url, http_client=self.client, **more
        )

    async def chat(self, text: str = "hello", key: str = "any", model: str = "m") -> str:
        create = self.openai(key).chat.completions.create
        answer = await create(model=model, max_tokens=16, messages=hello(text))
        return str(answer.choices[0].message.content)

    @property
    def total(self) -> dict[str, Any]:
        total: dict[str, Any] = self.server.stats()["total"]
        return total


@asynccontextmanager
async def rig(accounts: dict[str, Any], **settings: Any) -> AsyncIterator[Rig]:
    settings.setdefault("retry", QUICK)
    async with FakeServer(read({"accounts": accounts})) as server, headway.httpx_client(**settings) as client:
        yield Rig(server, client)


def faulty(kind: str, **more: Any) -> dict[str, Any]:
    return {"default": {"faults": [{"kind": kind, **more}]}}


# -- waiting instead of failing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["httpx2", "httpx"])
async def test_both_sdks_plain_and_streamed_never_see_a_429(library: Any) -> None:
    accounts = {"a": {"rpm": 1200, "burst": "500ms"}, "b": {"rpm": 1200, "burst": "500ms"}}
    async with rig(accounts, library=library) as it:
        chat, message = (
            it.openai("a").chat.completions,
            it.anthropic("b").messages if library == "httpx2" else None,
        )
        ways = 2 if message is None else 4  # Anthropic's takes no client of httpx.

        async def one(number: int) -> str:
            said = hello(f"number {number}")
            if number % ways == 0:
                return str((await chat.create(**CHAT, messages=said)).choices[0].message.content)
            if message is None or number % ways == 1:
                stream = await chat.create(**CHAT, messages=said, stream=True)
                return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])
            if number % ways == 2:
                block: Any = (await message.create(**CHAT, messages=said)).content[0]
                return str(block.text)
            async with message.stream(**CHAT, messages=said) as events:
                return await events.get_final_text()

        answers = await asyncio.gather(*map(one, range(60)))
        assert answers == [f"echo: number {number}" for number in range(60)]
        assert it.statuses == [200] * 60
        assert it.total["ok"] == 60
        assert it.total["lost"] == 0


async def test_a_429_is_waited_out_and_its_lane_learns() -> None:
    async with rig(
        {"default": {"rpm": 600, "burst": "100ms", "headers": "none"}}, limits=Limits(rpm=0)
    ) as it:
        await asyncio.gather(*(it.chat() for _ in range(8)))
        assert it.statuses == [200] * 8
        assert (
            it.total["refused"]["rpm"] >= 1
        )  # The lane was told that there is no limit, and believed it once.


async def test_limits_by_model() -> None:
    limits = {"slow": Limits(max_concurrency=1), "fast": Limits(max_concurrency=8)}
    accounts = {"default": {"latency": "10ms"}, "hung": {"faults": [{"kind": "hang"}]}}
    async with rig(accounts, limits=limits) as it:
        await asyncio.gather(*(it.chat(model="slow") for _ in range(4)))
        assert it.total["peak_in_flight"] == 1
        calls = [asyncio.create_task(it.chat(model="fast", key="hung")) for _ in range(8)]
        await until(lambda: it.total["in_flight"] == 8)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


async def test_a_lane_named_by_the_caller() -> None:
    seen: list[str] = []

    def pool(request: httpx2.Request) -> str:
        seen.append(str(request.url))
        return "org-a"

    limits = {"org-a": Limits(max_concurrency=1)}
    async with rig({"default": {"latency": "10ms"}}, limits=limits, lane=pool) as it:
        await asyncio.gather(it.chat(model="one"), it.chat(model="two"), it.chat(key="other"))
        assert it.total["peak_in_flight"] == 1
        assert len(seen) == 3


async def test_a_held_lane_delays_no_other() -> None:
    async with rig({"held": {"rpm": 0.2, "burst": "1s"}, "free": {}}) as it:
        await it.chat(key="held")
        waiting = asyncio.create_task(it.chat(key="held"))
        await until(lambda: it.total["refused"].get("rpm") == 1)
        assert await it.chat(key="free") == "echo: hello"
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert it.total["received"] == 3


async def test_a_hold_that_is_too_long_is_returned_to_the_caller() -> None:
    async with rig({"default": {"rpm": 0.2, "burst": "1s"}}, max_hold="10s") as it:
        await it.chat()
        with pytest.raises(openai.RateLimitError):
            await it.chat()
        with pytest.raises((headway.UnitError, openai.APIConnectionError)) as caught:
            await it.chat()  # Until it is over nothing is sent.
        reason = caught.value.__cause__ if isinstance(caught.value, openai.APIError) else caught.value
        assert isinstance(reason, headway.UnitError)
        assert reason.code == "hold"
        assert it.total["received"] == 2


async def test_a_request_that_seems_too_large_is_still_sent() -> None:
    async with rig({"default": {}}, limits=Limits(tpm=10)) as it:
        assert await it.chat() == "echo: hello"


# -- trying again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["500", "502", "503", "529", "reset", "reset-body", "truncated", "html"])
async def test_a_request_that_fails_once_is_retried(fault: str) -> None:
    async with rig(faulty(fault, every=2)) as it:
        assert [await it.chat(f"n {number}") for number in range(4)] == [f"echo: n {n}" for n in range(4)]
        assert it.statuses == [200] * 4
        assert it.total["received"] > 4


async def test_there_is_one_retry_budget_despite_the_sdks_own() -> None:
    """The SDK's own retries are on: the response tells it not to retry."""
    async with rig(faulty("500"), retry=Retry(max_attempts=3, base="1ms")) as it:
        for client, error in (
            (it.openai(max_retries=2).chat.completions, openai.InternalServerError),
            (it.anthropic(max_retries=2).messages, anthropic.InternalServerError),
        ):
            it.server.service.reset()
            with pytest.raises(error):
                await client.create(**CHAT, messages=hello())
            assert it.total["received"] == 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [("401", openai.AuthenticationError), ("quota", openai.RateLimitError)],
)
async def test_an_error_that_waiting_does_not_fix_is_returned_and_does_not_stop_the_lane(
    fault: str, error: type[Exception]
) -> None:
    async with rig(faulty(fault, every=2)) as it:
        assert await it.chat() == "echo: hello"
        with pytest.raises(error):
            await it.chat()
        assert await it.chat() == "echo: hello"
        assert it.total["received"] == 3


async def test_a_dead_host_raises_its_own_exception() -> None:
    async with rig(faulty("reset"), retry=Retry(max_attempts=2, base="1ms")) as it:
        with pytest.raises(httpx2.TransportError):
            await it.client.post(
                f"{it.server.url}/v1/chat/completions", json={**CHAT, "messages": hello()}, headers=KEY
            )
        assert it.total["received"] == 2


async def test_a_body_that_cannot_be_repeated_is_sent_once() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'

    async with rig(faulty("500")) as it:
        headers = {"Authorization": "Bearer any"}
        answer = await it.client.post(
            f"{it.server.url}/v1/chat/completions", content=pieces(), headers=headers
        )
        assert answer.status_code == 500
        assert it.total["received"] == 1


async def test_requests_that_are_not_model_calls_pass() -> None:
    async with rig({"default": {}}) as it:
        assert "gpt-4o" in {model.id async for model in await it.openai().models.list()}
        answer = await it.client.get(f"{it.server.url}/stats")
        assert answer.json()["total"]["received"] == 0
        with pytest.raises(openai.NotFoundError):
            await it.openai().files.retrieve("file-1")


# -- streams ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_error_in_the_middle_of_a_stream_goes_to_the_caller(kind: str) -> None:
    async with rig(faulty("stream-error"), limits=Limits(max_concurrency=1)) as it:
        error: type[Exception] = openai.APIError if kind == "openai" else anthropic.APIError

        async def call() -> None:
            if kind == "openai":
                async for _ in await it.openai().chat.completions.create(
                    **CHAT, messages=hello(), stream=True
                ):
                    pass
            else:
                async with it.anthropic().messages.stream(**CHAT, messages=hello()) as stream:
                    await stream.until_done()

        for attempt in (1, 2):  # The permit came back.
            with pytest.raises(error):
                await call()
            assert it.total["received"] == attempt


async def test_a_stream_that_breaks_after_it_began_raises_in_the_caller() -> None:
    async with rig(faulty("reset-body"), limits=Limits(max_concurrency=1)) as it:
        for attempt in (1, 2):
            stream = await it.openai().chat.completions.create(
                **CHAT, messages=hello("long " * 40), stream=True
            )
            with pytest.raises((httpx2.TransportError, openai.APIError)):
                async for _ in stream:
                    pass
            await stream.close()
            assert it.total["received"] == attempt


async def test_a_permit_is_held_until_the_stream_is_read_or_closed() -> None:
    async with rig({"default": {}}, limits=Limits(max_concurrency=1)) as it:
        chat = it.openai().chat.completions
        stream = await chat.create(**CHAT, messages=hello(), stream=True)
        waiting = asyncio.create_task(it.chat("next"))
        await asyncio.sleep(0.02)
        assert it.total["received"] == 1
        await stream.close()
        assert await waiting == "echo: next"
        async for _ in await chat.create(**CHAT, messages=hello(), stream=True):
            pass
        assert await it.chat("again") == "echo: again"


async def test_a_forgotten_stream_returns_its_permit() -> None:
    async with rig({"default": {}}, limits=Limits(max_concurrency=1)) as it:
        request = it.client.build_request(
            "POST",
            f"{it.server.url}/v1/chat/completions",
            json={**CHAT, "messages": hello(), "stream": True},
            headers={"Authorization": "Bearer any"},
        )
        response = await it.client.send(request, stream=True)
        held, response.stream = response.stream, httpx2.ByteStream(b"")
        inner = held._stream
        del held, response
        assert inner._open
        del inner
        assert await it.chat() == "echo: hello"


# -- the end ------------------------------------------------------------------------------------------------------


async def test_a_cancelled_call_closes_its_socket() -> None:
    async with rig(faulty("hang")) as it:
        call = asyncio.create_task(it.chat())
        await until(lambda: it.total["in_flight"] == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: it.total["cancelled"] == 1)


async def test_closing_a_client_cancels_waiting_requests() -> None:
    async with FakeServer(read({"accounts": {"default": {"rpm": 0.2, "burst": "1s"}}})) as server:
        client = headway.httpx_client()
        it = Rig(server, client)
        await it.chat()
        waiting = asyncio.create_task(it.chat())
        await until(lambda: it.total["refused"].get("rpm") == 1)
        await client.aclose()
        with pytest.raises(openai.APIError):  # The 429 that it had waited to get over.
            await waiting


async def test_an_unsent_request_raises_that_the_client_was_closed() -> None:
    async with FakeServer(read({"accounts": {"default": {}}})) as server:
        client = headway.httpx_client(limits=Limits(rpm=1, burst="1s"))
        await client.get(server.url)
        waiting = asyncio.create_task(client.get(server.url))
        await asyncio.sleep(0)
        await client.aclose()
        with pytest.raises(
            headway.UnitError, match="interrupted: its client or lane was closed while it waited"
        ):
            await waiting


def test_one_client_on_several_loops_in_turn() -> None:
    with fake_process() as fake:
        client = headway.httpx_client()

        async def ask() -> str:
            api = openai.AsyncOpenAI(
                api_key="any", base_url=f"{fake.url}/v1", http_client=client, max_retries=0
            )
            answer = await api.chat.completions.create(**CHAT, messages=hello())
            await client._transport._inner.aclose()  # type: ignore[attr-defined]  # Its connections are the loop's.
            return str(answer.choices[0].message.content)

        assert [asyncio.run(ask()) for _ in range(3)] == ["echo: hello"] * 3
        asyncio.run(client.aclose())


async def test_proxies_of_the_environment_are_used_and_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeServer(read({"accounts": {"default": {}}})) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        async with headway.httpx_client() as client:
            transports = [each for each in client._mounts.values() if each is not None]
            assert transports
            assert all(isinstance(each, AsyncTransport) for each in transports)
            answer = await client.get("http://nowhere.invalid/stats")
            assert answer.status_code in (200, 404)  # The fake answered it, as a proxy would.


# -- without an event loop ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["httpx2", "httpx"])
def test_synchronous_sdks_from_many_threads(library: Any) -> None:
    flags = ("--rpm", "1200", "--burst", "500ms", "--fault", "500=0.05", "--fault", "reset=0.05")
    with (
        fake_process(*flags) as fake,
        headway.httpx_client(sync=True, library=library, retry=QUICK) as client,
    ):
        statuses: list[int] = []
        client.event_hooks = {"response": [lambda response: statuses.append(response.status_code)]}
        http: Any = client
        chat = openai.OpenAI(
            api_key="k", base_url=f"{fake.url}/v1", http_client=http, max_retries=0
        ).chat.completions
        ways = 4 if library == "httpx2" else 2  # Anthropic's takes no client of httpx.
        messages: Any = None
        if ways == 4:
            api = anthropic.Anthropic(api_key="k", base_url=fake.url, http_client=http, max_retries=0)
            messages = api.messages

        def one(number: int) -> str:
            said = hello(f"number {number}")
            if number % ways == 0:
                return str(chat.create(**CHAT, messages=said).choices[0].message.content)
            if number % ways == 1:
                stream = chat.create(**CHAT, messages=said, stream=True)
                return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            if number % ways == 2:
                block: Any = messages.create(**CHAT, messages=said).content[0]
                return str(block.text)
            with messages.stream(**CHAT, messages=said) as events:
                return str(events.get_final_text())

        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(one, range(60)))
        assert answers == [f"echo: number {number}" for number in range(60)]
        assert set(statuses) == {200}
        assert fake.stats()["total"]["lost"] == 0


def test_a_closed_synchronous_stream_returns_its_permit() -> None:
    with fake_process() as fake, headway.httpx_client(sync=True, limits=Limits(max_concurrency=1)) as client:
        api = openai.OpenAI(api_key="k", base_url=f"{fake.url}/v1", http_client=client, max_retries=0)
        for _ in range(3):
            stream = api.chat.completions.create(**CHAT, messages=hello(), stream=True)
            next(iter(stream))
            stream.close()
        assert fake.stats()["total"]["admitted"] == 3


def test_a_synchronous_failure_reaches_its_caller() -> None:
    with fake_process("--fault", "500") as fake:
        retry = Retry(max_attempts=2, base="1ms")
        with headway.httpx_client(sync=True, retry=retry) as client:
            api = openai.OpenAI(api_key="k", base_url=f"{fake.url}/v1", http_client=client)
            with pytest.raises(openai.InternalServerError):
                api.chat.completions.create(**CHAT, messages=hello())
        assert fake.stats()["total"]["received"] == 2


# -- a transport of one's own, and mistakes -----------------------------------------------------------------------


async def test_a_transport_for_the_callers_client() -> None:
    async with FakeServer(read({"accounts": {"default": {"rpm": 600, "burst": "100ms"}}})) as server:
        transport = headway.httpx_transport(limits=Limits(rpm=600, burst="100ms"))
        async with httpx2.AsyncClient(transport=transport) as client:
            body = {**CHAT, "messages": hello()}
            asked = [
                client.post(f"{server.url}/v1/chat/completions", json=body, headers=KEY) for _ in range(5)
            ]
            assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * 5


KEY = {"Authorization": "Bearer any"}


def test_invalid_arguments_are_named() -> None:
    with pytest.raises(headway.HeadwayError, match="library is 'aiohttp'"):
        headway.httpx_client(library="aiohttp")  # type: ignore[call-overload]
    with pytest.raises(headway.HeadwayError, match="use headway"):
        headway.httpx_client(limits=httpx2.Limits())  # type: ignore[call-overload]
    with pytest.raises(headway.HeadwayError, match="max_hold is 'soon'"):
        headway.httpx_transport(max_hold="soon")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lane": "x"}, "lane is 'x'"),
        ({"limits": {"m": 5}}, "limits of 'm' are 5"),
        ({"limits": 5}, "limits is 5"),
    ],
)
def test_invalid_arguments_of_a_client_are_errors_when_it_is_made(wrong: Any, said: str) -> None:
    with pytest.raises(headway.HeadwayError, match=re.escape(said)):
        headway.httpx_client(**wrong)
