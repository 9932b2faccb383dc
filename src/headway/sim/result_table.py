"""The result of a simulation as a table for the terminal."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.table import Table

from headway.sim.runner import HEADWAY, LaneResult, SimulationReport

#: Below this width the less important columns are left out.
WIDE: Final = 100

LEGEND: Final = (
    "÷ bound: 1.000 is the shortest time that the limits allow. 429s: per 1000 units. "
    "Used: share of what the binding limit granted."
)


def result_table(report: SimulationReport, width: int = WIDE) -> Table:
    """One row for each policy and lane: makespan ÷ bound, 429s per 1000 units, the binding limit and its used share."""
    seeds = f"worst of {len(report.seeds)} seeds" if len(report.seeds) > 1 else f"seed {report.seeds[0]}"
    rows = Table(
        title=f"{report.scenario} ({seeds}): {report.about}",
        title_justify="left",
        caption=LEGEND,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    rows.add_column("policy", no_wrap=True)
    rows.add_column("lane", no_wrap=True)
    cells = _columns(width)
    for column in cells:
        rows.add_column(column, justify="left" if column == "binds" else "right", no_wrap=True)
    for policy, result in report.policies.items():
        style = "bold" if policy == HEADWAY else ""
        for lane, figures in result.lanes.items():
            shown = _cells(figures)
            rows.add_row(policy, lane, *(shown[column] for column in cells), style=style)
            policy = ""
        rows.add_section()
    return rows


def _columns(width: int) -> tuple[str, ...]:
    spare = ("seconds", "bound") if width >= WIDE else ("seconds",)
    more = ("used", "stalls", "failed", "binds") if width >= WIDE else ("used", "failed", "binds")
    return (*spare, "÷ bound", "429s", *more)


def _cells(figures: LaneResult) -> dict[str, str]:
    return {
        "seconds": f"{figures.makespan_s:,.1f}",
        "bound": f"{figures.bound_s:,.1f}",
        "÷ bound": f"{figures.ratio:.3f}" if figures.bound_s else "—",
        "429s": f"{figures.rejected_per_1000:,.1f}",
        "used": f"{figures.utilisation:.1%}",
        "stalls": f"{figures.stalls} ({figures.stalled_s:.0f} s)" if figures.stalls else "0",
        "failed": f"{figures.failed:,}"
        + (f" + {figures.unfinished:,} unfinished" if figures.unfinished else ""),
        "binds": figures.binds,
    }
