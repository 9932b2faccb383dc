"""The table of the forecast of a flow: a row for each node, in an order in which they may run, and a total."""

from __future__ import annotations

from rich import box
from rich.table import Table

from headway.display.forecasts.forecast_table import TABLE, WIDE, dollars, range_text, tokens
from headway.display.formatting import duration
from headway.flows.running.flow_form import nodes_of
from headway.flows.spec import FlowSpec
from headway.forecast.figures import Range
from headway.forecast.flow_figures import FlowForecast, NodeForecast

_COLUMNS = ("node", "units", "tokens in", "tokens out", "cost", "starts", "takes")


def flow_plan_table(spec: FlowSpec, forecast: FlowForecast, width: int = WIDE) -> Table:
    """A row for each node. `*` marks the critical path, `~` a number of units that only the run shows."""
    rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_footer=True)
    total = _total(forecast, width)
    for name in _COLUMNS:
        left = name == "node"
        rows.add_column(
            name, total[name], justify="left" if left else "right", no_wrap=not left, overflow="fold"
        )
    for path in _ordered(spec):
        if path in forecast.nodes:
            rows.add_row(*_cells(path, forecast.nodes[path], width))
    return rows


def narrow_flow_lines(spec: FlowSpec, forecast: FlowForecast) -> list[str]:
    """The same for a terminal that is too narrow for a table."""
    lines = []
    for path in _ordered(spec):
        if path in forecast.nodes:
            name, *cells = _cells(path, forecast.nodes[path], WIDE)
            lines.append(name)
            lines += [f"  {what}: {cell}" for what, cell in zip(_COLUMNS[1:], cells, strict=True) if cell]
    lines.append("total")
    lines += [f"  {what}: {cell}" for what, cell in _total(forecast, WIDE).items() if cell and what != "node"]
    return lines


def fits_table(width: int) -> bool:
    """Whether a terminal is wide enough for the table."""
    return width >= TABLE


def _ordered(spec: FlowSpec, prefix: str = "") -> list[str]:
    """The paths of all nodes in an order in which they may run."""
    known = {node.path for node in nodes_of(spec, prefix)}
    paths = []
    for step in spec.step_order:
        for name in spec.members(step):
            inner = spec.nodes[name].inner
            paths += [prefix + name] if inner is None else _ordered(inner, f"{prefix}{name}/")
    return [path for path in paths if path in known]


def _cells(path: str, node: NodeForecast, width: int) -> list[str]:
    asked = bool(node.units) and not node.program
    cost = "?" if node.cost_usd is None else range_text(node.cost_usd, dollars, width)
    return [
        f"{path}{' *' if node.critical else ''}",
        f"{'~' if node.assumed else ''}{node.units:,}" if node.units or node.kind in ("agent", "tool") else node.kind,
        _tokens(node.input_tokens, width) if asked else "",
        _tokens(node.output_tokens, width) if asked else "",
        cost if node.units and (node.cost_usd is None or node.cost_usd.high) else "",
        duration(node.start_s) if node.units else "",
        range_text(node.time_s, duration, width) if node.units else "",
    ]  # fmt: skip


def _total(forecast: FlowForecast, width: int) -> dict[str, str]:
    cost = "" if forecast.cost_usd is None else range_text(forecast.cost_usd, dollars, width)
    if forecast.unpriced:
        cost = f"at least {cost}" if cost else "?"
    asked = forecast.input_tokens.high > 0.0
    cells = (
        "total",
        f"{forecast.units:,}",
        _tokens(forecast.input_tokens, width) if asked else "",
        _tokens(forecast.output_tokens, width) if asked else "",
        cost,
        "",
        range_text(forecast.time_s, duration, width),
    )
    return dict(zip(_COLUMNS, cells, strict=True))


def _tokens(of: Range, width: int) -> str:
    return range_text(of, tokens, width)


def flow_plan_notes(forecast: FlowForecast) -> list[str]:
    """Notes below the table."""
    notes = []
    if forecast.path:
        steps = " → ".join(forecast.path)
        notes.append(f"* critical path: {steps}, {duration(forecast.path_s)} one after the other")
    guessed = [f"{path}: {node.assumed}" for path, node in forecast.nodes.items() if node.assumed]
    if guessed:
        notes.append(f"~ {'; '.join(guessed)}")
    notes += forecast.notes
    if forecast.simulated < forecast.units:
        notes.append(
            f"{forecast.simulated:,} of {forecast.units:,} units were simulated; the rest is assumed to take as long"
        )
    return notes
