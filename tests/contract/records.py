"""Builders for records, and one way to look at everything that a store shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headway.stores.base import Store
from headway.stores.batch import Batch
from headway.stores.records import Attempt, Change, Job, NewJob, NewUnit, Route

MODELS = {"m": ("alpha", "openai", "m")}


def new_job(name: str = "translate", digest: str = "d1") -> NewJob:
    return NewJob(name, "batch", "in.jsonl", digest, "out.jsonl", 100.0)


def new_unit(custom_id: str, route: int, **more: Any) -> NewUnit:
    return NewUnit(custom_id, route, "/v1/chat/completions", f'{{"id":"{custom_id}"}}'.encode(), **more)


def ready_job(store: Store, n: int = 4, name: str = "translate") -> tuple[int, int]:
    """A sealed job with `n` units on one route: the numbers of both."""
    job = store.add_job(new_job(name))
    route = store.add_route(job, Route("alpha", "openai", "m"))
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
    batch = Batch(job)
    for index in indices:
        batch.intend(index, lane)
    store.commit(batch)


def note_running(store: Store, job: int, at_utc: float, *indices: int) -> None:
    batch = Batch(job)
    batch.running.update(dict.fromkeys(indices, at_utc))
    store.commit(batch)


def end(store: Store, job: int, index: int, status: str, **more: Any) -> None:
    batch = Batch(job)
    batch.change(index, Change(status, finished_utc=300.0, **more))
    store.commit(batch)


def started(index: int, at_utc: float, lane: int, **more: Any) -> Attempt:
    return Attempt(index, 1, lane, "succeeded", started_utc=at_utc, finished_utc=at_utc + 1.0, **more)


def view(store: Store, names: Iterable[str]) -> Any:
    """Everything that a store shows of its jobs, with each number that is the store's own replaced by a place."""
    lanes = {lane.id: lane.name for lane in store.lanes()}
    return {
        "jobs": [job.name for job in store.jobs()],
        "lanes": [msgspec.structs.replace(lane, id=0) for lane in store.lanes()],
        "starts": sorted((lanes[each.lane], each.at_utc, each.costs) for each in store.starts_since(0.0)),
        **{name: _job_view(store, the_job(store, name), lanes) for name in names},
    }


def _job_view(store: Store, job: Job, lanes: dict[int, str]) -> Any:
    routes = {route.id: place for place, route in enumerate(store.routes(job.id))}
    workers = {worker["id"]: place for place, worker in enumerate(store.workers(job.id))}
    count = len(store.results(job.id, -1, 1_000))
    return {
        "job": msgspec.structs.replace(job, id=0),
        "routes": [msgspec.structs.replace(route, id=0) for route in store.routes(job.id)],
        "results": store.results(job.id, -1, 1_000),
        "requests": [store.request(job.id, index) for index in range(count)],
        "attempts": [
            [
                msgspec.structs.replace(told, worker=None if told.worker is None else workers[told.worker])
                for told in store.attempts(job.id, index)
            ]
            for index in range(count)
        ],
        "first unended": store.first_unended(job.id),
        "failures": store.failures(job.id),
        "per lane": store.per_lane(job.id),
        "failed": store.failed(job.id),
        "use": [
            msgspec.structs.replace(use, lane=None if use.lane is None else list(lanes).index(use.lane))
            for use in store.use_by_route(job.id).values()
        ],
        "events": [msgspec.structs.replace(event, id=0) for event in store.events(job.id)],
        "workers": [{**worker, "id": 0} for worker in store.workers(job.id)],
        "unknown": [
            msgspec.structs.replace(
                each,
                lane=None if each.lane is None else list(lanes).index(each.lane),
                route=routes[each.route],
            )
            for each in store.unknown(job.id)
        ],
        "pending": {routes[route]: n for route, n in store.pending(job.id).items()},
        "waiting": [
            [
                msgspec.structs.replace(each, route=routes[each.route])
                for each in store.next_of_route(job.id, route.id, priority, -1, 1_000)
            ]
            for route in store.routes(job.id)
            for priority in route.priorities
        ],
        "serial": [
            [
                msgspec.structs.replace(each, route=routes[each.route])
                for each in store.next_serial(job.id, -1, 1_000, every=every)
            ]
            for every in (False, True)
        ],
        "claims": [(each.name, each.claim) for each in store.claims(job.id + 1, 0.0, float("inf"))],
        "asked": [msgspec.structs.replace(asked, id=0) for asked in store.asked(job.id)],
    }
