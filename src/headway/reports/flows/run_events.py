"""The events of a flow's run, from the records: those of its nodes and its state, and those of its units.

Events of nodes are recorded as such. Those of units are made from the records of attempts, which have everything that they say; a
unit that ended without an attempt (an answer from the cache, a limit of the run) has one event.

An `RunEventReader` returns every event once. Its `EventMarks` say which events are known already: after a restart they are made from the
events that were written before (`display.event_file`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from headway.core.unit_states import ENDED, Status
from headway.stores.records import EndedUnit, Job, NodeEvent, PastAttempt, RunningAttempt
from headway.stores.store import BEGAN, LOST, Store

#: Records that are read at once.
PAGE: Final = 5_000
UNIT: Final = "unit."


class RunEvent(msgspec.Struct, frozen=True, gc=False):
    """One event. `node` and `unit` are "" where it is about more. `data` depends on `type` (docs/reference/flow-events.md)."""

    utc: float
    type: str
    job: str
    node: str
    unit: str
    data: dict[str, Any]


class EventMarks(msgspec.Struct):
    """Which events are known: the ids of the last recorded event and attempt, the starts whose end is not known yet, and the
    latest end without an attempt (in milliseconds), with the units that ended then.
    """

    event: int = 0
    attempt: int = 0
    started: set[tuple[str, int]] = msgspec.field(default_factory=set)
    end_ms: int = 0
    ended: set[str] = msgspec.field(default_factory=set)

    def note_end(self, utc: float, unit: str) -> None:
        """An end without an attempt is known."""
        if (ms := whole_ms(utc)) > self.end_ms:
            self.end_ms, self.ended = ms, set()
        if ms == self.end_ms:
            self.ended.add(unit)

    def has_end(self, utc: float, unit: str) -> bool:
        """Whether an end without an attempt is known."""
        ms = whole_ms(utc)
        return ms < self.end_ms or (ms == self.end_ms and unit in self.ended)


class RunEventReader:
    """The events of one job, beyond those that `marks` has."""

    def __init__(self, store: Store, job: Job, marks: EventMarks | None = None) -> None:
        self._store, self._job = store, job
        self.marks = EventMarks() if marks is None else marks

    def missed(self) -> Iterator[list[RunEvent]]:
        """Everything that is recorded, in pages. Call it before a run changes the records."""
        since = self._store.other_ends_since(self._job.id, self.marks.end_ms / 1000.0 - 0.001)
        ends = [one for one in since if not self.marks.has_end(one.finished_utc, one.custom_id)]
        others = [self._other_end(one) for one in ends]
        while (page := self._page((), others)) is not None:
            yield page
            others = []

    def news(self, started: Collection[int], ended: Collection[int]) -> Iterator[list[RunEvent]]:
        """What was recorded since, in pages. The units `started` began an attempt, the units `ended` have ended."""
        starts = self._store.running_among(self._job.id, started) if started else []
        found = self._store.other_ends_among(self._job.id, ended) if ended else []
        others = [self._other_end(one) for one in found]
        while (page := self._page(starts, others)) is not None:
            yield page
            starts, others = [], []

    def _page(self, starts: Iterable[RunningAttempt], others: list[RunEvent]) -> list[RunEvent] | None:
        """The next records, in time order; None if there are none."""
        events = [*others, *self._starts(starts)]
        for attempt in self._store.history(self._job.id, self.marks.attempt, PAGE):
            self.marks.attempt = attempt.id
            events += self._attempt(attempt)
        for node_event in self._store.node_events(self._job.id, self.marks.event, PAGE):
            self.marks.event = node_event.id
            events.append(self._node_event(node_event))
        return sorted(events, key=lambda one: one.utc) or None

    def _node_event(self, event: NodeEvent) -> RunEvent:
        data = _with_value({"id": event.id, **msgspec.json.decode(event.data)})
        return RunEvent(event.at_utc, event.type, self._job.name, event.node, event.unit, data)

    def _starts(self, starts: Iterable[RunningAttempt]) -> Iterator[RunEvent]:
        for one in starts:
            key = (one.custom_id, one.number)
            if key not in self.marks.started:
                self.marks.started.add(key)
                yield self._unit(
                    one.started_utc, "started", one.custom_id, {"attempt": one.number, "lane": one.lane}
                )

    def _attempt(self, one: PastAttempt) -> Iterator[RunEvent]:
        key = (one.custom_id, one.number)
        if one.started_utc is not None and key not in self.marks.started:
            yield self._unit(
                one.started_utc, "started", one.custom_id, {"attempt": one.number, "lane": one.lane}
            )
        self.marks.started.discard(key)
        if one.outcome == LOST:
            if one.started_utc is None:  # It was recorded before it was sent, and never began.
                return
            utc = one.finished_utc or self._noticed(one.started_utc)
        else:
            utc = one.finished_utc or one.started_utc or self._job.created_utc
        is_over = one.is_last and one.status in ENDED
        data = _attempt_data(one)
        if one.outcome == "succeeded":
            yield self._unit(utc, "succeeded", one.custom_id, data)
            return
        if one.outcome == "throttled":
            yield self._unit(utc, "throttled", one.custom_id, data)
            if not is_over:
                return
        if is_over:
            yield self._unit(utc, "failed", one.custom_id, {**data, "status": one.status})
        else:
            yield self._unit(utc, "retrying", one.custom_id, data)

    def _noticed(self, began: float) -> float:
        """When it was noticed that the process of an attempt had died: at the start of the next run."""
        events = self._store.events(self._job.id)
        noticed = next(
            (one.at_utc for one in events if one.what in (LOST, BEGAN) and one.at_utc > began), None
        )
        return noticed or max(began, self._store.run_starts().get(self._job.id, began))

    def _other_end(self, one: EndedUnit) -> RunEvent:
        self.marks.note_end(one.finished_utc, one.custom_id)
        if one.status == Status.CACHED:
            return self._unit(one.finished_utc, "succeeded", one.custom_id, {"cached": True})
        data = {"kind": one.code, "message": one.message or "", "status": one.status}
        return self._unit(one.finished_utc, "failed", one.custom_id, data)

    def _unit(self, utc: float, what: str, unit: str, data: dict[str, Any]) -> RunEvent:
        from headway.flows.running.unit_ids import node_path  # A batch does not load what flows need.

        return RunEvent(utc, UNIT + what, self._job.name, node_path(unit), unit, _with_value(data))


def _with_value(data: Mapping[str, Any]) -> dict[str, Any]:
    """Without the keys that have no value."""
    return {name: value for name, value in data.items() if value is not None and value != ""}


def _attempt_data(one: PastAttempt) -> dict[str, Any]:
    data: dict[str, Any] = {"id": one.id, "attempt": one.number, "lane": one.lane}
    if one.started_utc is not None and one.finished_utc is not None:
        data["took_s"] = round(one.finished_utc - one.started_utc, 3)
    if one.outcome == "succeeded":
        data |= {"input_tokens": one.input_tokens, "output_tokens": one.output_tokens}
    else:
        data |= {"kind": one.kind, "message": one.message or ""}
        if one.outcome != "throttled":
            data["outcome"] = one.outcome
    if one.rate_limit:
        data["retry_after_s"] = msgspec.json.decode(one.rate_limit).get("retry_after_s")
    data["cost_usd"] = one.cost_usd
    return data


def whole_ms(utc: float) -> int:
    """The milliseconds of an instant, as text in ISO 8601 has them: rounded to microseconds, then cut."""
    return round(utc * 1e6) // 1000
