"""`headway.map`, `amap` and `stream`: order, errors, retries, lanes, generators, interruptions."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sqlite3
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import CallsFailed, Limits, RateLimited, Retry, UnitError
from headway.api.mapping.map_options import MapOptions
from headway.api.mapping.map_run import MapRun
from headway.testing import after, scripted, virtual_time

QUICK = Retry(max_attempts=3, base="1ms")


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def halve(number: int) -> float:
    return number / 2


def test_results_come_in_the_order_of_the_items() -> None:
    async def slow_first(number: int) -> int:
        await asyncio.sleep(0.02 if number == 0 else 0)
        return number

    assert headway.map(slow_first, range(50)) == list(range(50))
    assert headway.map(halve, [1, 2, 3]) == [0.5, 1.0, 1.5]
    assert headway.map(double, []) == []


async def test_map_works_inside_a_running_loop_and_so_does_amap() -> None:
    assert headway.map(double, [1, 2]) == [2, 4]
    assert await headway.amap(double, [1, 2]) == [2, 4]
    assert await headway.amap(halve, [1, 2]) == [0.5, 1.0]


def test_errors_are_raised_at_the_end_with_every_result() -> None:
    with pytest.raises(CallsFailed, match="1 of 3 calls failed") as caught:
        headway.map(lambda number: 1 // number, [1, 0, 2])
    assert [result.value for result in caught.value.results] == [1, None, 0]
    assert isinstance(caught.value.exceptions[0], ZeroDivisionError)
    assert caught.value.results[1].attempts == 1  # A fault of the callable's own is not tried again.


def test_errors_can_be_returned_in_their_place() -> None:
    one, two = headway.map(int, ["1", "x"], on_error="return")
    assert one == 1
    assert isinstance(two, ValueError)


def test_a_connection_that_breaks_is_tried_again() -> None:
    tries: list[int] = []

    async def flaky(number: int) -> int:
        tries.append(number)
        if len(tries) < 3:
            raise ConnectionResetError("gone")
        return number

    assert headway.map(flaky, [7], retry=QUICK) == [7]
    assert len(tries) == 3


def test_retry_on_names_exceptions_that_are_retried() -> None:
    seen: list[int] = []

    def moody(number: int) -> int:
        seen.append(number)
        if len(seen) < 2:
            raise KeyError(number)
        return number

    assert headway.map(moody, [1], retry=Retry(max_attempts=2, base="1ms", on=(KeyError,))) == [1]


def test_rate_limited_waits_and_spends_no_attempt() -> None:
    seen: list[float] = []

    async def limited(number: int) -> int:
        seen.append(time.monotonic())
        if len(seen) == 1:
            raise RateLimited(retry_after=0.05, reason="slow down")
        return number

    assert headway.map(limited, [1], retry=Retry(max_attempts=1)) == [1]
    assert seen[1] - seen[0] >= 0.048  # uvloop counts whole milliseconds.


def test_usage_settles_the_meters_of_its_lane() -> None:
    async def call(number: int) -> int:
        headway.usage(input_tokens=number, output_tokens=1)
        headway.usage(output_tokens=1, cost_usd=0.5)
        return number

    (done,) = headway.stream(call, [3])
    assert done.usage is not None
    assert (done.usage.input_tokens, done.usage.output_tokens, done.usage.cost_usd) == (3, 2, 0.5)
    headway.usage(input_tokens=1)  # Outside of a call it is nothing.


def test_usage_can_be_reported_from_threads() -> None:
    (done,) = headway.stream(lambda _: headway.usage(input_tokens=5), [3])
    assert done.usage is not None
    assert done.usage.input_tokens == 5


def test_lanes_by_a_function_of_the_item_with_limits_of_their_own() -> None:
    at_once = {"one": 0, "two": 0}
    most = dict(at_once)

    async def call(item: tuple[str, int]) -> None:
        lane = item[0]
        at_once[lane] += 1
        most[lane] = max(most[lane], at_once[lane])
        await asyncio.sleep(0.001)
        at_once[lane] -= 1

    limits = {"one": Limits(max_concurrency=1), "two": Limits(max_concurrency=4)}
    items = [(lane, n) for n in range(20) for lane in ("one", "two")]
    with virtual_time():  # None ends before all that may begin have begun.
        found = list(headway.stream(call, items, lane=lambda item: item[0], limits=limits))
    assert {done.lane for done in found} == {"one", "two"}
    assert most == {"one": 1, "two": 4}


def test_a_generator_is_read_at_most_a_thousand_ahead() -> None:
    read = 0
    ended = 0
    farthest = 0

    def items() -> Iterator[int]:
        nonlocal read
        for number in range(5_000):
            read += 1
            yield number

    async def call(number: int) -> int:
        nonlocal ended, farthest
        await asyncio.sleep(0)
        ended += 1
        farthest = max(farthest, read - ended)
        return number

    assert headway.map(call, items(), limits=Limits(max_concurrency=10)) == list(range(5_000))
    assert farthest <= 1_000 + 10 + 100  # Waiting, in flight, and the page that is being read.


def test_a_generator_that_raises_loses_nothing_that_was_read() -> None:
    called: list[int] = []

    def items() -> Iterator[int]:
        yield from range(3)
        raise OSError("the file is gone")

    async def call(number: int) -> None:
        called.append(number)

    with pytest.raises(OSError, match="the file is gone"):
        headway.map(call, items())
    assert sorted(called) == [0, 1, 2]


def test_an_item_does_not_wait_for_the_next_one_of_a_slow_generator() -> None:
    """As from a queue: the next one comes because of what was done with this one."""
    called = threading.Event()
    in_time: list[bool] = []

    def items() -> Iterator[int]:
        for number in range(3):
            yield number
            in_time.append(called.wait(10))
            called.clear()

    assert headway.map(lambda number: called.set(), items()) == [None, None, None]
    assert in_time == [True, True, True]


def test_an_asynchronous_iterable() -> None:
    async def items() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    assert headway.map(double, items()) == [0, 2, 4]


async def test_a_stream_in_order_and_as_things_end() -> None:
    first = asyncio.Event()

    async def call(number: int) -> int:
        if number == 0:
            await first.wait()
        else:
            first.set()
        return number

    assert [done.index async for done in headway.stream(call, range(2))] == [1, 0]
    first.clear()
    assert [done.index async for done in headway.stream(call, range(2), ordered=True)] == [0, 1]


def test_leaving_a_stream_early_cancels_the_rest() -> None:
    cancelled = threading.Event()

    async def call(number: int) -> int:
        if number == 0:
            return number
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return number

    for done in headway.stream(call, range(2)):
        assert done.index == 0
        break
    assert cancelled.wait(5)


def test_a_timeout_ends_the_attempt_and_frees_its_slot() -> None:
    async def call(number: int) -> int:
        if number == 0:
            await asyncio.sleep(60)
        return number

    options: Any = {"timeout": "20ms", "retry": Retry(max_attempts=1), "limits": Limits(max_concurrency=1)}
    first, second = headway.map(call, [0, 1], on_error="return", **options)
    assert isinstance(first, TimeoutError)
    assert second == 1


def test_a_thread_past_its_timeout_is_abandoned() -> None:
    go_on = threading.Event()

    def call(number: int) -> int:
        if number == 0:
            go_on.wait(10)
        return number

    # The second call's thread must get its turn within the same time, also on a busy machine.
    options: Any = {"timeout": "1s", "retry": Retry(max_attempts=1), "limits": Limits(max_concurrency=1)}
    first, second = headway.map(call, [0, 1], on_error="return", **options)
    go_on.set()
    assert isinstance(first, TimeoutError)
    assert second == 1


def test_a_deadline_ends_what_is_left() -> None:
    async def call(number: int) -> int:
        await asyncio.sleep(0 if number == 0 else 60)
        return number

    with virtual_time():
        results = list(headway.stream(call, range(3), max_duration="50ms", limits=Limits(max_concurrency=2)))
    assert sorted(result.code for result in results) == ["", "deadline", "deadline"]


def test_items_that_wait_too_long_in_the_queue_end_and_the_others_go_on() -> None:
    async def call(number: int) -> int:
        await asyncio.sleep(30)
        return number

    with virtual_time():
        results = list(headway.stream(call, iter(range(4)), max_wait="40s", limits=Limits(max_concurrency=1)))
    codes = {result.index: result.code for result in results}
    assert codes == {0: "", 1: "", 2: "deadline", 3: "deadline"}


def test_a_lane_that_is_refused_for_good_ends_its_items_with_the_reason() -> None:
    class Unauthorized(Exception):
        status_code = 401

    async def call(number: int) -> int:
        raise Unauthorized("Error code: 401 - bad key")

    results = headway.map(call, range(5), on_error="return", limits=Limits(max_concurrency=1))
    assert len(results) == 5
    assert all(isinstance(result, Unauthorized | UnitError) for result in results)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(headway.HeadwayError, match="rpm is -1"):
        Limits(rpm=-1)
    with pytest.raises(headway.HeadwayError, match="base is 'soon'"):
        Retry(base="soon")
    with pytest.raises(headway.HeadwayError, match="on_error"):
        headway.map(halve, [], on_error="ignore")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="there is no argument 'limit'"):
        headway.map(halve, [], limit=Limits())  # type: ignore[call-overload]


def test_a_deadline_also_ends_items_that_were_not_read() -> None:
    """More items than are read ahead: those that come after the end have its code."""
    call = scripted(lambda number: after(1, number))
    with virtual_time():
        results = list(headway.stream(call, range(5_000), max_duration="10s"))
    assert len(results) == 5_000
    assert {result.code for result in results} == {"", "deadline"}


@pytest.mark.parametrize("items", [20, 5_000])
def test_a_spent_budget_ends_the_rest(items: int) -> None:
    async def call(number: int) -> int:
        headway.usage(cost_usd=1.0)
        return number

    limits = Limits(max_concurrency=1)
    with virtual_time():
        results = list(headway.stream(call, range(items), max_cost=10, limits=limits))
    assert len(results) == items
    assert sum(result.ok for result in results) == 10
    assert {result.code for result in results} == {"", "budget"}


def test_calls_in_flight_do_not_exceed_a_budget_once_costs_are_known() -> None:
    async def call(item: tuple[str, int]) -> None:
        headway.usage(cost_usd=1.0 if item[0] == "dear" else 0.01)
        await asyncio.sleep(1 + item[1] % 7)

    items = [(lane, number) for number in range(500) for lane in ("dear", "cheap")]
    with virtual_time():
        results = list(
            headway.stream(call, items, lane=first, limits=Limits(max_concurrency=16), max_cost=60)
        )
    spent = sum(result.usage.cost_usd or 0.0 for result in results if result.usage)
    assert 59 < spent <= 60
    assert len(results) == 1000


def test_a_budget_is_exceeded_at_most_by_calls_before_the_first_known_cost() -> None:
    called: list[int] = []

    async def call(number: int) -> None:
        called.append(number)
        await asyncio.sleep(1)
        headway.usage(cost_usd=1.0)

    with virtual_time():
        results = headway.map(
            call, range(100), limits=Limits(max_concurrency=8), max_cost=5, on_error="return"
        )
    assert len(called) == 8
    assert len(results) == 100


def test_free_calls_are_not_limited_by_a_budget() -> None:
    assert headway.map(double, range(100), max_cost=0.5) == [2 * number for number in range(100)]
    with pytest.raises(headway.HeadwayError, match="max_cost is -1"):
        headway.map(double, [1], max_cost=-1)


def test_a_limit_is_a_bucket_of_a_minute_and_with_burst_1s_an_even_pace() -> None:
    """What docs/reference/python.md says of `burst`."""

    def started(limits: Limits) -> list[float]:
        call = scripted(lambda number: after(0.1, number))
        with virtual_time():
            headway.map(call, range(200), limits=limits)
        return [one.at - call.calls[0].at for one in call.calls]

    bucket, even = started(Limits(rpm=60)), started(Limits(rpm=60, burst="1s"))
    # Not all of it at once: the ramp goes on when answers to its last step are there.
    assert sum(at < 0.1 for at in bucket) < 60 <= sum(at < 2 for at in bucket)
    assert 110 < sum(at < 60 for at in bucket) <= 121
    assert 59 <= sum(60 <= at < 120 for at in bucket) <= 61
    assert max(sum(begin <= at < begin + 60 for at in even) for begin in even) <= 61
    assert min(late - early for early, late in itertools.pairwise(even)) > 0.9


async def test_an_interruption_at_the_moment_of_an_answer_does_not_lose_it() -> None:
    async def call(number: int) -> int:
        if number == 0:
            asyncio.get_running_loop().call_soon(run.interrupt)
        return number

    run: MapRun[int, int] = MapRun(call, range(3), MapOptions({"limits": Limits(max_concurrency=1)}))
    results = [result async for page in run.pages() for result in page]
    assert (run.ends, run.failures) == (1, 0)  # What a bar shows: nothing failed.
    assert [(result.value, result.code) for result in sorted(results, key=lambda each: each.index)] == [
        (0, ""),
        (None, "interrupted"),
        (None, "interrupted"),
    ]


def test_a_callable_that_cancels_itself_fails_and_is_not_retried_forever() -> None:
    calls: list[int] = []

    async def call(number: int) -> int:
        calls.append(number)
        raise asyncio.CancelledError

    (error,) = headway.map(call, [1], on_error="return")
    assert isinstance(error, UnitError)
    assert "CancelledError" in str(error)
    assert calls == [1]


def test_an_exit_in_a_thread_fails_only_its_call() -> None:
    def call(number: int) -> int:
        if number == 0:
            raise SystemExit(2)
        return number

    first, second = headway.map(call, [0, 1], on_error="return")
    assert "SystemExit" in str(first)
    assert second == 1


def test_invalid_tokens_are_an_error_and_nothing_hangs() -> None:
    with pytest.raises(ZeroDivisionError):
        headway.map(halve, [1, 2], tokens=lambda number: 1 // 0)
    many: Any = "many"
    with pytest.raises(headway.HeadwayError, match="tokens is 'many'"):
        headway.map(halve, [1, 2], tokens=lambda number: many)
    wrong: Any = {"rpm": 5}
    with pytest.raises(headway.HeadwayError, match="limits has"):
        headway.map(halve, [1], limits=wrong)


def test_a_stream_is_read_once() -> None:
    stream = headway.stream(halve, [2])
    assert [done.value for done in stream] == [1.0]
    with pytest.raises(headway.HeadwayError, match="already been read"):
        list(stream)


class Thing:
    """An item that can be watched."""


@pytest.mark.parametrize("kept", [False, True])
def test_finished_items_are_released_without_the_garbage_collector(tmp_path: Path, *, kept: bool) -> None:
    things = [Thing() for _ in range(20)]
    watched = [weakref.ref(thing) for thing in things]
    keys = {id(thing): str(n) for n, thing in enumerate(things)}
    store: Any = {"db": tmp_path / "h.db", "key": lambda thing: keys[id(thing)], "name": "n"} if kept else {}

    async def call(thing: Thing) -> int:
        await asyncio.sleep(0)
        return 1

    gc.collect()
    gc.disable()
    try:
        assert sum(headway.map(call, things, **store)) == len(things)
        things.clear()
        assert [each() for each in watched] == [None] * len(watched)
    finally:
        gc.enable()


@pytest.mark.parametrize("front", [headway.map, headway.amap, headway.stream])
@pytest.mark.parametrize(
    ("call", "items", "said"),
    [
        (3, [1], "call is 3 — pass a function of one item"),
        (halve, 3, "items is 3 — pass a list"),
        (halve, None, "items is None — pass a list"),
        ([1], halve, r"call is a list — the function and the items are swapped: \(call, items\)"),
        (halve, test_an_asynchronous_iterable, "items is the function test_an_"),
    ],
)
def test_invalid_arguments_are_an_error_at_once(front: Any, call: Any, items: Any, said: str) -> None:
    with pytest.raises(headway.HeadwayError, match=said) as caught:
        asyncio.run(front(call, items)) if front is headway.amap else front(call, items)
    assert "\n" not in str(caught.value)


def test_a_function_that_was_called_and_a_generator_that_was_not() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    called: Any = double(1)
    with pytest.raises(headway.HeadwayError, match="pass the function itself, without calling it"):
        headway.map(called, [1])
    with pytest.raises(headway.HeadwayError, match="items is the function numbers — call it"):
        headway.map(halve, numbers)  # type: ignore[call-overload]


def first(item: tuple[str, int]) -> str:
    return item[0]


def test_limits_of_an_unused_lane_give_a_warning() -> None:
    limits = {"openai": Limits(rpm=0), "local": Limits(rpm=0)}
    with pytest.warns(UserWarning, match="no item") as caught:
        headway.map(len, [("x", 1), ("openai", 2)], lane=first, limits=limits)
    (told,) = caught
    assert str(told.message) == "limits names 'local', but no item is in that lane; 'x' had no limits"
    assert told.filename == __file__  # It points at the call.


def test_a_mistyped_lane_name_gives_a_warning_at_once() -> None:
    async def call(item: tuple[str, int]) -> None:
        pass

    stream = iter(headway.stream(call, [("OpenAI", 1)] * 9, lane=first, limits={"openai": Limits(rpm=0)}))
    with pytest.warns(UserWarning, match="the lane 'OpenAI' has no limits; did you mean 'openai'"):
        next(stream)
    list(stream)  # Once is enough: a second warning would be an error here.


def test_limits_for_more_lanes_than_today_and_lanes_without_limits_are_fine() -> None:
    limits = {"openai": Limits(rpm=0), "local": Limits(rpm=0)}
    headway.map(len, [("openai", 1)], lane=first, limits=limits)
    headway.map(len, [("openai", 1), ("local", 1), ("other", 1)], lane=first, limits=limits)
    headway.map(len, [], lane=first, limits=limits)


def test_limits_by_lane_need_a_lane_argument() -> None:
    with pytest.raises(headway.HeadwayError, match=r"limits is by lane \('y'\), and lane is not given"):
        headway.map(halve, [1], limits={"y": Limits(rpm=1)})
    with pytest.warns(UserWarning, match="no item is in that lane; 'x' had no limits"):
        headway.map(halve, [1], lane="x", limits={"y": Limits(rpm=1)})


LEFT = """
import asyncio, sys, headway

