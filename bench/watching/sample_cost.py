"""What it costs a run to keep samples of its lanes: the CPU of one second of looking, sampling and committing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from headway.core.model import LaneLimits, LaneSpec
from headway.core.scheduler import Scheduler
from headway.core.snapshot import snapshot
from headway.engine.flights import LaneHandle
from headway.engine.recording.lane_sampler import LaneSampler
from headway.stores.records import NewJob
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

#: Lanes of the measured runs, and seconds of each. They are more than the most samples of a lane, so that thinning is measured, too.
LANES: Final = (1, 20)
SECONDS: Final = 1_500
TURNS: Final = 3
#: A run shows itself twice a second, and keeps one sample of it.
LOOKS: Final = 2
#: The share of a core.
BAR: Final = 0.01
_BEGAN_UTC: Final = 1_790_000_000.0


class SampleCost(NamedTuple):
    """The CPU, in seconds, that a second of a run with so many lanes spends on samples."""

    lanes: int
    cpu_s: float


def measure() -> list[SampleCost]:
    """Batches with samples against the same batches without."""
    costs = []
    for lanes in LANES:
        turns = [_run(lanes, sampled=True) - _run(lanes, sampled=False) for _ in range(TURNS)]
        costs.append(SampleCost(lanes, max(0.0, median(turns)) / SECONDS))
    return costs


def _run(lanes: int, *, sampled: bool) -> float:
    """CPU seconds of a run in which nothing happens but a commit a second, with which samples go."""
    specs = [LaneSpec(f"k{n}", LaneLimits(rpm=600.0, tpm=100_000.0)) for n in range(lanes)]
    scheduler = Scheduler(specs)
    seen = snapshot(scheduler, 0.0, lambda key: 0)
    with TemporaryDirectory() as name, Store(SqliteFile(Path(name) / "headway.db")) as store:
        job = store.add_job(NewJob("job", "batch", "in.jsonl", "digest", "", _BEGAN_UTC))
        handles = {}
        for spec in specs:
            handles[spec.key] = LaneHandle(spec.key, spec.key, store.lane(spec.key, spec.key))
            handles[spec.key].lane = scheduler.lanes[spec.key]
        sampler = LaneSampler(handles, store.samples.state(job), 0.0)
        began = time.process_time()
        for second in range(SECONDS):
            batch = WriteBatch(job)
            if sampled:
                for look in range(LOOKS):
                    sampler.look(seen, _BEGAN_UTC + second + look / LOOKS, batch)
            batch.state = ("running", None)
            store.commit(batch)
        return time.process_time() - began


def misses(costs: list[SampleCost]) -> list[str]:
    """The missed bars."""
    return [
        f"watching: samples of {one.lanes} lanes take {one.cpu_s:.1%} of a core, the bar is {BAR:.0%}"
        for one in costs
        if one.cpu_s > BAR
    ]


def lines(costs: list[SampleCost]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield "### What samples of lanes cost a run"
    yield ""
    yield f"One sample a second, committed with what is committed anyway; a run of {SECONDS:,} s. The bar: ≤ {BAR:.0%} of a core."
    yield ""
    yield "| lanes | CPU for a second | of a core |"
    yield "|---|---|---|"
    for one in costs:
        yield f"| {one.lanes} | {one.cpu_s * 1e3:.2f} ms | {one.cpu_s:.2%} |"
    yield ""
