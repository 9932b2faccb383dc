"""The result of a simulation as a table for people."""

from __future__ import annotations

from rich.table import Table

from headway.sim.runner import HEADWAY, LaneResult, Report


def table(report: Report) -> Table:
    """One row a policy and lane: makespan ÷ bound, 429s per 1000, use of the binding limit, stalls."""
    seeds = f"worst of {len(report.seeds)} seeds" if len(report.seeds) > 1 else f"seed {report.seeds[0]}"
    rows = Table(
        title=f"{report.scenario} ({seeds})",
        title_justify="left",
        caption=report.about,
        caption_justify="left",
    )
    rows.add_column("policy")
    rows.add_column("lane")
    for column in ("makespan", "bound", "÷ bound", "429s per 1000", "limit used", "stalls", "failed"):
        rows.add_column(column, justify="right")
    for policy, result in report.policies.items():
        style = "bold" if policy == HEADWAY else ""
        for lane, figures in result.lanes.items():
            rows.add_row(policy, lane, *_cells(figures), style=style)
            policy = ""
        rows.add_section()
    return rows


def _cells(figures: LaneResult) -> tuple[str, ...]:
    return (
        f"{figures.makespan_s:,.1f} s",
        f"{figures.bound_s:,.1f} s",
        f"{figures.ratio:.3f}",
        f"{figures.rejected_per_1000:.1f}",
        f"{figures.utilisation:.1%}",
        f"{figures.stalls} ({figures.stalled_s:.0f} s)" if figures.stalls else "0",
        f"{figures.failed:,}" + (f" + {figures.unfinished:,} unfinished" if figures.unfinished else ""),
    )
