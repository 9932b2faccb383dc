"""`headway.Lane`: permits on event loops and in threads, and what a lane learns from the calls."""

from __future__ import annotations

import asyncio
import doctest
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic.types
import httpx
import openai.types
import pytest

import headway
from headway import Lane, Limits, RateLimited, UnitError
from headway.core.model import Usage
from headway.sdk import clients, permits
from headway.sdk.permits import usage_of


@pytest.fixture
def lane() -> Iterator[Lane]:
    with Lane(Limits(max_concurrency=2)) as made:
        yield made


def test_threads_run_up_to_the_limit_of_the_lane(lane: Lane) -> None:
    inside = most = 0
    lock = threading.Lock()
    together = threading.Barrier(2)

    def call(_: int) -> None:
        nonlocal inside, most
        with lane.permit():
            with lock:
                inside += 1
                most = max(most, inside)
            together.wait(10)  # Two are in at once, or this breaks.
            with lock:
                inside -= 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(call, range(6)))
    assert most == 2


async def test_tasks_and_threads_share_a_lane(lane: Lane) -> None:
    async with lane.permit():
        entered = threading.Event()
        leave = threading.Event()

        def in_thread() -> None:
            with lane.permit():
                entered.set()
                leave.wait(10)

        thread = asyncio.create_task(asyncio.to_thread(in_thread))
        await asyncio.to_thread(entered.wait, 10)
        third = asyncio.create_task(_use(lane))
        await asyncio.sleep(0.02)
        assert not third.done()
        leave.set()
        await thread
        await third


async def _use(lane: Lane) -> None:
    async with lane.permit():
        pass


async def test_the_rate_is_not_exceeded() -> None:
    loop = asyncio.get_running_loop()
    with Lane(Limits(rpm=6_000, burst="10ms")) as lane:
        began = loop.time()
        await asyncio.gather(*(_use(lane) for _ in range(20)))
        assert loop.time() - began >= 0.17  # The first is free, and uvloop counts whole milliseconds.


async def test_rate_limited_closes_the_lane_for_a_while_and_is_raised() -> None:
    loop = asyncio.get_running_loop()
    with Lane(Limits(rpm=0)) as lane:
        began = loop.time()
        with pytest.raises(RateLimited):
            async with lane.permit():
                raise RateLimited(retry_after=0.2)
        await _use(lane)
        assert loop.time() - began >= 0.15


async def test_a_lane_learns_from_response_headers() -> None:
    loop = asyncio.get_running_loop()
    told = {
        "x-ratelimit-limit-requests": "600",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "60s",
    }
    with Lane(Limits(rpm=0), provider="openai") as lane:
        began = loop.time()
        async with lane.permit() as permit:
            permit.settle(headers=told)
        await _use(lane)
        assert loop.time() - began >= 0.05


async def test_a_refused_key_stops_the_lane_until_it_is_reopened(lane: Lane) -> None:
    response = httpx.Response(401, request=httpx.Request("POST", "https://api.openai.com/v1/responses"))
    with pytest.raises(httpx.HTTPStatusError):
        async with lane.permit():
            response.raise_for_status()
    with pytest.raises(UnitError) as caught:
        await _use(lane)
    assert caught.value.code == "auth"
    lane.reopen()
    await _use(lane)


async def test_the_callers_own_exceptions_do_not_affect_the_lane(lane: Lane) -> None:
    for _ in range(30):
        with pytest.raises(KeyError):
            async with lane.permit():
                raise KeyError("own")
    await _use(lane)


async def test_a_call_that_can_never_fit_is_an_error_with_the_numbers() -> None:
    with Lane(Limits(tpm=100)) as lane:
        with pytest.raises(UnitError, match="it needs 200 tokens") as caught:
            async with lane.permit(tokens=200):
                pass
        assert caught.value.code == "too_large"