async def call(number):
    await asyncio.sleep(0 if number == 0 else 3600)
    return number

async def main():
    async for done in headway.stream(call, range(1000), db="h.db", key=str, name="n"):
        assert done.value == 0
        break
    {then}

asyncio.run(main())
"""


@pytest.mark.parametrize("then", ["return", "await asyncio.sleep(0)", "raise SystemExit(0)"])
def test_a_program_that_leaves_an_asynchronous_stream_ends_without_output(then: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LEFT.format(then=then), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "default", "-W", "ignore:Binding:DeprecationWarning", "script.py"],  # See pyproject.toml.
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        assert connection.execute("SELECT state FROM jobs").fetchone() == ("interrupted",)
        assert connection.execute("SELECT count(*) FROM units WHERE status = 'succeeded'").fetchone() == (1,)


async def test_a_stream_that_is_closed_has_ended() -> None:
    cancelled: list[int] = []

    async def call(number: int) -> int:
        try:
            await asyncio.sleep(0 if number == 0 else 3600)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async with aclosing(aiter(headway.stream(call, range(3)))) as stream:  # type: ignore[type-var]
        assert (await anext(stream)).value == 0
    assert sorted(cancelled) == [1, 2]


def test_invalid_lanes_and_retries_are_an_error_and_nothing_hangs() -> None:
    wrong: Any = headway.map
    for choices, said in (
        ({"retry": 3}, "retry is 3"),
        ({"lane": lambda _: None}, "the lane of an item is None"),
        ({"timeout": None}, "timeout is None — .*0 is none"),
        ({"concurrency": "4"}, "concurrency is '4'"),
        ({"max_cost": None}, "max_cost is None"),
        ({"isolation": "process", "workers": None}, "workers is None"),
        ({"db": "x.db", "key": "id"}, "key is 'id'"),
    ):
        with pytest.raises(headway.HeadwayError, match=said):
            wrong(halve, [1], **choices)
    for made, said in (
        (lambda: Limits(rpm="500"), "rpm is '500'"),  # type: ignore[arg-type]
        (lambda: Limits(max_concurrency=0.5), "max_concurrency is 0.5"),  # type: ignore[arg-type]
        (lambda: Retry(max_attempts="3"), "max_attempts is '3'"),  # type: ignore[arg-type]
        (lambda: Retry(on=KeyError), "on is <class 'KeyError'>"),  # type: ignore[arg-type]
    ):
        with pytest.raises(headway.HeadwayError, match=said):
            made()


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"db": 5, "key": str}, 'db is 5 — use the path of a file: db="work.db"'),
        ({"db": "", "key": str}, "db is '' — use the path of a file: db=\"work.db\""),
        ({"name": 7}, "name is 7 — use a string: the name of the job in the file"),
        ({"returns": "int"}, "returns is 'int' — use a type: int, list[str], a dataclass"),
        ({"limits": 5}, "limits is 5 — use headway.Limits(rpm=…), or a mapping of lanes to such"),
        ({"limits": {"a": 5}}, "limits has 5 for the lane 'a' — use headway.Limits(rpm=…)"),
        ({"limits": {1: Limits()}}, "limits has the lane 1 — a lane's name is a string"),
        ({"concurrency": "4"}, "concurrency is '4' — use a whole number; 0 means no cap"),
        ({"concurrency": True}, "concurrency is True — use a whole number; 0 means no cap"),
        ({"max_cost": "1"}, "max_cost is '1' — use a number of USD; 0 means no cap"),
        ({"isolation": "process", "memory_limit": "1GB"}, "memory_limit is '1GB' — use a number of bytes, 0 or more"),
        ({"retry": False}, "retry is False — use headway.Retry(max_attempts=…)"),
        ({"progress": "yes"}, "progress is 'yes' — use True, False or None"),
        ({"lane": ""}, "lane is '' — use a name that is not empty, or a function that returns one"),
        ({"lane": 5}, "lane is 5 — use a name that is not empty, or a function that returns one"),
    ],
)  # fmt: skip
def test_each_argument_is_checked_before_anything_is_called(choices: dict[str, Any], said: str) -> None:
    called: list[int] = []
    with pytest.raises(headway.HeadwayError) as caught:
        headway.map(called.append, [1], **choices)
    assert str(caught.value) == said
    assert called == []


def test_numbers_of_a_retry_say_that_they_are_numbers() -> None:
    for wrong in ("3", True, 0):
        with pytest.raises(
            headway.HeadwayError, match=f"max_attempts is {wrong!r} — use a whole number of 1 or more"
        ):
            Retry(max_attempts=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ordered", " here: it belongs to headway.stream"),
        ("orderd", "; did you mean 'ordered'?"),
        ("limit", "; did you mean 'limits'?"),
        ("on_eror", "; did you mean 'on_error'?"),
        ("rpm", "; did you mean limits=headway.Limits(rpm=…)?"),
        ("max_attempts", "; did you mean retry=headway.Retry(max_attempts=…)?"),
        ("max_workers", "; did you mean 'concurrency'?"),
    ],
)
def test_an_unknown_argument_suggests_the_nearest_one(name: str, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        headway.map(halve, [1], **{name: True})  # type: ignore[call-overload]
    assert str(caught.value) == f"there is no argument '{name}'{said}"


def test_an_unknown_argument_without_a_near_one_lists_all() -> None:
    with pytest.raises(
        TypeError, match=r"'zzz': concurrency, db, .*, on_error \(map and amap\), ordered \(stream\)$"
    ):
        headway.map(halve, [1], zzz=1)  # type: ignore[call-overload]


def test_a_generator_function_is_refused_as_callable() -> None:
    def numbers(number: int) -> Iterator[int]:
        yield number

    with pytest.raises(headway.HeadwayError, match="call is the function numbers — it is a generator"):
        headway.map(numbers, [1])


@pytest.mark.parametrize(
    ("told", "wait_s", "reason"),
    [
        ("30", 30.0, "a rate limit was reached"),
        ("slow down", None, "slow down"),
        ("1m30s", 90.0, "a rate limit was reached"),
        ("Thu, 01 Jan 2026 00:00:00 GMT", 0.0, "a rate limit was reached"),
        (2, 2.0, "a rate limit was reached"),
        (-0.3, 0.0, "a rate limit was reached"),
        (None, None, "a rate limit was reached"),
        ("", None, "a rate limit was reached"),
        (float("nan"), None, "a rate limit was reached (retry_after is nan, which is not a time)"),
        ({}, None, "a rate limit was reached (retry_after is {}, which is not a time)"),
    ],
)
def test_a_rate_limit_with_a_headers_text_or_with_a_reason_first(told: Any, wait_s: Any, reason: str) -> None:
    error = RateLimited(told)
    assert (error.retry_after, str(error)) == (wait_s, reason)


@pytest.mark.parametrize("header", ["soon", "-5", -5, "", None, float("inf"), [], "Retry later, please"])
def test_a_rate_limit_counts_as_one_whatever_its_header_says(header: Any) -> None:
    """It is raised where another exception is handled: one of its own would make a refusal an error of the item's."""
    error = RateLimited(header, reason="429")
    assert str(error).startswith("429")
    call = scripted({1: [error, "one"]})
    with virtual_time():
        (done,) = headway.stream(call, [1])
    assert (done.value, done.attempts) == ("one", 2)


