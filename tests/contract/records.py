"""Builders for records."""

from __future__ import annotations

from typing import Any

from headway.stores.records import Attempt, Job, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

MODELS = {"m": ("alpha", "openai", "m")}


def new_job(name: str = "translate", digest: str = "d1") -> NewJob:
    return NewJob(name, "batch", "in.jsonl", digest, "out.jsonl", 100.0)


def new_unit(custom_id: str, route: int, **more: Any) -> NewUnit:
    return NewUnit(custom_id, route, "/v1/chat/completions", f'{{"id":"{custom_id}"}}'.encode(), **more)


def ready_job(store: Store, n: int = 4, name: str = "translate") -> tuple[int, int]:
    """A sealed job with `n` units on one route: the numbers of both."""
    job = store.add_job(new_job(name))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [new_unit(f"u{n}", route, chars=10 * n, max_tokens=n) for n in range(n)])
    store.seal(job, n, MODELS, "d2")
    return job, route


def begun(store: Store, n: int = 4, name: str = "translate") -> tuple[int, int, int]:
    """A running job: its number, its worker's and its lane's."""
    job, _ = ready_job(store, n, name)
    return job, store.begin(job, {"concurrency": 4}, "out.jsonl", 200.0), store.lane("key-a", "alpha/m").id


def the_job(store: Store, name: str = "translate") -> Job:
    job = store.job(name)
    assert job is not None
    return job


def statuses(store: Store, job: int) -> list[str]:
    return [result.status for result in store.results(job, -1, 1_000)]


def intend(store: Store, job: int, lane: int, *indices: int) -> None:
    batch = WriteBatch(job)
    for index in indices:
        batch.intend(index, lane)
    store.commit(batch)


def note_running(store: Store, job: int, at_utc: float, *indices: int) -> None:
    batch = WriteBatch(job)
    batch.running.update(dict.fromkeys(indices, at_utc))
    store.commit(batch)


def end(store: Store, job: int, index: int, status: str, **more: Any) -> None:
    batch = WriteBatch(job)
    batch.change(index, UnitChange(status, finished_utc=300.0, **more))
    store.commit(batch)


def started(index: int, at_utc: float, lane: int, **more: Any) -> Attempt:
    return Attempt(index, 1, lane, "succeeded", started_utc=at_utc, finished_utc=at_utc + 1.0, **more)
