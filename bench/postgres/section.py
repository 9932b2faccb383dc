"""The section `postgres`: durable transitions per second, and whole batch runs, beside SQLite and the bare driver. Needs Debian's
PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from tests.postgres_server import PostgresServer, binaries

from bench.postgres import batch_run
from bench.postgres.transitions import BATCH, STATES, UNITS, of_driver, of_store
from headway.wiring.store_access import open_store_file

TURNS: Final = 3
TRANSITIONS_BAR: Final = 20_000.0
RUN_BAR: Final = 0.7


def section(missed: list[str]) -> Iterator[str]:
    """Measure on one server, with fsync."""
    folder = binaries()
    if folder is None:
        raise RuntimeError("no PostgreSQL on this machine: apt-get install postgresql")
    server = PostgresServer(folder)
    try:
        yield "## PostgreSQL"
        yield ""
        yield f"A server of its own on this machine (version {folder.parts[-2]}, fsync and full_page_writes on, over its socket)."
        yield ""
        yield from _transitions(server, missed)
        yield from _runs(server, missed)
    finally:
        server.remove()


def _transitions(server: PostgresServer, missed: list[str]) -> Iterator[str]:
    figures: dict[str, list[float]] = {"SQLite": [], "PostgreSQL": [], "psycopg alone": []}
    for _ in range(TURNS):
        with TemporaryDirectory() as name, open_store_file(str(Path(name) / "h.db")) as store:
            figures["SQLite"].append(of_store(store))
        with open_store_file(server.address()) as store:
            figures["PostgreSQL"].append(of_store(store))
        figures["psycopg alone"].append(of_driver(server.address().rpartition("&")[0]))
    yield f"Durable transitions per second, in transactions of {BATCH} ({UNITS:,} units, {STATES} transitions each; {TURNS} turns). The store also"
    yield "records each attempt, its answer and all counters; psycopg alone makes one UPDATE for each transition, in a pipeline."
    yield ""
    yield "| | median | all |"
    yield "|---|---|---|"
    for name, values in figures.items():
        yield f"| {name} | {median(values):,.0f} | {', '.join(f'{value:,.0f}' for value in values)} |"
    yield ""
    reached = median(figures["PostgreSQL"])
    if reached < TRANSITIONS_BAR:
        missed.append(
            f"postgres: {reached:,.0f} durable transitions per second, the bar is {TRANSITIONS_BAR:,.0f}"
        )


def _runs(server: PostgresServer, missed: list[str]) -> Iterator[str]:
    with TemporaryDirectory() as name:
        files, servers = batch_run.turns(Path(name), [server.address() for _ in range(batch_run.TURNS)])
    reached = batch_run.ratio(files, servers)
    yield f"A whole `headway run` of {batch_run.REQUESTS:,} requests, {batch_run.IN_FLIGHT} in flight, from an empty folder to its exit ({batch_run.TURNS} turns,"
    yield "medians). CPU is that of Headway; the server has its own."
    yield ""
    yield "| | requests per second, whole run | between first and last | CPU per request |"
    yield "|---|---|---|---|"
    for name, runs in (("SQLite", files), ("PostgreSQL", servers)):
        whole, pace, cpu = (
            median(values)
            for values in zip(*((r.whole_per_s, r.pace_per_s, r.cpu_us) for r in runs), strict=True)
        )
        yield f"| {name} | {whole:,.0f} | {pace:,.0f} | {cpu:,.0f} µs |"
    yield ""
    yield f"PostgreSQL ÷ SQLite: {reached:.2f} (bar: ≥ {RUN_BAR})."
    if reached < RUN_BAR:
        missed.append(
            f"postgres: a batch run at {reached:.2f} of SQLite's requests per second, the bar is {RUN_BAR}"
        )
