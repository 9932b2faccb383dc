"""A cold start in virtual time: a burst that waits for its connections meets no refusal, because it is charged when it is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway.core.model import Kind, LaneLimits, LaneSpec, Outcome
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.engine.store_reader import StoreReader
from headway.providers.adapter import Admitted, Answer, Request
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.stores.writer import Writer
from headway.testing import virtual_time
from headway.testing.virtual import VirtualLoop

from .test_engine import Watcher, job_of

#: What the provider allows: so many a second, out of a bucket of one second.
RATE = 50.0
OPENING_S = 0.5
UNITS = 200


@pytest.fixture(autouse=True)
def _time_stands_still_while_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time does not move while the store is read or written: on a slow machine, too, these take no time."""
    read, report = StoreReader.read, Writer._report

    def held() -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        future = loop.create_future()
        loop.hold_for(future)
        return future

    def held_read(self: StoreReader, query: Callable[[Store], Any], then: Callable[[Any], None]) -> None:
        future = held()

        def done(value: Any) -> None:
            future.set_result(None)
            then(value)

        read(self, query, done)

    waits: dict[int, asyncio.Future[None]] = {}

    def held_hand_over(self: Writer) -> None:
        if (
            asyncio._get_running_loop() is not None
        ):  # At the end another thread hands over, and the loop waits for it.
            waits[id(self.batch)] = held()
        hand_over(self)

    def released_report(self: Writer, batch: WriteBatch) -> None:
        if (future := waits.pop(id(batch), None)) is not None:
            future.get_loop().call_soon_threadsafe(future.set_result, None)
        report(self, batch)

    hand_over = Writer._hand_over
    monkeypatch.setattr(StoreReader, "read", held_read)
    monkeypatch.setattr(Writer, "_hand_over", held_hand_over)
    monkeypatch.setattr(Writer, "_report", released_report)


class ColdProvider:
    """A provider with a bucket. Its connections take `OPENING_S` to open, and are used again."""

    def __init__(self, *, reports: bool) -> None:
        self.reports = reports
        self.refused = 0
        self.ready_calls: list[int] = []
        self._idle = 0
        self._full_at = 0.0

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def keep_ready(self, n: int) -> None:
        self.ready_calls.append(n)

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        if self._idle:
            self._idle -= 1
        else:
            if self.reports:
                admitted.delayed()
            await asyncio.sleep(OPENING_S)
            if self.reports:
                admitted.written()
        accepted = self._arrive(asyncio.get_running_loop().time())
        await asyncio.sleep(0.3)
        self._idle += 1
        if accepted:
            return Answer(Outcome(), 200, "", b"{}")
        self.refused += 1
        return Answer(Outcome(Kind.RATE, message="too many requests"), 429)

    def _arrive(self, now: float) -> bool:
        full_at = max(self._full_at, now) + 1.0 / RATE
        if full_at > now + 1.0 + 1e-9:
            return False
        self._full_at = full_at
        return True


def cold_start(provider: ColdProvider) -> int:
    """Run a job against it; returns how many 429s it met."""
    store = Store(SqliteMemory())
    job = job_of(store, UNITS)
    [route] = store.routes(job.id)
    limits = LaneLimits(rpm=60.0 * RATE, tpm=0.0, burst_s=1.0)
    plan = run_spec.RunSpec(
        job=job,
        lanes={"lane": run_spec.RunLane(LaneSpec("lane", limits), "alpha/gpt-x", provider)},
        routes={route.id: run_spec.UnitRoute("lane", None)},
        settings={},
        timeout_s=60.0,
    )
    with virtual_time() as clock:
        result = clock.run(Engine(lambda: store, plan, [Watcher()]).run())
    assert result.state == "complete"
    return provider.refused


def test_a_burst_that_waits_for_its_connections_is_not_refused() -> None:
    assert cold_start(ColdProvider(reports=True)) == 0


def test_without_the_reports_it_would_be() -> None:
    assert cold_start(ColdProvider(reports=False)) > 5


def test_the_adapter_is_told_how_many_connections_its_lane_is_about_to_use() -> None:
    provider = ColdProvider(reports=True)
    cold_start(provider)
    assert provider.ready_calls[0] > 0
    assert max(provider.ready_calls) <= RATE
    assert provider.ready_calls[-1] == 0
