"""`headway.run_pool`: what completes, errs and is skipped, and how soon an interruption is noticed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import headway
from headway import PoolResult, RateLimited, Retry, run_pool
from headway.testing import after, scripted, virtual_time

#: DESIGN: every wait notices within 250 ms.
NOTICED_S = 0.25


def test_errors_are_counted_and_do_not_stop_others() -> None:
    def handler(number: int) -> None:
        if number % 3 == 0:
            raise ValueError(number)

    assert run_pool(range(10), 4, handler) == PoolResult(completed=6, errored=4, skipped=0)
    assert run_pool([], 4, handler) == PoolResult()


def test_at_most_so_many_at_once_and_no_item_waits_for_the_slowest() -> None:
    at_once = most = 0
    ended: list[int] = []

    async def handler(number: int) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(100 if number == 0 else 1)
        at_once -= 1
        ended.append(number)

    with virtual_time() as clock:
        assert run_pool(range(30), 3, handler).completed == 30
    assert most == 3
    assert ended[-1] == 0  # The others went on beside it.
    assert clock.now == pytest.approx(100, abs=1)


def test_an_interruption_lets_what_is_in_flight_finish_and_skips_the_rest() -> None:
    finished: list[int] = []

    async def handler(number: int) -> None:
        await asyncio.sleep(1)
        finished.append(number)

    with virtual_time():
        result = run_pool(range(5_000), 2, handler, lambda: len(finished) >= 4)
    assert sorted(finished) == list(range(result.completed))
    assert result.completed in (4, 5, 6)
    assert (result.errored, result.skipped) == (0, 5_000 - result.completed)


def test_nothing_starts_after_an_interruption() -> None:
    """It is asked before every start: quick handlers do not run on until the next look."""
    interrupted = False
    called: list[int] = []

    async def handler(number: int) -> None:
        nonlocal interrupted
        called.append(number)
        interrupted = len(called) >= 10

    assert run_pool(range(1_000), 1, handler, lambda: interrupted) == PoolResult(10, 0, 990)


def first_that_waits() -> tuple[Callable[[int], None], threading.Event]:
    waits = threading.Event()

    def handler(number: int) -> None:
        if number:
            waits.set()
            raise RateLimited(retry_after=30)

    return handler, waits


def test_an_interruption_is_noticed_while_everything_waits() -> None:
    """Each time; and at once, but for a machine that is busy with other tests."""
    assert min(_noticed_after_s() for _ in range(4)) < NOTICED_S


def _noticed_after_s() -> float:
    handler, waits = first_that_waits()
    noticed: list[float] = []

    def is_interrupted() -> bool:
        if waits.is_set() and not noticed:
            noticed.append(time.monotonic())
        return waits.is_set()

    result = run_pool(range(3), 1, handler, is_interrupted)
    took_s = time.monotonic() - noticed[0]
    # One had been tried and waited for its next try: its error counts. The last one never started.
    assert result == PoolResult(completed=1, errored=1, skipped=1)
    return took_s


def test_is_interrupted_is_called_often_enough_during_a_long_wait() -> None:
    with virtual_time() as clock:
        times: list[float] = []
        call = scripted([RateLimited(retry_after=5), after(5, 1)])

        def look() -> bool:
            times.append(clock.now)
            return False

        assert run_pool([1], 1, call, look).completed == 1
    assert times[-1] >= 9.5
    assert max(later - sooner for sooner, later in pairwise(times)) < NOTICED_S


def test_a_rate_limit_is_waited_for_and_holds_no_place() -> None:
    call = scripted({1: [RateLimited(), "late"], 2: "soon"})
    with virtual_time():
        assert run_pool([1, 2], 1, call) == PoolResult(completed=2)


def test_an_item_whose_retries_are_used_up_counts_as_errored() -> None:
    call = scripted(lambda _: ConnectionResetError())
    with virtual_time():
        assert run_pool([1], 1, call, retry=Retry(max_attempts=3)) == PoolResult(errored=1)
    assert len(call.calls) == 3


def test_is_interrupted_that_raises_ends_the_run_with_its_error() -> None:
    def is_interrupted() -> bool:
        raise OSError("the flag file is gone")

    with pytest.raises(OSError, match="the flag file is gone"):
        run_pool(range(10), 2, str, is_interrupted)


def test_an_asynchronous_is_interrupted_is_awaited() -> None:
    done: list[int] = []

    async def is_interrupted() -> bool:
        await asyncio.sleep(0)
        return len(done) >= 2

    with virtual_time():
        assert run_pool(range(5), 1, done.append, is_interrupted) == PoolResult(completed=2, skipped=3)
    assert run_pool([1], 1, str, partial(is_interrupted)) == PoolResult(completed=0, skipped=1)


def test_an_asynchronous_is_interrupted_is_called_before_every_start_and_in_between() -> None:
    """Also while everything waits; and its time is not the handler's."""
    times: list[float] = []
    with virtual_time() as clock:
        stop_at = clock.now + 20

        async def is_interrupted() -> bool:
            await asyncio.sleep(0.05)
            times.append(clock.now)
            return clock.now >= stop_at

        call = scripted(lambda _: RateLimited(retry_after=30))
        began = clock.now
        assert run_pool([1, 2], 1, call, is_interrupted, timeout=0.01) == PoolResult(errored=1, skipped=1)
        took_s = clock.now - began
    assert 20 <= took_s < 20 + NOTICED_S
    assert max(later - sooner for sooner, later in pairwise(times)) < NOTICED_S


def test_is_interrupted_that_never_returns_ends_the_run() -> None:
    async def is_interrupted() -> bool:
        await asyncio.Event().wait()
        return False

    done: list[int] = []
    with virtual_time(), pytest.raises(TimeoutError, match="is_interrupted gave no answer within 10 s"):
        run_pool(range(5), 2, done.append, is_interrupted)
    assert done == []


def test_an_asynchronous_is_interrupted_that_raises_ends_the_run_with_its_error() -> None:
    async def is_interrupted() -> bool:
        raise OSError("the flag is gone")

    with pytest.raises(OSError, match="the flag is gone"):
        run_pool(range(10), 2, str, is_interrupted)


def test_an_iterator_is_read_no_further_once_it_is_interrupted() -> None:
    read = 0

    def items() -> Iterator[int]:
        nonlocal read
        while True:
            read += 1
            yield read

    done: list[int] = []
    result = run_pool(items(), 2, done.append, lambda: len(done) >= 5)
    assert result.completed >= 5
    assert result.completed + result.skipped <= read


async def test_inside_a_running_loop() -> None:
    assert run_pool([1, 2], 2, str).completed == 2


def test_a_concurrency_of_zero_is_refused() -> None:
    with pytest.raises(headway.HeadwayError, match="concurrency is 0"):
        run_pool([1], 0, str)


def test_arguments_in_the_wrong_order_are_named() -> None:
    wrong: Any = headway.run_pool
    with pytest.raises(headway.HeadwayError, match=r"are swapped: \(items, concurrency, handler"):
        wrong(print, 4, [1])
    with pytest.raises(headway.HeadwayError, match="concurrency is 'four'"):
        wrong([1], "four", print)


def test_an_is_interrupted_that_is_no_function_is_refused() -> None:
    wrong: Any = True
    with pytest.raises(
        headway.HeadwayError, match="is_interrupted is True — use a function that returns whether to stop"
    ):
        headway.run_pool([1], 4, str, wrong)
    with pytest.raises(headway.HeadwayError, match="concurrency is True — use a whole number"):
        headway.run_pool([1], wrong, str)
