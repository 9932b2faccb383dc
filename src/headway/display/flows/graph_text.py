"""`headway graph` as text: a line for each step, in an order in which they may run; after a run with its outcome."""

from __future__ import annotations

from headway.display.flows.graph_rows import GraphRow, graph_rows
from headway.display.flows.node_text import MARKS
from headway.display.flows.outcome_text import outcome_text, path_text, run_text
from headway.flows.spec import FlowSpec
from headway.flows.step_text import details, size_text, waits_text
from headway.reports.flows.flow_report import FlowReport
from headway.safe_text import one_line


def flow_text(flow: FlowSpec, report: FlowReport | None = None) -> str:
    """Members of pipelines and loops, and the nodes of inner flows, are indented. `*` marks the critical path."""
    lines = [size_text(flow)]
    if report is not None:
        lines.append(run_text(report))
    if flow.inputs:
        lines.append(f"inputs: {', '.join(flow.inputs)}")
    outcomes = _Outcomes(report)
    lines += [_line(row, outcomes) for row in graph_rows(flow)]
    if report is not None and (path := path_text(report)):
        lines.append(path)
    return "\n".join(map(one_line, lines))


class _Outcomes:
    """The text of each node's outcome."""

    def __init__(self, report: FlowReport | None) -> None:
        self._job = "" if report is None else report.job
        self._nodes = {} if report is None else report.by_name()

    def around(self, name: str, text: str) -> str:
        """A line about a node, with its mark and its outcome."""
        node = self._nodes.get(name)
        if node is None:
            return f"  {text}" if self._nodes else text
        critical = " *" if node.critical else ""
        return f"{MARKS[node.status]} {text}{critical}  — {outcome_text(node, self._job)}"


def _line(row: GraphRow, outcomes: _Outcomes) -> str:
    after = waits_text(row.step)
    text = f"{row.path}  ({details(row.step)})" + (f"  ← {after}" if after else "")
    return "  " * row.depth + outcomes.around(row.path, text)
