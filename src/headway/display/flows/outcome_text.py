"""What became of the nodes of a flow, in words: for the graph as text, as a Mermaid diagram and as a page."""

from __future__ import annotations

from headway.display.flows.node_text import approve_text, counts_text, status_word
from headway.display.formatting import count, duration, money, short
from headway.reports.flows.critical_path import PathStep
from headway.reports.flows.flow_report import FlowReport, NodeOutcome
from headway.reports.flows.node_progress import status_counts

#: A shorter wait between two steps of the critical path is the work of Headway itself, and not named.
SHORT_WAIT_S = 0.5


def run_text(report: FlowReport) -> str:
    """ "job review-3fa2c1: failed, 2m 10s, $0.42; 4 done, 1 failed"."""
    words: list[str] = [report.state]
    if report.took_s is not None:
        words.append(duration(report.took_s))
    if report.cost_usd:
        words.append(money(report.cost_usd))
    return f"job {report.job}: {', '.join(words)}; {counts_text(status_counts(report.nodes))}"


def items_of(node: NodeOutcome) -> str:
    """ "11/12, 1 failed"; "" for a node without units. What has nodes inside counts their units: "22/24 units"."""
    if not node.units:
        return ""
    failed = f", {node.failed:,} failed" if node.failed else ""
    return f"{node.succeeded + node.failed:,}/{node.units:,}{' units' if node.has_inside else ''}{failed}"


def took_text(seconds: float) -> str:
    """ "40 ms", "2.0 s", "3m 05s"."""
    return f"{1000.0 * seconds:.0f} ms" if 0.0 < seconds < 0.1 else duration(seconds)


def facts_of(node: NodeOutcome) -> list[str]:
    """Items, time, cost and refusals of a node, those that it has."""
    took = node.took_s
    return [
        text
        for text in (
            items_of(node),
            "" if took is None else took_text(took),
            money(node.cost_usd) if node.cost_usd else "",
            f"{count(node.throttled, 'attempt')} rate-limited" if node.throttled else "",
        )
        if text
    ]


def outcome_text(node: NodeOutcome, job: str) -> str:
    """ "failed, 11/12, 1 failed, 40 s, $0.04: the reason". A node that waits for the user says what to type."""
    why = f": {short(node.reason)}" if node.reason else ""
    if node.status == "waiting":
        why = f": {approve_text(job, node.name, (node.waiting,) if node.waiting else ())}"
    return ", ".join([status_word(node.status), *facts_of(node)]) + why


def path_text(report: FlowReport) -> str:
    """ "critical path (2m 05s): split 0.8 s → book 1m 20s (after 3.0 s of waiting)"; "" before anything ran."""
    path = report.critical_path
    if not path:
        return ""
    total = sum(step.took_s + step.waited_s for step in path) - path[0].waited_s
    return f"critical path ({duration(total)}): {' → '.join(map(path_step_text, path))}"


def path_step_text(step: PathStep) -> str:
    """One step of the path, with its wait if that is worth a word."""
    waited = f" (after {duration(step.waited_s)} of waiting)" if step.waited_s >= SHORT_WAIT_S else ""
    return f"{step.step} {took_text(step.took_s)}{waited}"
