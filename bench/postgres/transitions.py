"""Durable transitions of units per second, in batches: by the store, and by the bare driver.

A unit has three: assigned, running, succeeded. The last one comes with its attempt and its answer, as in a run. The bare driver makes the same
three with one UPDATE each, in a pipeline, and records nothing else.
"""

from __future__ import annotations

import time
from typing import Final

import psycopg

from headway.stores.records import Attempt, NewJob, NewUnit, StoredRoute, UnitChange
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

UNITS: Final = 20_000
BATCH: Final = 500
STATES: Final = 3
ANSWER: Final = b'{"choices":[{"message":{"role":"assistant","content":"' + b"x" * 200 + b'"}}]}'


def of_store(store: Store, units: int = UNITS) -> float:
    """Transitions per second of the store."""
    job = store.add_job(
        NewJob(f"bench-{time.monotonic_ns()}", "batch", "in.jsonl", "digest", "out.jsonl", 1.0)
    )
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    rows = [
        NewUnit(f"u{n}", route, "/v1/chat/completions", b'{"messages":[]}', chars=10) for n in range(units)
    ]
    store.add_units(job, 0, rows)
    store.seal(job, units, {"m": ("alpha", "openai", "m")}, "digest")
    worker, lane = store.begin(job, {}, "out.jsonl", 2.0), store.lane("key", "alpha/m").id
    began = time.perf_counter()
    for first in range(0, units, BATCH):
        indexes = range(first, min(first + BATCH, units))
        for batch in _batches(job, worker, lane, route, indexes):
            store.commit(batch)
    return STATES * units / (time.perf_counter() - began)


def _batches(job: int, worker: int, lane: int, route: int, indexes: range) -> list[WriteBatch]:
    intents, running, ends = (WriteBatch(job, worker) for _ in range(STATES))
    for index in indexes:
        intents.intend(index, lane)
        running.running[index] = 3.0
        change = UnitChange(
            "succeeded",
            tries=1,
            lane=lane,
            finished_utc=4.0,
            input_tokens=10,
            output_tokens=20,
            cost_usd=0.001,
        )
        ends.change(index, change)
        ends.attempts.append(
            Attempt(
                index,
                1,
                lane,
                "succeeded",
                started_utc=3.0,
                finished_utc=4.0,
                input_tokens=10,
                output_tokens=20,
            )
        )
        ends.answers.append((index, 200, "request", ANSWER))
    ends.use(route).attempts += len(indexes)
    return [intents, running, ends]


def of_driver(address: str, units: int = UNITS) -> float:
    """Transitions per second of psycopg alone, in a table of its own."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "DROP TABLE IF EXISTS bare; CREATE TABLE bare (uid bigint PRIMARY KEY, status text NOT NULL)"
        )
        connection.execute(
            "INSERT INTO bare SELECT n, 'pending' FROM generate_series(0, %s) AS n", (units - 1,)
        )
        began = time.perf_counter()
        for first in range(0, units, BATCH):
            for status in ("assigned", "running", "succeeded"):
                rows = [(status, uid) for uid in range(first, min(first + BATCH, units))]
                with connection.transaction(), connection.cursor() as cursor:
                    cursor.executemany("UPDATE bare SET status = %s WHERE uid = %s", rows)
        return STATES * units / (time.perf_counter() - began)