def test_a_rate_limit_until_a_date_lasts_until_then() -> None:
    until = formatdate(time.time() + 3_000, usegmt=True)
    wait_s = RateLimited(until).retry_after
    assert wait_s is not None
    assert 2_900 < wait_s <= 3_000


@pytest.mark.parametrize("name", ["input_tokens", "output_tokens", "cached_input_tokens", "cost_usd"])
@pytest.mark.parametrize("number", [-1, float("nan"), float("inf"), "12"])
def test_impossible_usage_is_an_error_that_names_the_argument(name: str, number: Any) -> None:
    with pytest.raises(
        headway.HeadwayError, match=f"usage: {name} is {number!r} — it is a number, 0 or more"
    ):
        headway.usage(**{name: number})


def test_items_that_keep_failing_spend_their_attempts_and_do_not_block_others() -> None:
    """A function's exceptions are its own: however many fail, the others are called, and nothing waits for a lane."""
    call = scripted(lambda number: ConnectionError("x") if number % 10 == 0 else after(1, number))
    with virtual_time() as clock:
        began = clock.now
        results = headway.map(call, range(100), on_error="return", retry=Retry(max_attempts=3))
        took_s = clock.now - began
    assert [number for number in range(100) if number % 10 and results[number] != number] == []
    assert all(isinstance(results[number], ConnectionError) for number in range(0, 100, 10))
    assert len(call.calls) == 90 + 10 * 3
    assert took_s < 10


