"""Samples of lanes and waits by reason: what a run records, what the next one continues, and that their number stays bounded."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from headway.core.model import LaneLimits, LaneSpec, Settings
from headway.core.reasons import Wait, WaitCode
from headway.core.scheduler import Scheduler
from headway.core.snapshot import Snapshot, snapshot
from headway.engine.flights import LaneHandle
from headway.engine.recording.lane_sampler import MOST_ROWS, LaneSampler, most_ticks
from headway.stores.records import JobEvent, NewJob
from headway.stores.samples import LaneSample, LaneWait, RunSample
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

DAY_S = 86_400


def job_of(store: Store, name: str = "a") -> int:
    job = store.add_job(NewJob(name, "batch", "in.jsonl", name, "", 0.0))
    store.seal(job, 0, {}, name)
    return job


def sampler_of(store: Store, job: int, lanes: int) -> tuple[LaneSampler, Snapshot]:
    """A sampler of idle lanes, and how they look."""
    scheduler = Scheduler([LaneSpec(f"k{n}", LaneLimits(rpm=60.0)) for n in range(lanes)], Settings(), 0.0)
    handles = {}
    for n in range(lanes):
        handles[f"k{n}"] = LaneHandle(f"k{n}", f"lane{n}", store.lane(f"k{n}", f"lane{n}"))
        handles[f"k{n}"].lane = scheduler.lanes[f"k{n}"]
    return LaneSampler(handles, store.samples.state(job), 0.0), snapshot(scheduler, 0.0, lambda key: 0)


def committed(store: Store, batch: WriteBatch) -> None:
    batch.look = True
    store.commit(batch)


def test_the_samples_of_many_days_stay_bounded_and_keep_their_ends(store: Store) -> None:
    job, lanes = job_of(store), 20
    sampler, look = sampler_of(store, job, lanes)
    with store.one_commit():
        for utc in range(1_000_000, 1_000_000 + 3 * DAY_S, 60):
            batch = WriteBatch(job)
            sampler.look(look, float(utc), batch)
            committed(store, batch)
    samples = store.samples.totals(job)
    rows = store.samples.of_lanes(job)
    assert most_ticks(lanes) / 3 < len(samples) <= most_ticks(lanes)
    assert len(rows) == lanes * len(samples) <= MOST_ROWS
    assert samples[0].at_utc < 1_000_000 + 1_200
    assert samples[-1].at_utc > 1_000_000 + 3 * DAY_S - 600
    gaps = [later.tick - earlier.tick for earlier, later in pairwise(samples)]
    assert max(gaps) <= 2 * min(gaps)


def test_counters_go_on_in_the_next_run_and_waits_add_up(store: Store) -> None:
    job = job_of(store)
    for run in range(2):
        sampler, look = sampler_of(store, job, 1)
        [view] = look.lanes
        seen = msgspec.structs.replace(
            view, started=7, refused=2, remaining=5, wait=Wait(WaitCode.PACE, 9.0, "rpm")
        )
        batch = WriteBatch(job)
        sampler.look(msgspec.structs.replace(look, at=1.5, lanes=(seen,)), 1000.0 + run, batch)
        committed(store, batch)
    assert [(tick, one.starts, one.refused) for _, tick, one in store.samples.of_lanes(job)] == [
        (1000, 7, 2),
        (1001, 14, 4),
    ]
    assert store.samples.waits(job) == [LaneWait("lane0", "pace", "rpm", 3.0)]
    assert [(one.lane, one.request_limit, one.input_limit) for _, _, one in store.samples.of_lanes(job)] == [
        (1, 60.0, None)
    ] * 2


def test_samples_alone_are_no_reason_to_commit(store: Store) -> None:
    batch = WriteBatch(job_of(store))
    sampler, look = sampler_of(store, batch.job, 1)
    sampler.look(look, 1000.0, batch)
    assert batch.samples
    assert not batch


def test_a_removed_job_leaves_no_samples(store: Store) -> None:
    job, other = job_of(store, "a"), job_of(store, "b")
    lane = store.lane("k", "alpha/m").id
    row = LaneSample(lane, 1, 1.0, 1.0, 0.0, 0, 1, None, 0, 0, None, None, None, None, None)
    for number in (job, other):
        batch = WriteBatch(number)
        batch.samples.append(RunSample(5, 1, 5.0, (row,)))
        batch.waits[lane, "hold", ""] = 2.0
        batch.events.append(JobEvent(1.0, None, "began", ""))
        store.commit(batch)
    store.forget(job)
    assert (store.samples.totals(job), store.samples.of_lanes(job), store.samples.waits(job)) == ([], [], [])
    assert [one.ended for one in store.samples.totals(other)] == [0]
    assert store.samples.waits(other) == [LaneWait("alpha/m", "hold", "", 2.0)]
