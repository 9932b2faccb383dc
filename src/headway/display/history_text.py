"""The lines of `headway logs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.display.formatting import count, duration, iso, money, short, units
from headway.display.plain import noted_line
from headway.reports.history import FoldedLine, Happening
from headway.stores.records import JobEvent
from headway.stores.store import BEGAN, ENDED, LOST

#: At most so many units are named in a line.
MOST_NAMES: Final = 3
_RUN: Final = {BEGAN: "the run began", ENDED: "the run ended", LOST: "the run was lost"}
#: What happened to units: one of them, and several.
_VERBS: Final = {
    "started": "started",
    "succeeded": "succeeded",
    "refused": "refused",
    "retried": "failed and tried again",
    "failed": "failed",
    "timed_out": "timed out",
    "cancelled": "cancelled",
    "skipped": "skipped",
    "lost": "lost with its process",
}
_VERBS_OF_SEVERAL: Final = {**_VERBS, "lost": "lost with their process"}
_FLOW: Final = {"run.started": "the flow began", "run.finished": "the flow ended"}
_NODE_VERBS: Final = {
    "node.ready": "ready",
    "node.started": "started",
    "node.finished": "finished",
    "node.failed": "failed",
    "node.skipped": "skipped",
    "node.retrying": "runs again",
}
#: Above this, a line says how long it took from the first to the last of its units.
SAME_TIME_S: Final = 0.05


def history_line(line: FoldedLine) -> str:
    """One line: the time in UTC, and what happened."""
    return f"{iso(line.first.at_utc)}  {_text(line)}"


def _text(line: FoldedLine) -> str:
    first = line.first
    if first.node is not None:
        return _node_text(line)
    if first.unit is None:
        return _event_text(first)
    if len(line.happenings) == 1:
        return _unit_text(first)
    where = f"{first.lane}: " if first.lane else ""
    several = len({one.unit for one in line.happenings})
    what = f"{units(several)} {(_VERBS_OF_SEVERAL if several > 1 else _VERBS)[first.event]}"
    if first.event == "refused":
        what = f"{count(len(line.happenings), 'attempt')} refused"
    within = f" within {line.span_s:.1f} s" if line.span_s > SAME_TIME_S else ""
    return f"{where}{what}{within}{_why(first)} — {_names(line.happenings)}"


def _node_text(line: FoldedLine) -> str:
    """An event of a flow: of the run, of a node (or one of its executions), or several alike."""
    first = line.first
    if not first.node:
        return f"{_FLOW[first.event]}{_because(first)}"
    names = list(dict.fromkeys(one.unit or one.node or "" for one in line.happenings))
    if first.event == "state.write":
        return f"state.{first.text} written by {_listed(names)}"
    verb = _NODE_VERBS.get(first.event, first.event.replace(".", " "))
    if len(names) == 1:
        return f"node {names[0]} {verb}{_because(first)}"
    return f"{count(len(names), 'node')} {verb}{_because(first)} — {_listed(names)}"


def _because(event: Happening) -> str:
    return f": {short(event.text)}" if event.text else ""


def _event_text(event: Happening) -> str:
    if event.event in _RUN:
        return f"{_RUN[event.event]}: {event.text}"
    return noted_line(JobEvent(event.at_utc, event.lane, event.event, event.text, event.until_utc), iso)


def _unit_text(one: Happening) -> str:
    what = _VERBS[one.event]
    attempt = f" (attempt {one.attempt})" if one.attempt is not None and one.attempt > 1 else ""
    took = f" in {duration(one.took_s)}" if one.took_s is not None and one.event != "started" else ""
    cost = f" for {money(one.cost_usd)}" if one.cost_usd else ""
    where = f" on {one.lane}" if one.event == "started" and one.lane else ""
    return f"{one.unit}{attempt} {what}{where}{took}{cost}{_why(one)}"


def _why(one: Happening) -> str:
    if (not one.kind and not one.text) or one.text == one.event:
        return ""
    return f": {one.kind}, {short(one.text)}" if one.kind and one.text else f": {one.kind or short(one.text)}"


def _names(happenings: Sequence[Happening]) -> str:
    return _listed(list(dict.fromkeys(one.unit or "" for one in happenings)))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")