async def test_settled_tokens_are_given_back() -> None:
    """Ten tokens a second, ten seconds deep: two permits of ninety fit only if the first returns most of its tokens."""
    loop = asyncio.get_running_loop()
    with Lane(Limits(tpm=600, burst="10s"), provider="mistral") as lane:
        began = loop.time()
        async with lane.permit(tokens=90) as permit:
            permit.settle(input_tokens=1)
        async with lane.permit(tokens=90):
            pass
        assert loop.time() - began < 4


async def test_a_cancelled_waiter_uses_nothing(lane: Lane) -> None:
    async with lane.permit(), lane.permit():
        waiting = asyncio.create_task(_use(lane))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with lane.permit(), lane.permit():
        pass


async def test_closing_cancels_waiting_calls() -> None:
    lane = Lane(Limits(max_concurrency=1))
    async with lane.permit():
        waiting = asyncio.create_task(_use(lane))
        await asyncio.sleep(0.01)
        await asyncio.to_thread(lane.close)
        with pytest.raises(UnitError):
            await waiting


async def test_a_closed_lane_gives_no_permits() -> None:
    with Lane(Limits(max_concurrency=1), name="mine") as lane:
        early = lane.permit()
        await _use(lane)
    for permit in (early, lane.permit()):
        with pytest.raises(headway.HeadwayError, match="the lane 'mine' was closed"):
            async with permit:
                raise AssertionError("a permit of a closed lane")
    with pytest.raises(headway.HeadwayError, match="the lane 'mine' was closed"):
        await asyncio.to_thread(lambda: lane.permit().__enter__())
    lane.close()  # Twice does no harm.
    never_used = Lane()
    never_used.close()
    with pytest.raises(headway.HeadwayError, match="was closed"):
        await _use(never_used)


async def test_invalid_arguments_are_named(lane: Lane) -> None:
    with pytest.raises(headway.HeadwayError, match="would block the event loop"), lane.permit():
        pass
    permit = lane.permit()
    async with permit:
        with pytest.raises(headway.HeadwayError, match="usage is a int"):
            permit.settle(17)
    with pytest.raises(headway.HeadwayError, match="used before"):
        async with permit:
            pass
    with pytest.raises(headway.HeadwayError, match="use headway"):
        Lane({"rpm": 1})  # type: ignore[arg-type]


async def test_a_lane_is_an_async_context_manager_and_checks_its_numbers() -> None:
    async with Lane(name="mine") as lane:
        await _use(lane)
        for wrong in (-1, "5"):
            with pytest.raises(headway.HeadwayError, match="tokens is"):
                lane.permit(tokens=wrong)  # type: ignore[arg-type]
    with pytest.raises(headway.HeadwayError, match="the lane 'mine' was closed"):
        await _use(lane)
    with pytest.raises(headway.HeadwayError, match="retry is 3"):
        headway.httpx_client(retry=3)  # type: ignore[call-overload]


async def test_headway_usage_settles_a_permit(lane: Lane) -> None:
    async with lane.permit() as permit:
        headway.usage(input_tokens=5)
        headway.usage(output_tokens=2)
        assert permit.usage == Usage(5, 2)


def test_usage_of_sdk_responses() -> None:
    details: Any = {"cached_tokens": 4}
    chat = openai.types.CompletionUsage(
        prompt_tokens=10, completion_tokens=3, total_tokens=13, prompt_tokens_details=details
    )
    message = anthropic.types.Usage(input_tokens=10, output_tokens=3, cache_read_input_tokens=4)
    assert usage_of(chat) == Usage(10, 3, 4)
    assert usage_of(message) == Usage(14, 3, 4)
    assert usage_of({"usage": {"input_tokens": 1, "output_tokens": 2}}) == Usage(1, 2)
    assert usage_of({"prompt_tokens": 1}) == Usage(1, partial=True)


@pytest.mark.parametrize("module", [permits, clients])
def test_the_examples_run(module: Any) -> None:
    assert doctest.testmod(module).failed == 0
