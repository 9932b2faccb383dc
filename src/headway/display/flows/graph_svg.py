"""The graph of a flow as SVG: a column for each length of the longest way to a step; pipelines, loops and nodes
that run a flow are boxes with what is inside them.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from headway.display.flows.graph_rows import graph_rows, inside
from headway.display.flows.node_text import MARKS
from headway.display.flows.outcome_text import facts_of, items_of, outcome_text
from headway.flows.spec import FlowSpec
from headway.flows.step_text import arrow_label, details
from headway.reports.flows.flow_report import FlowReport, NodeOutcome
from headway.safe_text import one_line

_WIDTH, _GAP_X, _GAP_Y, _LINE, _TOP = 210, 48, 22, 24, 20
#: The length of the point of an arrow.
_TIP: Final = 7
#: Room for more characters than these is not in a box.
_MOST: Final = 32


def flow_svg(flow: FlowSpec, report: FlowReport | None = None) -> str:
    """Every box is a link to the row of its node (`#n7`)."""
    return _Drawing(flow, report).svg()


class _Drawing:
    def __init__(self, flow: FlowSpec, report: FlowReport | None) -> None:
        self._flow = flow
        self._outcomes = {} if report is None else report.by_name()
        path = [] if report is None else [step.step for step in report.critical_path]
        self._path = set(pairwise(path))
        self._job = "" if report is None else report.job
        self._head = 50 if report is not None else 36
        #: The rows of the table, to which the boxes are links.
        self._numbers = {row.path: number for number, row in enumerate(graph_rows(flow))}

    def svg(self) -> str:
        places, width, height = self._layout()
        arrows = [part for name in self._flow.step_order for part in self._arrows(name, places)]
        boxes = [self._box(name, *places[name]) for name in self._flow.step_order]
        return f'<svg width="{width}" height="{height}">{"".join(arrows)}{"".join(boxes)}</svg>'

    def _layout(self) -> tuple[dict[str, tuple[int, int]], int, int]:
        """The upper left corner of each step."""
        columns: dict[str, int] = {}
        bottoms: dict[int, int] = defaultdict(int)
        places = {}
        for name in self._flow.step_order:
            after = self._flow.step(name).after
            column = columns[name] = max((columns[one.id] + 1 for one in after), default=0)
            places[name] = (column * (_WIDTH + _GAP_X) + 5, bottoms[column] + 5)
            bottoms[column] += self._height(name) + _GAP_Y
        return (
            places,
            (max(columns.values()) + 1) * (_WIDTH + _GAP_X) - _GAP_X + 10,
            max(bottoms.values()) + 5,
        )

    def _height(self, name: str) -> int:
        return self._head + _LINE * len(inside(self._flow, name))

    def _box(self, name: str, x: int, y: int) -> str:
        flow, outcome = self._flow, self._outcomes.get(name)
        members = inside(flow, name)
        what = details(flow.step(name))
        title = f"{name}: {what}" + ("" if outcome is None else f" — {outcome_text(outcome, self._job)}")
        lines = [
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{self._height(name)}" rx="6"/>',
            _label(x + 9, y + 15, name, outcome),
            f'<text class="small" x="{x + 9}" y="{y + 29}">{_short(what)}</text>',
        ]
        if outcome is not None:
            facts = ", ".join(facts_of(outcome)) or outcome.status
            lines.append(f'<text class="small" x="{x + 9}" y="{y + 43}">{_short(facts)}</text>')
        for place, member in enumerate(members):
            lines.append(self._member(member, x + 16, y + self._head + _LINE * place + 12))
        kinds = " ".join(
            word
            for word in (
                "group" if members else "node",
                "" if outcome is None else outcome.status,
                "critical" if outcome is not None and outcome.critical else "",
            )
            if word
        )
        body = "".join(lines)
        return f'<a href="#n{self._numbers[name]}" class="{kinds}"><title>{_escaped(title)}</title>{body}</a>'

    def _member(self, name: str, x: int, y: int) -> str:
        outcome = self._outcomes.get(name)
        items = "" if outcome is None else items_of(outcome)
        text = f"{name}  {items}" if items else name
        status = "" if outcome is None else f' class="{outcome.status}"'
        return f"<g{status}>{_label(x, y, text, outcome)}</g>"

    def _arrows(self, name: str, places: dict[str, tuple[int, int]]) -> Iterator[str]:
        x2, y2 = places[name][0], places[name][1] + _TOP
        for one in self._flow.step(name).after:
            x1, y1 = places[one.id][0] + _WIDTH, places[one.id][1] + _TOP
            middle = (x1 + x2) // 2
            is_critical = (one.id, name) in self._path
            critical, tip = (' class="critical"', "tip critical") if is_critical else ("", "tip")
            label = _escaped(arrow_label(one))
            yield (
                f'<path{critical} d="M{x1} {y1} C{middle} {y1} {middle} {y2} {x2 - _TIP} {y2}">'
                f"<title>{label}</title></path>"
                f'<path class="{tip}" d="M{x2} {y2} l-{_TIP} -4 v8 z"/>'
            )


def _label(x: int, y: int, text: str, outcome: NodeOutcome | None) -> str:
    mark = "" if outcome is None else f'<tspan class="mark">{MARKS[outcome.status]}</tspan> '
    return f'<text x="{x}" y="{y}">{mark}{_short(text)}</text>'


def _short(text: str) -> str:
    return _escaped(text if len(text) <= _MOST else text[: _MOST - 1] + "…")


def _escaped(text: str) -> str:
    return html.escape(one_line(text))
