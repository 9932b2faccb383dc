"""Calls that use a lane of the same name share it: in one process, and with the jobs of one file."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.engine.test_engine import PATIENCE_S, until
from tests.engine.test_sharing import Gate, engine_of

import headway
from headway import Limits

EIGHT = Limits(rpm=0, max_concurrency=8)


class Calls:
    """A function whose calls wait until the test releases them."""

    def __init__(self) -> None:
        self.out = 0
        self._let = asyncio.Semaphore(0)

    async def __call__(self, item: int) -> int:
        self.out += 1
        try:
            await self._let.acquire()
        finally:
            self.out -= 1
        return item

    def let(self, n: int) -> None:
        for _ in range(n):
            self._let.release()


def mapped(calls: Calls, items: int = 40, **choices: Any) -> asyncio.Task[list[int]]:
    async def call(item: int) -> int:
        return await calls(item)

    work = headway.amap(call, range(items), limits=EIGHT, progress=False, **choices)
    return asyncio.ensure_future(work)


async def halved(ours: Calls, theirs: Calls) -> None:
    """Calls end one by one until both have four in flight: the first must know of the second, and leave its places."""
    while (ours.out, theirs.out) != (4, 4):
        if ours.out > 4:
            ours.let(1)
        await asyncio.sleep(0.05)


async def test_two_maps_of_one_process_share_a_lane_by_its_name() -> None:
    ours, theirs = Calls(), Calls()
    async with asyncio.timeout(PATIENCE_S):
        one = mapped(ours, lane="account")
        await until(lambda: ours.out == 8)
        two = mapped(theirs, lane="account")
        await halved(ours, theirs)
        theirs.let(40)
        await two
        await until(lambda: ours.out == 8)  # The last one has all of it again.
        ours.let(40)
        assert await one == list(range(40))


@pytest.mark.parametrize("names", [("one", "other"), (None, None), (None, "calls")])
async def test_lanes_of_other_names_and_without_names_are_not_shared(names: tuple[str | None, ...]) -> None:
    ours, theirs = Calls(), Calls()
    async with asyncio.timeout(PATIENCE_S):
        one, two = (
            mapped(calls) if name is None else mapped(calls, lane=name)
            for calls, name in zip((ours, theirs), names, strict=True)
        )
        await until(lambda: (ours.out, theirs.out) == (8, 8))
        ours.let(40)
        theirs.let(40)
        await asyncio.gather(one, two)


def test_a_map_inside_a_call_of_the_same_lane_does_not_wait_for_that_call() -> None:
    one = Limits(rpm=0, max_concurrency=1)

    def inner(item: int) -> list[int]:
        return headway.map(lambda number: number + item, [1, 2], lane="same", limits=one, progress=False)

    done: list[list[list[int]]] = []
    work = threading.Thread(
        target=lambda: done.append(headway.map(inner, [10, 20], lane="same", limits=one, progress=False)),
        daemon=True,
    )
    work.start()
    work.join(PATIENCE_S)
    assert done == [[[11, 12], [21, 22]]]


async def test_a_map_and_a_job_of_one_file_share_a_lane_by_its_name(tmp_path: Path) -> None:
    path, gate, calls = tmp_path / "db", Gate(), Calls()
    engine, shared = engine_of(path, "job", 1.0, gate)
    async with asyncio.timeout(PATIENCE_S):
        job = asyncio.create_task(engine.run())
        await until(lambda: gate.out == 8)
        program = mapped(calls, lane="alpha/gpt-x", db=path, key=str, name="program")
        await until(lambda: bool(shared.told))
        assert calls.out == 0  # No place is free yet.
        gate.let(4)
        await until(lambda: (gate.out, calls.out) == (4, 4))
        gate.let(40)
        await job
        await until(lambda: calls.out == 8)
        calls.let(40)
        await program
    assert shared.told[0].endswith("uses this lane, too: this job has 50% of its limits")


async def test_two_maps_of_one_file_share_a_lane_by_its_name(tmp_path: Path) -> None:
    path, ours, theirs = tmp_path / "db", Calls(), Calls()
    async with asyncio.timeout(PATIENCE_S):
        one = mapped(ours, lane="account", db=path, key=str, name="one")
        await until(lambda: ours.out == 8)
        two = mapped(theirs, lane="account", db=path, key=str, name="two")
        three = mapped(Calls(), 0, db=path, key=str, name="three")
        await halved(ours, theirs)
        theirs.let(40)
        ours.let(40)
        await asyncio.gather(one, two, three)


def test_a_map_whose_calls_go_through_a_client_is_metered_once() -> None:
    """Both have the limit: the pace is that of one of them, not of a half, and nothing waits for itself."""
    pytest.importorskip("httpx2")
    from headway.fake.process import fake_process

    # 20 at once, then ten a second: 40 requests take two seconds. Halved, they would take over five.
    limits = Limits(rpm=600, burst="2s")
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with fake_process() as fake, headway.httpx_client(sync=True, limits=limits) as client:

        def ask(_: int) -> int:
            answer = client.post(
                f"{fake.url}/v1/chat/completions", json=body, headers={"authorization": "Bearer any"}
            )
            return int(answer.status_code)

        began = time.monotonic()
        answers = headway.map(ask, range(40), limits=limits, lane="account", progress=False)
        took_s = time.monotonic() - began
    assert answers == [200] * 40
    assert took_s < 4.5