# -- how far ahead a stream reads ---------------------------------------------------------------------------------------

AHEAD = 1_000


class Counted:
    """Items that count how far they are read ahead of the results that were taken."""

    def __init__(self, count: int) -> None:
        self.count, self.read, self.taken, self.most = count, 0, 0, 0
        self.far, self.too_far = threading.Event(), threading.Event()

    def items(self) -> Iterator[int]:
        for number in range(self.count):
            self.read += 1
            self.most = max(self.most, self.read - self.taken)
            if self.read - self.taken >= AHEAD - 100:
                self.far.set()
            if self.most > AHEAD:
                self.too_far.set()
            yield number

    async def later(self) -> AsyncIterator[int]:
        for number in self.items():
            yield number

    def take(self) -> None:
        """A consumer that sometimes waits until everything that may be read is read, and a little longer."""
        self.taken += 1
        if self.taken == 1:
            assert self.far.wait(60.0)
        if self.taken in (1, 700, 1_800):
            self.too_far.wait(0.2)


def same(number: int) -> int:
    return number


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("call", [double, same])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("source", ["generator", "asynchronous"])
def test_a_stream_is_read_a_thousand_items_ahead_of_its_consumer_and_no_more(
    source: str, kept: bool, call: Any, ordered: bool, tmp_path: Path
) -> None:
    more: Any = {"db": tmp_path / "kept.db", "key": str} if kept else {}
    counted = Counted(2_500)
    items = counted.items() if source == "generator" else counted.later()
    for _ in headway.stream(call, items, ordered=ordered, **more):
        counted.take()
    assert counted.taken == 2_500
    assert AHEAD - 100 <= counted.most <= AHEAD


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("source", ["generator", "asynchronous"])
async def test_an_asynchronous_stream_is_read_a_thousand_items_ahead_and_no_more(
    source: str, kept: bool, tmp_path: Path
) -> None:
    more: Any = {"db": tmp_path / "kept.db", "key": str} if kept else {}
    counted = Counted(2_500)
    items = counted.items() if source == "generator" else counted.later()
    async for _ in headway.stream(same, items, **more):
        counted.taken += 1
        if counted.taken in (1, 700):
            await asyncio.to_thread(counted.too_far.wait, 0.2)
    assert counted.taken == 2_500
    assert AHEAD - 100 <= counted.most <= AHEAD


