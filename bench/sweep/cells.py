"""The cells of the sweep, and what came of each.

Every cell is one job on one account that limits requests: so many units, a rate, a depth of the bucket, a latency, and how the
account tells its limit: in headers, in the text of a 429, or not at all. The scenarios with bars (`bench.short`, `bench.lanes`)
were chosen by people; the sweep looks at all the others.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, product
from typing import Any, Final

import msgspec

from headway.sim.runner import HEADWAY, ORACLE, POLICIES, STUCK, bounds
from headway.sim.scenario import LaneWork, Latency, Lognormal, ProviderSpec, Scenario, SimLane
from headway.sim.workload import draw
from headway.sim.world import LaneLog, World

SIZES: Final = (20, 100, 400, 1_000, 4_000, 20_000)
DEPTHS_S: Final = (1, 3, 10, 30, 60)
LATENCIES_S: Final = (0.3, 2.0, 10.0)
RATES_RPM: Final = (20, 200, 2_000, 20_000)
#: How an account tells its limit: keys of `ProviderSpec`.
TELLS: Final[dict[str, dict[str, Any]]] = {
    "headers": {"headers": "openai"},
    "text": {"retry_after": "text"},
    "blind": {"retry_after": "none", "says_which": False},
}
#: The bound of a job that fits into its bucket is one answer. A run may take so much longer than 30 bounds before it is stopped.
PATIENCE_S: Final = 600.0


class Cell(msgspec.Struct, frozen=True):
    """One job on one account."""

    units: int
    depth_s: float
    latency_s: float
    tells: str
    rpm: float

    @property
    def name(self) -> str:
        """The cell in words."""
        return (
            f"{self.units:,} units, {self.rpm:,.0f} a minute, {self.depth_s:g} s deep, "
            f"answers after {self.latency_s:g} s, {self.tells}"
        )

    @property
    def fits(self) -> bool:
        """Whether the full bucket holds the whole job."""
        return self.units <= self.rpm / 60.0 * self.depth_s


class Measured(msgspec.Struct, frozen=True):
    """A cell: how long it took, and the oracle; its 429s; when half of it was admitted; and the longest time without an admission."""

    cell: Cell
    took_s: float
    oracle_s: float
    refused: int = 0
    unfinished: int = 0
    half_s: float = 0.0
    gap_s: float = 0.0

    @property
    def ratio(self) -> float:
        """Makespan ÷ that of the oracle."""
        return self.took_s / self.oracle_s

    @property
    def refused_per_1000(self) -> float:
        """429s per 1000 units."""
        return 1000.0 * self.refused / self.cell.units


def cells(
    sizes: Sequence[int] = SIZES,
    depths: Sequence[float] = DEPTHS_S,
    latencies: Sequence[float] = LATENCIES_S,
    rates: Sequence[float] = RATES_RPM,
) -> list[Cell]:
    """Every combination, the longest first."""
    found = [
        Cell(units, depth_s, latency_s, tells, rpm)
        for units, depth_s, latency_s, tells, rpm in product(sizes, depths, latencies, TELLS, rates)
    ]
    return sorted(found, key=lambda cell: -cell.units)


def measure(cell: Cell, seed: int = 1) -> Measured:
    """One cell under the scheduler and under the oracle, on the same work."""
    scenario = _scenario(cell)
    world, log = _run(scenario, HEADWAY, seed)
    _, best = _run(scenario, ORACLE, seed)
    unfinished = cell.units - len(log.finished)
    admitted = sorted(at for at, _ in log.admitted)
    return Measured(
        cell,
        took_s=world.ended_at if unfinished else max(log.finished),
        oracle_s=max(best.finished),
        refused=len(log.refused),
        unfinished=unfinished,
        half_s=admitted[len(admitted) // 2],
        gap_s=max((after - before for before, after in pairwise(admitted)), default=0.0),
    )


def _run(scenario: Scenario, policy: str, seed: int) -> tuple[World, LaneLog]:
    workload = draw(scenario, seed)
    world = World(scenario, workload, seed)
    longest_s = STUCK * max(bounds(scenario, workload).values()) + PATIENCE_S
    world.run(POLICIES[policy](scenario, workload), most_s=longest_s)
    return world, world.logs["lane"]


def _scenario(cell: Cell) -> Scenario:
    work = LaneWork(
        units=cell.units, input_tokens=Lognormal(200), output_tokens=Lognormal(50), max_tokens=100
    )
    latency = Latency(first_token_s=cell.latency_s, per_token_s=0.0, network_s=0.02, jitter_s=0.02)
    provider = ProviderSpec(rpm=cell.rpm, depth_s=cell.depth_s, latency=latency, **TELLS[cell.tells])
    return Scenario(about=cell.name, lanes={"lane": SimLane(work=work, provider=provider)}, seeds=(1,))


def measure_all(chosen: Sequence[Cell]) -> list[Measured]:
    """Every cell, on all cores."""
    with ProcessPoolExecutor() as pool:
        results = []
        for number, result in enumerate(pool.map(measure, chosen, chunksize=1), start=1):
            results.append(result)
            if number % 100 == 0:
                print(f"sweep: {number} of {len(chosen)} …", file=sys.stderr, flush=True)
    return results


def of_kind(results: Iterable[Measured], tells: str, units: int | None = None) -> list[Measured]:
    """The results of one way to tell a limit, perhaps of one size."""
    return [one for one in results if one.cell.tells == tells and units in (None, one.cell.units)]
