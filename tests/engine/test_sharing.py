"""Two jobs of one store share one lane at the same time; the last one gets all of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from headway.core.model import Kind, LaneLimits, LaneSpec, Outcome
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.providers.adapter import Admitted, Answer, Request
from headway.stores.claims import COUNTS_S
from headway.stores.records import JobEvent, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .test_engine import PATIENCE_S, Watcher, until


class Gate:
    """An adapter whose answers wait until the test releases them."""

    def __init__(self) -> None:
        self.out = 0
        self._let = asyncio.Semaphore(0)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.out += 1
        try:
            await self._let.acquire()
        finally:
            self.out -= 1
        return Answer(Outcome(), 200, "r", b"{}")

    def let(self, n: int) -> None:
        for _ in range(n):
            self._let.release()


class Shared(Watcher):
    """Remembers the events about other jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def noted(self, event: JobEvent) -> None:
        if event.what == "shared":
            self.told.append(event.text)


EIGHT = LaneLimits(max_concurrency=8)


def engine_of(
    path: Path, name: str, weight: float, gate: Gate, units: int = 40, limits: LaneLimits = EIGHT
) -> tuple[Engine, Shared]:
    with Store(SqliteFile(path)) as store:
        number = store.add_job(NewJob(name, "batch", "in.jsonl", name, "", 0.0))
        route = store.add_route(number, StoredRoute("alpha", "openai", "gpt-x"))
        store.add_units(number, 0, [NewUnit(f"u{n}", route, "/v1", b"{}", chars=10) for n in range(units)])
        store.seal(number, units, {"": ("alpha", "openai", "gpt-x")}, name)
        job = store.job(name)
    assert job is not None
    plan = run_spec.RunSpec(
        job=job,
        lanes={"lane": run_spec.RunLane(LaneSpec("lane", limits), "alpha/gpt-x", gate)},
        routes={route: run_spec.UnitRoute("lane", None)},
        settings={},
        timeout_s=60.0,
        weight=weight,
    )
    watcher = Shared()
    return Engine(lambda: Store(SqliteFile(path)), plan, [watcher]), watcher


async def test_jobs_share_by_weight_and_the_last_one_gets_all(tmp_path: Path) -> None:
    path = tmp_path / "db"
    ours, theirs = Gate(), Gate()
    first, told_first = engine_of(path, "first", 3.0, ours)
    second, told_second = engine_of(path, "second", 1.0, theirs, units=5)
    async with asyncio.timeout(PATIENCE_S):
        one = asyncio.create_task(first.run())
        await until(lambda: ours.out == 8)  # Alone it has them all.
        two = asyncio.create_task(second.run())
        await until(lambda: bool(told_first.told))
        assert theirs.out == 0  # A place that is not free is not taken.
        ours.let(10)
        await until(lambda: (ours.out, theirs.out) == (6, 2))
        theirs.let(5)
        await two
        await until(lambda: ours.out == 8)
        ours.let(30)
        await one
    assert told_first.told == [
        "job second uses this lane, too: this job has 75% of its limits",
        "no other job uses this lane any more: this job has all of its limits again",
    ]
    assert told_second.told[0] == "job first uses this lane, too: this job has 25% of its limits"


@pytest.mark.parametrize("age_s", [0.0, 2 * COUNTS_S])
async def test_the_share_of_a_killed_job_goes_to_the_others(tmp_path: Path, age_s: float) -> None:
    path, gate = tmp_path / "db", Gate()
    engine, _ = engine_of(path, "ours", 1.0, gate)
    engine_of(path, "theirs", 1.0, Gate())
    with Store(SqliteFile(path)) as store:
        theirs = store.job("theirs")
        assert theirs is not None
        batch = WriteBatch(theirs.id, store.begin(theirs.id, {}, "", time.time()))
        claim = b'{"job":2,"weight":1.0,"hungry":true,"use":0.5,"pace":null}'
        batch.claims[store.lane("lane", "alpha/gpt-x").id] = claim
        batch.seen_utc = time.time() - age_s
        store.commit(batch)
    async with asyncio.timeout(PATIENCE_S + 2 * COUNTS_S):
        run = asyncio.create_task(engine.run())
        await until(lambda: gate.out == 4 if age_s == 0.0 else gate.out == 8)
        await until(lambda: gate.out == 8, PATIENCE_S + 2 * COUNTS_S)  # Its claim is no longer renewed.
        gate.let(40)
        await run


class Crowd:
    """An account that refuses whatever is beyond eight in flight, and does not say why."""

    def __init__(self) -> None:
        self.out = self.most = self.refused = 0


class CrowdedAdapter(Gate):
    """One job's way to that account."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        crowd = self._crowd
        if crowd.out >= 8:
            crowd.refused += 1
            return Answer(Outcome(Kind.RATE), 429, "r", b"{}")
        crowd.out += 1
        crowd.most = max(crowd.most, crowd.out)
        try:
            await asyncio.sleep(0.05)
        finally:
            crowd.out -= 1
        return Answer(Outcome(), 200, "r", b"{}")


async def test_two_jobs_find_a_cap_in_flight_together(tmp_path: Path) -> None:
    """Nothing is configured or reported. One job searches, and the other has its places of what is found."""
    path, crowd = tmp_path / "db", Crowd()
    engines = [
        engine_of(path, name, 1.0, CrowdedAdapter(crowd), units=300, limits=LaneLimits())[0]
        for name in ("first", "second")
    ]
    async with asyncio.timeout(2 * PATIENCE_S):
        await asyncio.gather(*(engine.run() for engine in engines))
    assert crowd.most == 8
    assert crowd.refused <= 48, "8 % of 600, loose: a second job that searches alone meets far more"
    with Store(SqliteFile(path)) as store:
        assert [store.job(name).good for name in ("first", "second")] == [300, 300]  # type: ignore[union-attr]