def test_calls_that_may_run_at_once_do_not_count_as_reading_ahead() -> None:
    most = running = 0

    async def busy(number: int) -> int:
        nonlocal most, running
        running += 1
        most = max(most, running)
        await asyncio.sleep(60)
        running -= 1
        return number

    with virtual_time():
        got = list(headway.stream(busy, iter(range(2_600)), limits=Limits(rpm=0, max_concurrency=1_300)))
    assert len(got) == 2_600
    assert most == 1_300


@pytest.mark.parametrize("blocking", [True, False])
def test_the_error_of_a_retried_attempt_is_released_at_once(blocking: bool) -> None:
    """With all that it holds, for example the socket of an answer, and without the garbage collector."""

    class Busy(RateLimited):
        pass

    raised: list[weakref.ref[Busy]] = []

    def made() -> Busy:
        error = Busy(retry_after=0.001)
        raised.append(weakref.ref(error))
        return error

    def call(number: int) -> int:
        if not raised:
            raise made()
        return number

    async def acall(number: int) -> int:
        return call(number)

    gc.disable()
    try:
        assert headway.map(call if blocking else acall, [1]) == [1]
        assert [error() for error in raised] == [None]
    finally:
        gc.enable()


# -- a run that is over reads no further ----------------------------------------------------------------------------------


