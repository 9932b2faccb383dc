"""The section `scale`: a hundred engines on fifty lanes in virtual time, and what their claims cost on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.postgres_server import PostgresServer, binaries

from bench.scale import real_claims
from bench.scale.fleet_plan import KINDS, FleetPlan, Trouble
from bench.scale.fleet_result import FleetResult, LaneUse, run_fleet
from bench.section_parts import section_of
from headway.wiring.store_access import open_store_file

ENGINES: Final = (10, 100)
LANES: Final = 50
#: Issue 22: the share of the limits that is used while there is work, 429s per 1000, and what is sent beyond them at a partition.
USED_BAR: Final = 0.95
REFUSED_BAR: Final = 5.0
BEYOND_BAR: Final = 0.01


def plan_of(engines: int, lanes: int = LANES, work_s: float = 60.0) -> FleetPlan:
    """Of a hundred hosts five die, ten lose the database for less than a lease, five for longer, and five more die."""
    share = engines / 100.0
    troubles = (
        Trouble(15.0, max(1, round(5 * share))),
        Trouble(22.0, max(1, round(10 * share)), 8.0),
        Trouble(28.0, max(1, round(5 * share)), 20.0),
        Trouble(40.0, max(1, round(5 * share))),
    )
    return FleetPlan(engines=engines, lanes=lanes, work_s=work_s, troubles=troubles)


def misses(result: FleetResult) -> list[str]:
    """The missed bars."""
    missed, name = [], f"{result.engines} engines"
    if result.used < USED_BAR:
        missed.append(f"{name}: {result.used:.1%} of the limits used, the bar is {USED_BAR:.0%}")
    if result.refused_per_1000 > REFUSED_BAR:
        missed.append(f"{name}: {result.refused_per_1000:.1f} 429s per 1000, the bar is {REFUSED_BAR:.0f}")
    if result.beyond > BEYOND_BAR:
        missed.append(
            f"{name}: {result.beyond:.1%} beyond the limits at a partition, the bar is {BEYOND_BAR:.0%}"
        )
    if result.late_starts:
        missed.append(f"{name}: {result.late_starts} requests were sent after the end of a grant")
    if result.lost or result.doubled:
        missed.append(f"{name}: {result.lost} units lost, {result.doubled} doubled")
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield from section_of("scale", (_fleets, _claims), missed)


def _fleets(missed: list[str]) -> Iterator[str]:
    results = []
    for engines in ENGINES:
        print(f"scale: {engines} engines …", flush=True)
        results.append(run_fleet(plan_of(engines)))
        missed += misses(results[-1])
    yield ""
    yield f"### Engines that share {LANES} lanes through one database, in virtual time"
    yield ""
    yield "Each engine is the real scheduler and the real `LaneSharing`, with units on every lane; weights 1, 2, 1, 4 in turn. Lanes of 300 to 4,800 requests per minute or 25 to"
    yield "250 places, buckets of 1 or 10 s. The server is modelled: its costs are those of the last table, commits take turns and wait 4 ms for the disk, claims do neither."
    yield "Of 100 hosts 10 die, 10 lose the database for 8 s and 5 for 20 s; a job goes on elsewhere 12 s after the last sign of life of its engine."
    yield ""
    yield "| | " + " | ".join(f"{result.engines} engines" for result in results) + " | bar |"
    yield "|---|" + "---|" * (len(results) + 1)
    for what, bar, texts in _rows(results):
        yield f"| {what} | " + " | ".join(texts) + f" | {bar} |"
    yield ""
    yield (
        "| lanes | "
        + " | ".join(f"{result.engines}: used (worst) | 429s per 1000 (worst)" for result in results)
        + " |"
    )
    yield "|---|" + "---|---|" * len(results)
    for kind in KINDS:
        yield f"| {kind} | " + " | ".join(_of_kind(kind, result) for result in results) + " |"


def _rows(results: list[FleetResult]) -> Iterator[tuple[str, str, list[str]]]:
    """What is shown of each result, its bar, and the figures."""
    yield "units", "", [f"{result.units:,}" for result in results]
    yield "limits used while there is work", f"≥ {USED_BAR:.0%}", [f"{result.used:.1%}" for result in results]
    yield "429s per 1000", f"≤ {REFUSED_BAR:.0f}", [f"{result.refused_per_1000:.1f}" for result in results]
    yield (
        "beyond the limits at a partition",
        f"≤ {BEYOND_BAR:.0%}",
        [f"{result.beyond:.2%}" for result in results],
    )
    yield "of its part by weight, the least and the most of a job", "", [f"{low:.2f}, {high:.2f}" for low, high in (result.fairness for result in results)]  # fmt: skip
    yield "units lost, doubled", "0, 0", [f"{result.lost}, {result.doubled}" for result in results]
    yield "requests sent in a partition after the end of the grant", "0", [f"{result.late_starts}" for result in results]  # fmt: skip
    yield "jobs taken over, engines refused afterwards", "", [f"{result.takeovers}, {result.fenced}" for result in results]  # fmt: skip
    yield "requests sent again", "", [f"{result.sent_again}" for result in results]
    yield "reads of claims per second, rows", "", [f"{result.reads_per_s:,.0f}, {result.rows_read_per_s:,.0f}" for result in results]  # fmt: skip
    yield "claims written per second", "", [f"{result.claims_written_per_s:,.0f}" for result in results]
    yield "commits per second, each takes", "", [f"{result.commits_per_s:,.0f}, {result.commit_s * 1e3:,.0f} ms" for result in results]  # fmt: skip
    yield "cores of the server", "", [f"{result.server_cores:.2f}" for result in results]
    yield "of a core for an engine: scheduler, sharing", "", [f"{result.scheduler_cpu:.1%}, {result.sharing_cpu:.1%}" for result in results]  # fmt: skip


def _of_kind(kind: str, result: FleetResult) -> str:
    lanes = [lane for lane in result.lanes if lane.name.partition("-")[0] == kind]
    used = [lane.used for lane in lanes]
    refused = 1000.0 * sum(lane.refused for lane in lanes) / sum(lane.units for lane in lanes)
    worst = max(lanes, key=_refused).refused_per_1000
    return f"{sum(used) / len(used):.1%} ({min(used):.1%}) | {refused:.1f} ({worst:.1f})"


def _refused(lane: LaneUse) -> float:
    return lane.refused_per_1000


def _claims(missed: list[str]) -> Iterator[str]:
    folder = binaries()
    if folder is None:
        raise RuntimeError("no PostgreSQL on this machine: apt-get install postgresql")
    server = PostgresServer(folder)
    try:
        address = server.address("any").rpartition("&")[0]
        measured = []
        for engines in ENGINES:
            print(f"scale: claims of {engines} engines on a real server …", flush=True)
            with open_store_file(server.address()) as store:
                measured.append(real_claims.measure(store, address, engines, LANES))
    finally:
        server.remove()
    yield ""
    yield f"### Claims on a real PostgreSQL {folder.parts[-2]}"
    yield ""
    yield "Milliseconds of CPU, of the client and of the server: an engine's first look at the claims of all others, a later look when nothing has changed, and a"
    yield "write of all its own claims, apart from commits."
    yield ""
    yield f"| engines on {LANES} lanes | rows | first look: client | server | later look: client | server | claims | write: client | server |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for engines, cost in zip(ENGINES, measured, strict=True):
        figures = " | ".join(f"{ms:.1f}" for ms in (*cost.first[1:], *cost.later[1:]))
        write = " | ".join(f"{ms:.1f}" for ms in cost.write[1:])
        yield f"| {engines} | {cost.rows:,} | {figures} | {cost.claims} | {write} |"
    yield ""
