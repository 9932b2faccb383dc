"""The result of the simulation of a flow as a table for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from headway.flows.simulated.simulation import HEADWAY, FlowSimulationReport


def flow_table(report: FlowSimulationReport) -> Table:
    """One row for each policy, and the critical path below."""
    seeds = f"worst of {len(report.seeds)} seeds" if len(report.seeds) > 1 else f"seed {report.seeds[0]}"
    path = " → ".join(next(iter(report.policies.values())).path) if report.policies else ""
    rows = Table(
        title=f"{report.scenario} ({seeds}): {report.about}",
        title_justify="left",
        caption=f"÷ bound: 1.000 is the length of the critical path: {path}. 429s: per 1000 units.",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    rows.add_column("policy", no_wrap=True)
    for column in ("units", "seconds", "bound", "÷ bound", "429s", "unfinished"):
        rows.add_column(column, justify="right", no_wrap=True)
    for policy, result in report.policies.items():
        rows.add_row(
            policy,
            f"{sum(node.units for node in result.nodes.values()):,}",
            f"{result.makespan_s:,.1f}",
            f"{result.bound_s:,.1f}",
            f"{result.ratio:.3f}",
            f"{result.rejected_per_1000:,.1f}",
            f"{result.unfinished:,}",
            style="bold" if policy == HEADWAY else "",
        )
    return rows
