"""What happened in a job, in time order: its runs, the events of its lanes, starts and ends of its units.

A `History` is asked again and again, and returns what is new. Attempts are recorded when they end, so the start of one that is in
flight is read from its unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from headway.batch.outputs.ownership import WROTE
from headway.core.model import Kind
from headway.core.unit_states import ENDED
from headway.stores.records import EndedUnit, Job, JobEvent, NodeEvent, PastAttempt
from headway.stores.store import LOST, Store

#: Attempts that are read at once.
PAGE: Final = 10_000
#: In larger jobs, starts are known only when their attempts end: finding the units in flight would read all units each time.
MOST_SURVEYED: Final = 200_000
#: Messages that differ only in numbers, such as ids and times, share a line.
_NUMBERS: Final = re.compile(r"\d+")
#: The parts of a command's text: "retry row-3, row-4; row-5 waits or runs already".
_PARTS: Final = re.compile(r"[,;]?\s+|[,;]$")
#: Commands about single units, and what is said of units that they did not change.
_UNIT_COMMANDS: Final = ("cancel ", "retry ")
_UNIT_REMARKS: Final = (" has ended before", " waits or runs already")
#: The names of ends, where an attempt's outcome has another one.
_REFUSED: Final = "refused"
#: Kinds of errors that are not tried again by themselves.
_FINAL: Final = frozenset({str(Kind.INVALID), str(Kind.TOO_LARGE)})
#: What happenings have in common that may share a line: event, lane, kind, text without numbers.
_Alike = tuple[str, str | None, str | None, str]


class Happening(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened. `event`: an event of the job, a lane or a node of a flow as it is recorded, or of a unit: started,
    succeeded, refused, retried (an attempt failed, and another follows), failed, timed_out, cancelled, skipped, lost.

    `node` is the node of an event of a flow; `unit` is then one of its executions, or None.
    """

    at_utc: float
    event: str
    unit: str | None = None
    attempt: int | None = None
    lane: str | None = None
    kind: str | None = None
    text: str = ""
    until_utc: float | None = None
    took_s: float | None = None
    cost_usd: float | None = None
    node: str | None = None


class History:
    """The history of a job, or of one of its units (`index`)."""

    def __init__(self, store: Store, job: Job, index: int | None = None) -> None:
        self._store, self._job, self._index = store, job, index
        self._unit = None if index is None else store.results(job.id, index - 1, 1)[0]
        self._attempt = self._event = self._node_event = 0
        #: (unit, attempt) of starts that were returned, and units whose end was.
        self._started: set[tuple[int, int]] = set()
        self._ended: set[tuple[int, float]] = set()
        self._unsuccessful = -1
        #: When processes that had died were noticed, and the latest start so far.
        self._deaths: list[float] = []
        self._latest_start = 0.0

    def news(self) -> list[Happening]:
        """What has happened since it was asked before, in time order."""
        job = self._store.job(self._job.name) or self._job
        found = [
            *self._events(),
            *self._node_events(),
            *self._attempts(),
            *self._other_ends(job),
            *self._starts(job),
        ]
        return sorted(found, key=lambda one: one.at_utc)

    def _events(self) -> Iterator[Happening]:
        for event in self._store.events(self._job.id, self._event):
            self._event = event.id
            if event.what == LOST:
                self._deaths.append(event.at_utc)
            if event.what != WROTE and self._is_about(event):
                yield Happening(
                    event.at_utc, event.what, lane=event.lane, text=event.text, until_utc=event.until_utc
                )

    def _node_events(self) -> Iterator[Happening]:
        for event in self._store.node_events(self._job.id, self._node_event):
            self._node_event = event.id
            if self._unit is None or event.unit == self._unit.custom_id:
                yield _of_node(event)

    def _is_about(self, event: JobEvent) -> bool:
        """Whether an event belongs to the history: that of a unit has no commands about others."""
        if self._unit is None or event.what != "command":
            return self._unit is None or event.lane in (None, self._unit.lane)
        return concerns(event.text, self._unit.custom_id)

    def _attempts(self) -> Iterator[Happening]:
        while page := self._store.history(self._job.id, self._attempt, PAGE, self._index):
            self._attempt = page[-1].id
            for attempt in page:
                yield from self._attempt_of(attempt)

    def _attempt_of(self, attempt: PastAttempt) -> Iterator[Happening]:
        key = (attempt.index, attempt.number)
        if attempt.started_utc is not None and key not in self._started:
            self._started.add(key)
            yield Happening(attempt.started_utc, "started", attempt.custom_id, attempt.number, attempt.lane)
        began, ended = attempt.started_utc, attempt.finished_utc
        self._latest_start = max(self._latest_start, began or 0.0)
        if attempt.outcome == LOST:  # Its end is not known; it was noticed when the next run began.
            noticed = next((at for at in self._deaths if at >= (began or self._latest_start)), None)
            ended = ended or noticed
        yield Happening(
            ended or began or self._job.created_utc,
            _end_of(attempt),
            attempt.custom_id,
            attempt.number,
            attempt.lane,
            attempt.kind,
            attempt.message or "",
            took_s=_took_s(attempt),
            cost_usd=attempt.cost_usd or None,
        )

    def _other_ends(self, job: Job) -> Iterator[Happening]:
        """Ends without an attempt. They are looked for only if more units have ended without success."""
        unsuccessful = job.ended - job.good
        if unsuccessful == self._unsuccessful:
            return
        self._unsuccessful = unsuccessful
        for unit in self._store.ends_without_attempt(job.id, self._index):
            key = (unit.index, unit.finished_utc)
            if key not in self._ended:
                self._ended.add(key)
                yield _ended(unit)

    def _starts(self, job: Job) -> Iterator[Happening]:
        if job.total > MOST_SURVEYED and self._index is None:
            return
        for one in self._store.running(job.id, self._index):
            key = (one.index, one.number)
            if key not in self._started:
                self._started.add(key)
                yield Happening(one.started_utc, "started", one.custom_id, one.number, one.lane)


