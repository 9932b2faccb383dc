"""The plan of a flow, for `headway plan flow.yaml`, `run --dry-run` and `run --confirm`."""

from __future__ import annotations

import sys
from typing import Any

from headway.display.forecasts.flow_plan_table import (
    fits_table,
    flow_plan_notes,
    flow_plan_table,
    narrow_flow_lines,
)
from headway.flows.step_text import count_nodes
from headway.safe_text import one_line
from headway.wiring.flows.flow_forecasts import FlowAhead


def print_flow_plan(name: str, ahead: FlowAhead, width: int, *, err: bool = False, note: str = "") -> None:
    """Print the first line, the table and the notes. `width` is used where the output is no terminal."""
    from rich.console import Console

    stream = sys.stderr if err else sys.stdout
    console = Console(file=stream, width=None if stream.isatty() else width, highlight=False)
    nodes = count_nodes(ahead.spec)
    console.print(one_line(f"{name}: {nodes:,} node{'' if nodes == 1 else 's'}{note}"), markup=False)
    if ahead.job is not None:
        left = "the rest would run" if ahead.forecast.units else "--fresh plans it as a new job"
        console.print(f"  job {ahead.job.name} has {ahead.job.good:,} answers already; {left}", markup=False)
    elif not ahead.forecast.units:
        console.print(
            "  every unit keeps the answer of an earlier job; --fresh plans it as a new job", markup=False
        )
    if not ahead.forecast.units:
        return
    if fits_table(console.width):
        console.print(flow_plan_table(ahead.spec, ahead.forecast, console.width))
    else:
        for line in narrow_flow_lines(ahead.spec, ahead.forecast):
            console.print(one_line(line), markup=False, soft_wrap=True)
    for line in flow_plan_notes(ahead.forecast):
        console.print(f"- {one_line(line)}", markup=False, soft_wrap=not stream.isatty())


def flow_plan_json(ahead: FlowAhead) -> dict[str, Any]:
    """The plan as JSON. Programs have no tokens."""
    import msgspec

    fields = msgspec.to_builtins(ahead.forecast)
    for node in fields["nodes"].values():
        if node.pop("program"):
            node["input_tokens"] = node["output_tokens"] = None
    return {
        "job": None if ahead.job is None else ahead.job.name,
        "succeeded": 0 if ahead.job is None else ahead.job.good,
        **fields,
        "critical_path": fields.pop("path"),
        "critical_path_s": fields.pop("path_s"),
    }
