"""One lane for each API, host, key and model of a process, whichever clients and `Lane` objects use it."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fake.virtual_server import until

import headway
from headway import Limits, Retry
from headway.fake.config_file import read
from headway.fake.process import fake_process
from headway.fake.server import FakeServer

BODY: dict[str, Any] = {"model": "m", "max_tokens": 16, "messages": [{"role": "user", "content": "hello"}]}
ONE_AT_ONCE = Limits(max_concurrency=1)
#: Two at once are refused, so that a second lane would show itself.
ONE_SLOT = {"default": {"max_concurrency": 1, "latency": "5ms"}}


def key(name: str = "any") -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


async def post(client: Any, url: str, name: str = "any") -> int:
    answer = await client.post(f"{url}/v1/chat/completions", json=BODY, headers=key(name))
    return int(answer.status_code)


def total(server: FakeServer) -> dict[str, Any]:
    found: dict[str, Any] = server.stats()["total"]
    return found


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headway-loop"]


@pytest.fixture(autouse=True)
def _no_lane_is_left() -> Iterator[None]:
    """Every lane, and the thread that serves them, ends with its last user."""
    gc.collect()
    for thread in loop_threads():
        thread.join(10)
    yield
    gc.collect()
    for thread in loop_threads():
        thread.join(10)
    assert loop_threads() == []


async def test_two_clients_with_the_same_key_share_one_limit() -> None:
    limits = Limits(rpm=600, burst="100ms")
    # A busy machine may delay a request. Apart, the two would send 16 in 0.8 s, and 12 are allowed.
    account = {"default": {"rpm": 600, "burst": "400ms"}}
    async with (
        FakeServer(read({"accounts": account})) as server,
        headway.httpx_client(limits=limits) as one,
        headway.httpx_client(limits=limits) as other,
    ):
        statuses = await asyncio.gather(*(post(each, server.url) for each in (one, other) for _ in range(8)))
        assert statuses == [200] * 16
        assert total(server)["refused"] == {}


async def test_an_asynchronous_and_a_synchronous_client_share_a_lane() -> None:
    async with FakeServer(read({"accounts": ONE_SLOT})) as server:
        with (
            headway.httpx_client(sync=True, limits=ONE_AT_ONCE) as blocking,
            ThreadPoolExecutor(4) as threads,
        ):
            loop = asyncio.get_running_loop()

            def send() -> int:
                answer = blocking.post(f"{server.url}/v1/chat/completions", json=BODY, headers=key())
                return int(answer.status_code)

            async with headway.httpx_client(limits=ONE_AT_ONCE) as client:
                calls = [loop.run_in_executor(threads, send) for _ in range(6)]
                statuses = await asyncio.gather(*calls, *(post(client, server.url) for _ in range(6)))
        assert statuses == [200] * 12
        assert total(server)["peak_in_flight"] == 1


async def test_other_keys_have_other_lanes() -> None:
    accounts = {"a": {"faults": [{"kind": "hang"}]}, "b": {}}
    async with (
        FakeServer(read({"accounts": accounts})) as server,
        headway.httpx_client(limits=ONE_AT_ONCE) as one,
        headway.httpx_client(limits=ONE_AT_ONCE) as other,
    ):
        hung = asyncio.create_task(post(one, server.url, "a"))
        await until(lambda: total(server)["in_flight"] == 1)
        assert await post(other, server.url, "b") == 200
        hung.cancel()
        await asyncio.wait([hung])


async def test_a_client_without_limits_uses_those_of_the_lane() -> None:
    async with (
        FakeServer(read({"accounts": ONE_SLOT})) as server,
        headway.httpx_client(limits=ONE_AT_ONCE) as one,
        headway.httpx_client() as other,
    ):
        assert await post(one, server.url) == 200
        await asyncio.gather(*(post(each, server.url) for each in (one, other) for _ in range(4)))
        assert total(server)["peak_in_flight"] == 1


async def test_later_limits_apply_to_a_lane_without_limits() -> None:
    async with (
        FakeServer(read({"accounts": ONE_SLOT})) as server,
        headway.httpx_client() as one,
        headway.httpx_client(limits=ONE_AT_ONCE) as other,
    ):
        assert await post(one, server.url) == 200
        assert await post(other, server.url) == 200
        await asyncio.gather(*(post(each, server.url) for each in (one, other) for _ in range(4)))
        assert total(server)["peak_in_flight"] == 1


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"limits": Limits(rpm=60)},
            {"limits": Limits(rpm=90)},
            r"limits=Limits\(rpm=90\).*Limits\(rpm=60\)",
        ),
        ({}, {"retry": Retry(max_attempts=2)}, "retry="),
        ({"max_hold": 5}, {"max_hold": 6}, "max_hold=6"),
    ],
)
async def test_settings_that_differ_are_an_error(first: Any, second: Any, message: str) -> None:
    async with (
        FakeServer(read({"accounts": {"default": {}}})) as server,
        headway.httpx_client(**first) as one,
        headway.httpx_client(**second) as other,
    ):
        assert await post(one, server.url) == 200
        with pytest.raises(headway.HeadwayError, match=message):
            await post(other, server.url)
        await one.aclose()
        assert await post(other, server.url) == 200  # The lane ended with its last client.


async def test_closing_a_client_does_not_affect_requests_of_others() -> None:
    accounts = {"default": {"faults": [{"kind": "hang"}]}}
    async with FakeServer(read({"accounts": accounts})) as server:
        one, other = (headway.httpx_client(limits=ONE_AT_ONCE) for _ in range(2))
        hung = asyncio.create_task(post(one, server.url))
        await until(lambda: total(server)["in_flight"] == 1)
        waiting = asyncio.create_task(post(other, server.url))
        closed = asyncio.create_task(post(one, server.url))
        await asyncio.sleep(0)
        hung.cancel()
        await asyncio.wait([hung])
        await one.aclose()
        with pytest.raises(headway.UnitError):
            await closed
        await until(lambda: total(server)["in_flight"] == 1)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        await other.aclose()


def test_a_lane_outlives_event_loops() -> None:
    """The second loop continues where the first stopped: a new lane would begin with a full bucket."""
    limits = Limits(rpm=1200, burst="500ms")
    with fake_process() as fake, headway.httpx_client(sync=True, limits=limits) as holder:

        async def ask(count: int) -> None:
            async with headway.httpx_client(limits=limits) as client:
                await asyncio.gather(*(post(client, fake.url) for _ in range(count)))

        began = time.monotonic()
        holder.post(f"{fake.url}/v1/chat/completions", json=BODY, headers=key())
        asyncio.run(ask(10))
        asyncio.run(ask(10))
        assert time.monotonic() - began >= 0.4


async def test_lanes_of_one_name_are_one_lane() -> None:
    with headway.Lane(ONE_AT_ONCE, name="mine") as one, headway.Lane(name="mine") as other:
        async with one.permit():
            waiting = asyncio.create_task(_use(other))
            await asyncio.sleep(0.02)
            assert not waiting.done()
        await waiting
        with (
            headway.Lane(Limits(max_concurrency=2), name="mine") as third,
            pytest.raises(headway.HeadwayError, match=r"max_concurrency=2.*max_concurrency=1"),
        ):
            await _use(third)


async def test_lanes_without_a_name_are_separate() -> None:
    with headway.Lane(ONE_AT_ONCE) as one, headway.Lane(Limits(max_concurrency=2)) as other:
        async with one.permit(), other.permit():
            assert (one.name, other.name) == ("lane", "lane")


async def test_a_named_lane_is_shared_with_a_client_that_uses_the_name() -> None:
    async with FakeServer(read({"accounts": {"default": {}}})) as server:
        with headway.Lane(ONE_AT_ONCE, name="mine") as lane:
            async with headway.httpx_client(lane=lambda _: "mine") as client:
                async with lane.permit():
                    waiting = asyncio.create_task(post(client, server.url))
                    await asyncio.sleep(0.02)
                    assert total(server)["admitted"] == 0
                assert await waiting == 200


async def _use(lane: headway.Lane) -> None:
    async with lane.permit():
        pass


def _in_child(url: str, answers: Any) -> None:
    with headway.httpx_client(sync=True) as client:
        answers.put(client.post(f"{url}/v1/chat/completions", json=BODY, headers=key()).status_code)


def test_a_forked_process_has_its_own_lanes() -> None:
    """The thread that serves the lanes of the parent does not exist in the child."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    with fake_process() as fake, headway.httpx_client(sync=True) as client:
        assert client.post(f"{fake.url}/v1/chat/completions", json=BODY, headers=key()).status_code == 200
        child = fork.Process(target=_in_child, args=(fake.url, answers))
        child.start()
        child.join(20)
        if child.is_alive():
            child.kill()
            child.join()
        assert child.exitcode == 0
        assert answers.get() == 200
