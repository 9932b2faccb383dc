"""Four files at a time under a limit, in virtual time: the scheduler beside a pool of four workers that each find the limit alone.

The pool gives a file up after five retries, as its design says. So it ends before the others where files fail: its makespan is that of less work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.lanes import Bar, misses, scenario
from headway.sim.runner import HEADWAY, LaneResult, SimulationReport, simulate

POOL: Final = "pool-4"
#: The last one says nothing of its limits: what is learned of so few requests costs refusals.
BARS: Final = (
    Bar("four-workers", "input", 1.06, 30.0),
    Bar("four-workers-closed", "input", 1.06, 40.0),
    Bar("four-workers-blind", "input", 1.20, 1000.0),
)


def simulated(bar: Bar, seeds: tuple[int, ...] | None = None) -> SimulationReport:
    """A scenario under the policies that it names."""
    return simulate(bar.scenario, scenario(bar.scenario, bar.order, seeds))


def all_misses(bar: Bar, report: SimulationReport) -> list[str]:
    """The missed bars: those of a scenario, and fewer refusals than the pool has."""
    ours, pools = (report.policies[policy].rejected_per_1000 for policy in (HEADWAY, POOL))
    behind = [f"{bar.scenario}: {ours:.0f} 429s per 1000, the pool has {pools:.0f}"] if ours >= pools else []
    return misses(bar, report) + behind


def lines(missed: list[str]) -> Iterator[str]:
    """The part of the section."""
    yield "### Four files at a time, all struck by one limit"
    yield ""
    yield "200 files of 3,000 tokens, answers of 1,500, in virtual time (`headway simulate scenarios/four-workers.yaml`), the worst of four seeds. `pool-4`: four workers that each"
    yield "find the limit alone, read no header, wait 5 s, doubled each time, up to 120 s, and give a file up after five retries. Its bound is that of the files that it has left."
    yield ""
    yield "| scenario | bar | policy | ÷ bound | 429s per 1000 | files that failed |"
    yield "|---|---|---|---|---|---|"
    for bar in BARS:
        print(f"reviews: {bar.scenario} …", flush=True)
        report = simulated(bar)
        missed += all_misses(bar, report)
        for policy, result in report.policies.items():
            yield _row(bar, policy, result.lanes["files"])
    yield ""


def _row(bar: Bar, policy: str, result: LaneResult) -> str:
    shown = f"≤ {bar.ratio} ({bar.rejected_per_1000:,.0f})" if policy == HEADWAY else ""
    return (
        f"| {bar.scenario} | {shown} | {policy} | {result.ratio:.3f} | {result.rejected_per_1000:,.0f} "
        f"| {result.failed} |"
    )
