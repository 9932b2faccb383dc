"""`headway.testing`: time that jumps, callables with a script, a provider inside the process."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import urllib.error
from collections.abc import Iterator
from contextlib import suppress
from urllib.request import Request, urlopen

import pytest

import headway
from headway import Limits, RateLimited, Retry
from headway.testing import Call, VirtualLoop, after, fake_provider, scripted, virtual_time

#: No test here may take as long as a hundredth of what it pretends to.
SOON_S = 20.0


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON_S


# -- time ---------------------------------------------------------------------------------------------------------


def test_hours_pass_at_once_and_the_clock_says_so() -> None:
    async def call(number: int) -> int:
        await asyncio.sleep(3600)
        return number

    with virtual_time() as clock:
        done = headway.map(call, range(6), limits=Limits(max_concurrency=2), timeout="2h")
    assert done == list(range(6))
    assert clock.now == pytest.approx(3 * 3600, abs=1)


def test_limits_pace_calls_exactly() -> None:
    call = scripted(str.upper)
    with virtual_time():
        headway.map(call, ["a"] * 5, limits=Limits(rpm=1, burst="1s"))
    assert [round(one.at, 1) for one in call.calls] == [0.0, 60.0, 120.0, 180.0, 240.0]


def test_two_runs_are_the_same_run() -> None:
    def story() -> list[Call]:
        call = scripted(
            {n: [RateLimited(), after(7, ConnectionResetError()), after(1, n)] for n in range(40)}
        )
        with virtual_time():
            assert headway.map(call, range(40), limits=Limits(rpm=600)) == list(range(40))
        return call.calls

    assert story() == story()


def test_waits_between_attempts_are_virtual_too() -> None:
    call = scripted([ConnectionResetError(), ConnectionResetError(), "made it"])
    with virtual_time() as clock:
        assert headway.map(call, [1], retry=Retry(base="10m", cap="2h", jitter=0)) == ["made it"]
    assert clock.now == pytest.approx(600 + 1200, abs=1)


def test_a_thread_holds_the_clock() -> None:
    """A callable that blocks takes no virtual time, however long it takes."""
    with virtual_time() as clock:
        assert headway.map(lambda _: time.sleep(0.05), [1, 2], timeout="1s") == [None, None]
        assert clock.now < 1


def test_a_blocked_thread_does_not_hold_the_clock_forever() -> None:
    go_on = threading.Event()
    options = {"retry": Retry(max_attempts=1), "timeout": "1h"}
    with virtual_time(patience_s=0.05) as clock:
        (error,) = headway.map(lambda _: go_on.wait(60), [1], on_error="return", **options)  # type: ignore[call-overload]
    go_on.set()
    assert isinstance(error, TimeoutError)
    assert clock.now == pytest.approx(3600, abs=1)


def test_to_thread_holds_the_clock() -> None:
    async def work() -> float:
        async with asyncio.timeout(1):
            await asyncio.to_thread(time.sleep, 0.05)
        return asyncio.get_running_loop().time()

    with virtual_time() as clock:
        assert clock.run(work()) < 1


@virtual_time()
async def test_as_a_decorator_of_an_asynchronous_test(tmp_path: object) -> None:
    assert tmp_path  # Fixtures come as always.
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await headway.amap(scripted([after(500, 1)]), [0]) == [1]
    assert loop.time() - began == pytest.approx(500)


@virtual_time()
def test_as_a_decorator_of_a_plain_one() -> None:
    assert headway.map(scripted([after(500, 1)]), [0]) == [1]


def test_a_stream_in_virtual_time() -> None:
    call = scripted({"slow": after(60, 1), "slower": after(120, 2)})
    with virtual_time():
        assert [done.item for done in headway.stream(call, ["slower", "slow"])] == ["slow", "slower"]


def test_the_loop_alone() -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(asyncio.sleep(86_400 * 30))
        assert runner.get_loop().time() == pytest.approx(86_400 * 30)


def test_real_time_is_back_afterwards() -> None:
    with pytest.raises(ZeroDivisionError), virtual_time():
        _ = 1 // 0
    began = time.monotonic()
    headway.map(scripted([after(0.02, 1)]), [0])
    assert time.monotonic() - began >= 0.018


# -- scripts ------------------------------------------------------------------------------------------------------


def test_every_kind_of_outcome() -> None:
    call = scripted([1, ValueError("two"), KeyError, after(5, 4), lambda item: item * 10, None])
    with virtual_time():
        found = headway.map(call, range(6), limits=Limits(max_concurrency=1), on_error="return")
    assert [found[0], *found[3:]] == [1, 4, 40, None]
    assert [type(found[1]), type(found[2])] == [ValueError, KeyError]
    assert call.items == [0, 1, 2, 3, 4, 5]


def test_a_rate_limit_in_a_script_holds_its_lane() -> None:
    call = scripted([RateLimited(retry_after=45), "a", "b"])
    with virtual_time():
        assert headway.map(call, [1, 2], limits=Limits(max_concurrency=1)) == ["a", "b"]
    assert call.calls[1].at >= 45


def test_a_call_that_is_not_in_the_script_is_an_error() -> None:
    with virtual_time():
        (_, error) = headway.map(
            scripted([1]), ["x", "y"], on_error="return", limits=Limits(max_concurrency=1)
        )
    assert isinstance(error, AssertionError)
    assert "call 2 ('y', its call number 1)" in str(error)


# -- a provider ---------------------------------------------------------------------------------------------------


def ask(url: str, text: str = "hello", key: str = "any") -> str:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    request = Request(f"{url}/chat/completions", body, {"Authorization": f"Bearer {key}"})
    with urlopen(request, timeout=10) as answer:
        told: str = json.load(answer)["choices"][0]["message"]["content"]
    return told


def test_a_provider_answers_counts_and_forgets() -> None:
    with fake_provider() as provider:
        assert "hello" in ask(provider.openai_url)
        assert provider.stats()["total"]["ok"] == 1
        provider.reset()
        assert provider.stats()["total"]["ok"] == 0
    with pytest.raises(urllib.error.URLError):
        ask(provider.openai_url)


def test_a_provider_with_limits_accounts_and_faults() -> None:
    accounts = {"mine": {"key": "sk-mine", "max_concurrency": 3}}
    with fake_provider(
        rpm=1, burst="1s", accounts=accounts, faults=["500/2", {"kind": "529", "every": 100}]
    ) as fake:
        ask(fake.openai_url)
        with pytest.raises(urllib.error.HTTPError, match="429"):
            ask(fake.openai_url)
        ask(fake.openai_url, key="sk-mine")
        with pytest.raises(urllib.error.HTTPError, match="500"):
            ask(fake.openai_url, key="sk-mine")
        assert fake.stats()["accounts"]["mine"]["failed"] == 1
        assert fake.stats()["accounts"]["default"]["refused"] == {"rpm": 1}


async def test_a_provider_beside_a_running_loop() -> None:
    with fake_provider(latency="5ms") as provider:
        assert len(await headway.amap(lambda text: ask(provider.openai_url, text), ["a", "b", "c"])) == 3
        assert provider.stats()["total"]["ok"] == 3


def test_a_request_in_flight_does_not_keep_a_provider_alive() -> None:
    with fake_provider(faults=["hang"]) as provider:
        thread = threading.Thread(target=_swallow, args=(provider.openai_url,))
        thread.start()
        while not provider.stats()["total"]["in_flight"]:
            pass
    thread.join(10)
    assert not thread.is_alive()


def _swallow(url: str) -> None:
    with suppress(OSError):  # Whatever it is that a client meets then.
        ask(url)


def test_invalid_arguments_of_a_provider_are_errors() -> None:
    with (
        pytest.raises(headway.HeadwayError, match=r"accounts\.default.*rmp.*did you mean 'rpm'"),
        fake_provider(rmp=3),
    ):
        pass
    with pytest.raises(headway.HeadwayError, match="unknown fault 'fire'"), fake_provider(faults=["fire"]):
        pass
