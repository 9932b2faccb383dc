"""A whole `headway run` of a batch on each database, in turns: from the start of the process to its exit."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench.overhead import ACCOUNT, LONGEST_S, RUN, pace, prepare, sound, unlimited_fake
from bench.processes import HEADWAY, Watched
from headway.fake.process import FakeProcess

REQUESTS: Final = 10_000
IN_FLIGHT: Final = 100
TURNS: Final = 3


class BatchRun(msgspec.Struct, frozen=True):
    """Requests per second: of the whole process, and between the first and the last request."""

    whole_per_s: float
    pace_per_s: float
    cpu_us: float


def turns(
    folder: Path, addresses: list[str], requests: int = REQUESTS
) -> tuple[list[BatchRun], list[BatchRun]]:
    """Runs with SQLite, and with PostgreSQL at each of these addresses, in turns."""
    files: list[BatchRun] = []
    servers: list[BatchRun] = []
    with unlimited_fake() as fake:
        for turn, address in enumerate(addresses):
            files.append(_run(fake, folder / f"file-{turn}", requests, {}))
            servers.append(_run(fake, folder / f"server-{turn}", requests, {"HEADWAY_DB": address}))
    return files, servers


def _run(fake: FakeProcess, folder: Path, requests: int, environ: dict[str, str]) -> BatchRun:
    prepare(folder, fake.url, requests, IN_FLIGHT)
    fake.reset()
    keys = {"KEY_X": "some-key-that-is-not-short", **environ}
    began = time.monotonic()
    ended = sound(Watched([*HEADWAY, *RUN], folder, LONGEST_S, keys).wait(), 0)
    took_s = time.monotonic() - began
    stats = fake.stats()["accounts"][ACCOUNT]
    if stats["ok"] != requests or stats["repeats"]:
        raise RuntimeError(f"{stats['ok']} of {requests} answered, {stats['repeats']} repeated")
    return BatchRun(requests / took_s, pace(fake), ended.cpu_s / requests * 1e6)


def ratio(files: list[BatchRun], servers: list[BatchRun]) -> float:
    """Requests per second of whole runs with PostgreSQL ÷ with SQLite: the ratio of the medians."""
    return median(run.whole_per_s for run in servers) / median(run.whole_per_s for run in files)
