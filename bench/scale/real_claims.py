"""What claims on lanes cost on a real PostgreSQL: an engine's first look at them, a later one, and its write of its own.

The simulated server is priced by this (`ServerCosts`). CPU of the server is that of the process that serves this connection.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import psycopg

from headway.core.lanes.job_share import Claim
from headway.engine.recorder import write_claims
from headway.stores.records import NewJob
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

TURNS: Final = 20
_TICK_S: Final = 1.0 / os.sysconf("SC_CLK_TCK")


class ClaimCosts(msgspec.Struct, frozen=True):
    """Milliseconds in all, of the client's CPU and of the server's: for a look that reads all claims of others, for a later one when nothing
    has changed, and for one write of all claims of a job.
    """

    rows: int
    first: tuple[float, float, float]
    later: tuple[float, float, float]
    claims: int
    write: tuple[float, float, float]


def measure(store: Store, address: str, jobs: int, lanes: int) -> ClaimCosts:
    """With so many jobs on so many lanes, each of which has a claim."""
    numbers = [store.lane(f"key-{place}", f"alpha/{place}").id for place in range(lanes)]
    batches = [_batch(store, place, numbers) for place in range(jobs)]
    for batch in batches:
        write_claims(batch, store)
    server, first = _backend(address), batches[0]
    news = store.claims.news(first.job, 0, time.time())
    looks = _timed(lambda: store.claims.news(first.job, 0, time.time()), server)
    later = _timed(lambda: store.claims.news(first.job, news.known, time.time()), server)
    writes = _timed(lambda: write_claims(_again(first), store), server)
    return ClaimCosts(len(news.changed), looks, later, len(numbers), writes)


def _batch(store: Store, place: int, lanes: list[int]) -> WriteBatch:
    job = store.add_job(NewJob(f"scale-{place}", "batch", "in.jsonl", f"d{place}", "out.jsonl", 1.0))
    batch = WriteBatch(job)
    claim = msgspec.json.encode(Claim(job, 1.0, hungry=True, use=0.0123456789))
    batch.claims.update(dict.fromkeys(lanes, claim))
    batch.seen_utc = time.time()
    return batch


def _again(batch: WriteBatch) -> WriteBatch:
    renewed = WriteBatch(batch.job)
    renewed.claims.update(batch.claims)
    renewed.seen_utc = time.time()
    return renewed


def _timed(act: object, server: int) -> tuple[float, float, float]:
    """Milliseconds of an act: in all (the median), CPU of this process, CPU of the server's process."""
    assert callable(act)
    took, client, before = [], time.process_time(), _cpu_s(server)
    for _ in range(TURNS):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    used = (time.process_time() - client) / TURNS
    return median(took) * 1e3, used * 1e3, (_cpu_s(server) - before) / TURNS * 1e3


def _backend(address: str) -> int:
    """The process of the server that serves the store: the one other connection."""
    with psycopg.connect(address, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return int(rows[0][0])


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S
