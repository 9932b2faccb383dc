"""The nodes of a flow as rows of the live view: items, failures, cost, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headway.core.snapshot import LaneView
from headway.display.columns import column_widths
from headway.display.flows.node_text import MARKS, approve_text, counts_text, items_text, status_word
from headway.display.formatting import money, short
from headway.engine.observer import PartProgress, View
from headway.reports.flows.node_progress import most_urgent, status_counts
from headway.safe_text import one_line

_STYLES: Final = {
    "waiting": "bold yellow",
    "failed": "red",
    "interrupted": "yellow",
    "success": "green",
    "ready": "",
    "pending": "dim",
    "skipped": "dim",
}
#: Columns of figures.
_NUMBERS: Final = ("items", "cost")
#: On a narrower terminal there is no column for the status: its mark says it.
_NARROW: Final = 70


def node_table(
    view: View, width: int, room: int, waits: Callable[[LaneView, View], str]
) -> RenderableType | None:
    """A table of at most `room` rows below its head; None without nodes. `waits` says what a lane waits for."""
    if not view.parts or room < 1:
        return None
    fits = len(view.parts) <= room and not view.more_parts
    shown = view.parts if fits else most_urgent(view.parts, room - 1)
    names = [
        "node", *(["status"] if width >= _NARROW else []), "items",
        *(["cost"] if any(part.cost_usd for part in view.parts) else []), "waiting for",
    ]  # fmt: skip
    lanes = {lane.key: lane for lane in view.snapshot.lanes}
    rows = []
    for part in shown:
        lane = lanes.get(view.part_lanes.get(part.name, ""))
        why = _why(part, view, "" if lane is None or part.status != "running" else waits(lane, view))
        rows.append([one_line(why if name == "waiting for" else _cell(part, name)) for name in names])
    table = Table(box=None, padding=(0, 1), show_edge=False, header_style="dim")
    for name, most in zip(names, column_widths(names, rows, width, _NUMBERS), strict=True):
        side: Literal["left", "right"] = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=side, no_wrap=True, overflow="ellipsis", width=most)
    for part, row in zip(shown, rows, strict=True):
        table.add_row(*map(Text, row), style=_STYLES.get(part.status, ""))
    return table if fits else Group(table, _rest(view, shown))


def _cell(part: PartProgress, column: str) -> str:
    match column:
        case "node":
            return f"{MARKS.get(part.status, ' ')} {part.name}"
        case "status":
            return status_word(part.status)
        case "items":
            return items_text(part)
        case _:
            return money(part.cost_usd) if part.cost_usd else ""


def _why(part: PartProgress, view: View, lane_waits: str) -> str:
    if part.status == "waiting":
        return approve_text(view.job, part.name, part.waiting)
    return short(part.note, 80) if part.note else lane_waits


def _rest(view: View, shown: Sequence[PartProgress]) -> Text:
    """The nodes without a row, by status."""
    counts = status_counts(view.parts, view.more_parts)
    named = status_counts(shown)
    rest = {status: n - named.get(status, 0) for status, n in counts.items()}
    rest = {status: n for status, n in rest.items() if n}
    text = f" … {sum(rest.values()):,} more: {counts_text(rest)}"
    return Text(text, style="dim", no_wrap=True, overflow="ellipsis")