def _of_node(event: NodeEvent) -> Happening:
    data = msgspec.json.decode(event.data)
    text = next((str(data[name]) for name in ("field", "reason", "status") if data.get(name)), "")
    return Happening(event.at_utc, event.type, event.unit or None, text=text, node=event.node)


def concerns(command: str, unit: str) -> bool:
    """Whether the text of a command is about this unit; a command about the whole job is about every unit."""
    if not command.startswith(_UNIT_COMMANDS) and not any(one in command for one in _UNIT_REMARKS):
        return True
    return unit in _PARTS.split(command) or (" " in unit and unit in command)


def _took_s(attempt: PastAttempt) -> float | None:
    if attempt.started_utc is None or attempt.finished_utc is None:
        return None
    return round(attempt.finished_utc - attempt.started_utc, 3)


def _end_of(attempt: PastAttempt) -> str:
    """How an attempt ended, for its unit."""
    if attempt.outcome in ("succeeded", "cancelled", "lost"):
        return attempt.outcome
    if attempt.is_last and attempt.status in ENDED:
        return attempt.status
    if attempt.kind in _FINAL:  # Another attempt came only by a later run.
        return "failed"
    return _REFUSED if attempt.outcome == "throttled" else "retried"


def _ended(unit: EndedUnit) -> Happening:
    return Happening(unit.finished_utc, unit.status, unit.custom_id, kind=unit.code, text=unit.message or "")


class FoldedLine(msgspec.Struct, frozen=True):
    """Things of the same kind that happened shortly after each other."""

    happenings: Sequence[Happening]

    @property
    def first(self) -> Happening:
        """The first of them."""
        return self.happenings[0]

    @property
    def span_s(self) -> float:
        """The seconds from the first to the last of them."""
        return self.happenings[-1].at_utc - self.happenings[0].at_utc


def folded(
    happenings: Iterable[Happening], within_s: float, gap_s: float, *, few_nodes: bool = False
) -> list[FoldedLine]:
    """Happenings to units or nodes that are alike, at most `gap_s` apart and `within_s` after the first of them, as one. All else stays by
    itself; with `few_nodes` so does each event of a node.

    Events of a flow's nodes have an order that matters: they join only their neighbours, and units join nothing before them.
    """
    groups: list[list[Happening]] = []
    open_ones: dict[_Alike, list[Happening]] = {}
    for one in happenings:
        key = (one.event, one.lane, one.kind, _NUMBERS.sub("0", one.text))
        group = open_ones.get(key)
        folds = _folds(one) and not (few_nodes and one.node and one.unit is None)
        if one.node is not None:
            group = group if groups and group is groups[-1] else None
            open_ones.clear()
        if group is not None and folds and _joins(one, group, within_s, gap_s):
            group.append(one)
        else:
            group = [one]
            groups.append(group)
        if folds:
            open_ones[key] = group
    return [FoldedLine(group) for group in groups]


def _folds(one: Happening) -> bool:
    """Whether it is of a unit or a node, and not of the job or a lane."""
    return one.unit is not None or bool(one.node)


def _joins(one: Happening, group: Sequence[Happening], within_s: float, gap_s: float) -> bool:
    return one.at_utc - group[-1].at_utc <= gap_s and one.at_utc - group[0].at_utc <= within_s
