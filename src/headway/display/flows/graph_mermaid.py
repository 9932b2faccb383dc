"""`headway graph --format mermaid`: a Mermaid flowchart; after a run coloured by outcome, with the critical path in bold.

Nodes are numbered, so that no name can be taken for syntax, and every text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from headway.display.flows.graph_rows import graph_rows
from headway.display.flows.node_text import MARKS
from headway.display.flows.outcome_text import facts_of
from headway.flows.spec import FlowSpec
from headway.flows.step_text import arrow_label, details
from headway.reports.flows.flow_report import FlowReport, NodeOutcome
from headway.safe_text import one_line

#: Fill and border for each status, readable on light and dark pages.
_COLORS: Final = {
    "success": "fill:#d9f2dd,stroke:#2f8f46,color:#123",
    "failed": "fill:#fbdcdc,stroke:#c0392b,color:#311",
    "running": "fill:#dbe9fb,stroke:#2c6cb0,color:#123",
    "waiting": "fill:#fff1cc,stroke:#b07d12,color:#321",
    "interrupted": "fill:#fdebd3,stroke:#b9770e,color:#321",
    "skipped": "fill:#ececec,stroke:#8a8a8a,color:#555",
    "pending": "fill:#f7f7f7,stroke:#aaaaaa,color:#666",
    "ready": "fill:#f7f7f7,stroke:#2c6cb0,color:#123",
}


def flow_mermaid(flow: FlowSpec, report: FlowReport | None = None) -> str:
    """The chart. A pipeline or loop is a subgraph with its members, a node that runs a flow one with that flow."""
    chart = _Chart(flow, {} if report is None else report.by_name())
    lines = ["flowchart LR", *(f"  {line}" for line in chart.lines())]
    if report is not None:
        lines += [f"  {line}" for line in chart.styles([step.step for step in report.critical_path])]
    return "\n".join(lines)


class _Chart:
    def __init__(self, flow: FlowSpec, outcomes: dict[str, NodeOutcome]) -> None:
        self._flow, self._outcomes = flow, outcomes
        inner = (row.path for row in graph_rows(flow))
        names = dict.fromkeys((*flow.nodes, *flow.pipelines, *flow.loops, *inner))
        self._numbers = {name: f"n{number}" for number, name in enumerate(names)}
        #: Every arrow so far, as Mermaid counts them.
        self._arrows: list[tuple[str, str]] = []

    def lines(self) -> Iterator[str]:
        yield from self._lines(self._flow, "")

    def _lines(self, flow: FlowSpec, prefix: str) -> Iterator[str]:
        for name in flow.step_order:
            if name in flow.nodes:
                yield from self._node(flow, prefix, name)
                continue
            yield self._subgraph(flow, prefix, name)
            for member in flow.members(name):
                yield from (f"  {line}" for line in self._node(flow, prefix, member))
            for member in flow.members(name):
                yield from (f"  {line}" for line in self._arrows_to(flow, prefix, member))
            yield "end"
        for name in flow.step_order:
            yield from self._arrows_to(flow, prefix, name)

    def _node(self, flow: FlowSpec, prefix: str, name: str) -> Iterator[str]:
        """A box; for a node that runs a flow a subgraph with that flow."""
        inner = flow.nodes[name].inner
        if inner is None:
            yield f'{self._numbers[prefix + name]}["{self._label(flow, prefix, name, "<br/>")}"]'
            return
        yield self._subgraph(flow, prefix, name)
        yield from (f"  {line}" for line in self._lines(inner, f"{prefix}{name}/"))
        yield "end"

    def _subgraph(self, flow: FlowSpec, prefix: str, name: str) -> str:
        return f'subgraph {self._numbers[prefix + name]}["{self._label(flow, prefix, name, ": ")}"]'

    def styles(self, path: list[str]) -> Iterator[str]:
        """Colours by outcome; the critical path has thick lines."""
        by_status: dict[str, list[str]] = {}
        for name, number in self._numbers.items():
            if name in self._outcomes:
                by_status.setdefault(self._outcomes[name].status, []).append(number)
        for status, numbers in by_status.items():
            yield f"classDef {status} {_COLORS[status]}"
            yield f"class {','.join(numbers)} {status}"
        if on_path := [self._numbers[name] for name in path if name in self._numbers]:
            yield "classDef critical stroke-width:4px"
            yield f"class {','.join(on_path)} critical"
        bold = [n for n, arrow in enumerate(self._arrows) if arrow in set(pairwise(path))]
        if bold:
            yield f"linkStyle {','.join(map(str, bold))} stroke-width:4px"

    def _label(self, flow: FlowSpec, prefix: str, name: str, between: str) -> str:
        label = f"{_text(prefix + name)}{between}{_text(details(flow.step(name)))}"
        outcome = self._outcomes.get(prefix + name)
        if outcome is None:
            return label
        return f"{label}<br/>{_text(f'{MARKS[outcome.status]} ' + ', '.join(facts_of(outcome) or [outcome.status]))}"

    def _arrows_to(self, flow: FlowSpec, prefix: str, name: str) -> Iterator[str]:
        for one in flow.step(name).after:
            label = _text(arrow_label(one))
            arrow = f'-- "{label}" -->' if label else "-->"
            self._arrows.append((prefix + one.id, prefix + name))
            yield f"{self._numbers[prefix + one.id]} {arrow} {self._numbers[prefix + name]}"


def _text(text: str) -> str:
    """Every character but letters, digits and harmless marks as an entity."""
    return "".join(one if one.isalnum() or one in " _-.,:$/" else f"#{ord(one)};" for one in one_line(text))
