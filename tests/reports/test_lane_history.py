"""The history of a job as a dashboard draws it: rates, gaps between runs, holds, fewer columns than samples."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.test_engine import Adapter, ended, engine_of

from headway.core.model import LaneLimits
from headway.providers.adapter import Answer, Request
from headway.reports.lane_history import lane_history
from headway.stores.records import Job, JobEvent, NewJob
from headway.stores.samples import LaneSample, RunSample
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import BEGAN, ENDED, Store
from headway.stores.write_batch import WriteBatch

T = 1_000_000.0


def job_with(samples: dict[float, int], *events: JobEvent) -> tuple[Store, Job]:
    """A job with one lane: seconds after T → attempts so far."""
    store = Store(SqliteMemory())
    number = store.add_job(NewJob("job", "batch", "in.jsonl", "d", "", T))
    store.seal(number, 1_000, {}, "d")
    lane = store.lane("k", "alpha/m").id
    for after, starts in samples.items():
        batch = WriteBatch(number)
        batch.count("succeeded", starts - (store.job("job") or fail()).ended)
        row = LaneSample(
            lane,
            starts,
            10.0 * starts,
            8.0 * starts,
            2.0 * starts,
            starts // 10,
            4,
            8,
            3,
            1_000 - starts,
            120.0,
            None,
            900.0,
            None,
            0.5,
        )
        batch.samples.append(RunSample(int(T + after), 1, T + after, (row,)))
        store.commit(batch)
    batch = WriteBatch(number)
    batch.events += events
    store.commit(batch)
    return store, store.job("job") or fail()


def fail() -> Job:
    raise AssertionError("there is no job")


def at(after: float, what: str, lane: str | None = None, until: float | None = None) -> JobEvent:
    return JobEvent(T + after, lane, what, "why", None if until is None else T + until)


def test_rates_count_from_the_beginning_of_the_run() -> None:
    store, job = job_with({2.0: 4, 3.0: 6, 13.0: 26}, at(0.0, BEGAN))
    history = lane_history(store, job)
    curves = history.lanes["alpha/m"]
    assert history.t == [T + 2.0, T + 3.0, T + 13.0]
    assert history.done == [4, 6, 26]
    assert curves.starts_per_min == [120.0, 120.0, 120.0]
    assert curves.limit_per_min == [120.0, 120.0, 120.0]
    assert (curves.token_dimension, curves.tokens_per_min[-1], curves.token_limit_per_min[-1]) == (
        "input_tokens",
        960.0,
        900.0,
    )
    assert curves.refused == [0.0, 0.0, 2.0]
    assert (curves.in_flight[0], curves.window[0], curves.queued[0], curves.remaining[0]) == (4.0, 8, 3, 996)


def test_between_two_runs_there_are_no_values_and_no_attempt_is_counted_twice() -> None:
    store, job = job_with(
        {1.0: 2, 2.0: 4, 101.0: 6, 102.0: 8}, at(0.0, BEGAN), at(2.5, ENDED), at(100.0, BEGAN)
    )
    history = lane_history(store, job)
    assert history.t == [T + 1.0, T + 2.0, T + 100.0, T + 101.0, T + 102.0]
    assert history.lanes["alpha/m"].starts_per_min == [120.0, 120.0, None, 120.0, 120.0]
    assert history.done == [2, 4, None, 6, 8]


def test_many_samples_become_few_columns_with_the_same_totals() -> None:
    store, job = job_with({float(n): 2 * n for n in range(1, 400)}, at(0.0, BEGAN))
    history = lane_history(store, job, points=50)
    curves = history.lanes["alpha/m"]
    assert len(history.t) == 50
    assert history.t[-1] == T + 399.0
    assert all(rate == 120.0 for rate in curves.starts_per_min)
    assert sum(filter(None, curves.refused)) == 798 // 10


def test_only_what_is_new_can_be_asked_for() -> None:
    store, job = job_with({1.0: 2, 2.0: 4, 3.0: 10}, at(0.0, BEGAN), at(0.5, "held", "alpha/m", 0.8))
    history = lane_history(store, job, since_utc=T + 2.0)
    assert history.t == [T + 3.0]
    assert history.lanes["alpha/m"].starts_per_min == [360.0]
    assert history.holds == []
    assert lane_history(store, job, lane="beta/m").lanes == {}


def test_holds_have_their_beginning_end_and_reason() -> None:
    events = (
        at(0.0, BEGAN),
        at(1.0, "held", "alpha/m", 60.0),
        at(9.0, "released", "alpha/m"),
        at(20.0, "held", "beta/m", 25.0),
    )
    store, job = job_with({1.0: 2}, *events)
    holds = lane_history(store, job).holds
    assert [(one.lane, one.from_utc - T, one.until_utc - T, one.reason) for one in holds] == [
        ("alpha/m", 1.0, 9.0, "why"),
        ("beta/m", 20.0, 25.0, "why"),
    ]
    assert [one.lane for one in lane_history(store, job, lane="beta/m").holds] == ["beta/m"]


def test_a_job_without_samples_has_an_empty_history() -> None:
    store, job = job_with({})
    assert lane_history(store, job).t == []


async def test_a_run_records_its_rates_and_what_it_waited_for() -> None:
    async def slowly(request: Request) -> Answer:
        await asyncio.sleep(0.01)
        return Answer(status=200, body=b"{}")

    store = Store(SqliteMemory())
    engine, _ = engine_of(store, Adapter(slowly), 15, limits=LaneLimits(rpm=600.0, burst_s=0.0))
    await ended(engine)
    job = store.jobs()[0]
    history = lane_history(store, job)
    curves = history.lanes["alpha/gpt-x"]
    assert history.done[-1] == 15
    assert curves.limit_per_min[-1] == 600.0
    assert curves.remaining[-1] == 0
    assert store.samples.of_lanes(job.id)[-1][2].starts == 15
    waits = {(one.lane, one.reason, one.for_limit): one.seconds for one in store.samples.waits(job.id)}
    assert waits["alpha/gpt-x", "pace", "requests per minute"] == pytest.approx(1.0, abs=0.6)
