"""`headway show JOB NODE`: a node of a flow, its outcome and its units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.display.flows.node_text import approve_text
from headway.display.flows.outcome_text import outcome_text, took_text
from headway.display.formatting import count, iso, money, short
from headway.flows.running.approvals import AskedUnit
from headway.reports.flows.node_details import NodeDetails
from headway.safe_text import one_line
from headway.stores.records import LabelledUnit

#: At most so many units have a line.
MOST_UNITS: Final = 20


def node_lines(report: NodeDetails, job: str) -> list[str]:
    """What the node is, its outcome, its times, and a line for each unit; those that failed come first."""
    return [one_line(line) for line in _lines(report, job)]


def _lines(report: NodeDetails, job: str) -> Iterator[str]:
    node = report.node
    yield f"{node.name} ({report.details}, node of {job}): {outcome_text(node, job)}"
    if node.started_utc is not None:
        ended = f", ended {iso(node.ended_utc)}" if node.ended_utc is not None else ""
        yield f"  started {iso(node.started_utc)}{ended}{', on the critical path' if node.critical else ''}"
    for title, text in (
        ("file", report.file),
        ("reads", ", ".join(report.reads)),
        ("writes", ", ".join(report.writes)),
        ("nodes", ", ".join(report.members)),
    ):
        if text:
            yield f"  {title}: {text}"
    for asked in report.asked[:MOST_UNITS]:
        yield from _asked_lines(asked, job)
    if (more := len(report.asked) - MOST_UNITS) > 0:
        yield f"  … and {count(more, 'more unit')}"
    for unit in report.units:
        yield f"  {_unit_line(unit)}"
    if (more := node.units - len(report.units)) > 0 and report.units:
        yield f"  … and {count(more, 'more unit')}"
    if report.units:
        yield f"one of them in full: headway show {job} '{report.units[0].custom_id}'"


def _asked_lines(asked: AskedUnit, job: str) -> Iterator[str]:
    """The question, and the answer."""
    if asked.approved is None:
        yield f"  {asked.unit}: {approve_text(job, asked.unit, (asked.unit,))}"
    else:
        at = f", {iso(asked.utc)}" if asked.utc else ""
        note = f" — {asked.note}" if asked.note else ""
        yield f"  {asked.unit}: {'approved' if asked.approved else 'rejected'}{at}{note}"
    for line in asked.question.splitlines():
        yield f"    {line}"
    if asked.approved:
        yield f"    answer: {msgspec.json.encode(asked.answer).decode()}"


def _unit_line(unit: LabelledUnit) -> str:
    words = [unit.status]
    if unit.started_utc is not None and unit.finished_utc is not None:
        words.append(took_text(max(0.0, unit.finished_utc - unit.started_utc)))
    if unit.attempts > 1:
        words.append(count(unit.attempts, "attempt"))
    if unit.cost_usd:
        words.append(money(unit.cost_usd))
    why = f": {short(unit.message)}" if unit.message else ""
    return f"{unit.custom_id}: {', '.join(words)}{why}"
