"""Requests and intents are prepared ahead, many at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.engine.test_engine import Adapter, ended, engine_of, good
from tests.unit.drive import one_lane

from headway.core.model import LaneLimits
from headway.engine.flights import LaneHandle
from headway.engine.intents import MOST_AHEAD, Intents, due_soon
from headway.stores.records import StoredLane
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


class Counted(Store):
    """A store that records how many requests each read wants."""

    def __init__(self) -> None:
        super().__init__(SqliteMemory())
        self.reads: list[int] = []

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        self.reads.append(len(indexes))
        return super().requests(job, indexes)


async def test_the_requests_of_units_that_start_together_are_read_together() -> None:
    store, adapter = Counted(), Adapter(good)
    engine, _ = engine_of(store, adapter, 40, limits=LaneLimits(max_concurrency=40))
    assert (await ended(engine)).state == "complete"
    # One read if the machine is idle; a busy one may be interrupted between the commits of intents.
    assert (sum(store.reads), len(store.reads) <= 8) == (40, True)
    assert len(adapter.sent) == 40


async def test_a_fast_job_reads_many_requests_at_once() -> None:
    store, adapter = Counted(), Adapter(good)
    engine, _ = engine_of(store, adapter, 3_000, limits=LaneLimits(max_concurrency=20))
    assert (await ended(engine)).state == "complete"
    assert sum(store.reads) == 3_000
    assert len(store.reads) < 300


def test_a_lane_whose_units_in_memory_are_all_recorded_looks_no_further() -> None:
    writer: Any = SimpleNamespace(batch=WriteBatch(1))
    intents = Intents(writer, 1, MOST_AHEAD)
    handle = LaneHandle("lane", "lane", StoredLane(1, "lane", "lane", None, None, None))
    handle.lane = lane = one_lane(LaneLimits())
    lane.traffic.first_start_at, lane.succeeded, lane.wake_at = 0.0, 100, 0.0
    asked: list[int] = []

    def next_units(n: int) -> range:
        asked.append(n)
        return range(20)

    assert due_soon(lane, 0.5) > 40
    assert intents.look_ahead(handle, next_units, 20, 0.5) == list(range(20))
    assert intents.look_ahead(handle, next_units, 20, 0.5) == []
    assert asked == [20]
    assert writer.batch.intents == dict.fromkeys(range(20), handle.id)
