"""A graph with one slow branch in virtual time, beside a scheduler by waves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.lanes import SCENARIOS
from headway.flows.simulated.scenario import load_flow_scenario
from headway.flows.simulated.simulation import FlowSimulationReport, simulate_flow

SCENARIO: Final = SCENARIOS / "flows" / "slow-branch.yaml"
BAR: Final = 1.03


def measure() -> FlowSimulationReport:
    """Both policies, all seeds."""
    return simulate_flow(SCENARIO.stem, load_flow_scenario(SCENARIO))


def misses(report: FlowSimulationReport) -> list[str]:
    """The missed bar."""
    ratio = report.policies["headway"].ratio
    if ratio <= BAR:
        return []
    return [f"a slow branch: {ratio:.3f} × its critical path, the bar is {BAR:g}"]


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print("flows: a slow branch …", flush=True)
    report = measure()
    missed += misses(report)
    yield f"### {report.about}"
    yield ""
    yield f"`headway simulate scenarios/flows/slow-branch.yaml`, the worst of {len(report.seeds)} seeds. Bar: {BAR:g} × the critical path"
    yield f"({' → '.join(report.policies['headway'].path)})."
    yield ""
    yield "| | seconds | critical path | ÷ |"
    yield "|---|---|---|---|"
    for name, result in report.policies.items():
        yield f"| {name} | {result.makespan_s:,.1f} | {result.bound_s:,.1f} | {result.ratio:.3f} |"
    yield ""