def slowly(number: int) -> int:
    time.sleep(0.1)  # So that some are under way at any moment.
    return number


def costly(number: int) -> int:
    headway.usage(cost_usd=1.0)
    return number


@pytest.mark.parametrize(
    ("call", "code", "limit"),
    [(slowly, "deadline", {"max_duration": 1.0}), (costly, "budget", {"max_cost": 3.0})],
)
def test_an_endless_iterator_is_not_read_after_the_run_is_over(call: Any, code: str, limit: Any) -> None:
    def numbers() -> Iterator[int]:
        for number in itertools.count():
            time.sleep(0.005)
            yield number

    with pytest.raises(headway.CallsFailed) as caught:
        headway.map(call, numbers(), **limit)
    codes = [result.code for result in caught.value.results]
    assert set(codes) == {"", code}
    streamed = list(headway.stream(call, numbers(), **limit))
    assert {result.code for result in streamed} <= {"", code}


async def test_a_deadline_ends_a_run_that_waits_for_its_next_item() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        assert await headway.amap(same, items(), max_duration=0.2) == [1]
        assert [done.value async for done in headway.stream(same, items(), max_duration=0.2)] == [1]


def test_items_with_a_length_all_get_a_result() -> None:
    with pytest.raises(headway.CallsFailed) as caught:
        headway.map(costly, list(range(300)), max_cost=3.0)
    assert len(caught.value.results) == 300


@pytest.mark.parametrize("name", ["lane", "tokens", "key"])
def test_an_error_of_a_callers_function_names_the_argument_and_the_item(name: str, tmp_path: Path) -> None:
    fault = KeyError("id")

    def raises(item: str) -> Any:
        if item == "good":
            return {"lane": "a", "tokens": 5, "key": item}[name]
        raise fault

    choices: dict[str, Any] = {name: raises, **({"db": tmp_path / "h.db"} if name == "key" else {})}
    with pytest.raises(KeyError) as caught:
        headway.map(str.upper, ["good", "x" * 100], **choices)
    assert caught.value is fault
    assert fault.__notes__ == [f"headway: {name}= raised this for the item '{'x' * 58}…"]


def test_the_code_of_a_result_is_plain_text() -> None:
    (result,) = headway.stream(int, ["x"])
    assert type(result.code) is str
    assert "code='invalid'" in repr(result)
