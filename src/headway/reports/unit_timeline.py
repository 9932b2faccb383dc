"""One unit's life from its creation to its end, in pieces that touch each other: every second of it has a name.

An attempt in flight is what its record says. The time between attempts is named by what kept the unit from starting, the strongest
reason first: no process worked on the job, the unit waited for others, the job was paused, its lane was closed, it was backing off.
What remains is the queue: it waited for its turn within the limits of its lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

import msgspec

from headway.core.unit_states import ENDED as ENDED_STATES
from headway.core.unit_states import Status
from headway.reports.holds import closed_spans
from headway.reports.pauses import Span, pause_spans, run_spans
from headway.stores.records import AttemptView, Job, UnitResult
from headway.stores.store import BEGAN, Store

State = Literal["queued", "held", "in_flight", "backing_off", "waiting", "writing", "paused"]

#: Why a unit was paused: nothing of its job could start.
NOT_BEGUN: Final = "the job had not begun"
NOT_RUNNING: Final = "no process worked on the job"
PAUSED: Final = "the job was paused"
#: A shorter time between the end of the last attempt and that of the unit is not shown.
WRITING_S: Final = 0.001


class TimelinePiece(msgspec.Struct, frozen=True):
    """A part of a unit's life. `attempt` is the one in flight, or the one before. `why`: the reason, if there is one."""

    state: State
    from_utc: float
    until_utc: float
    attempt: int
    why: str


class Obstacle(msgspec.Struct, frozen=True):
    """Why a unit could not start within this time."""

    state: State
    from_utc: float
    until_utc: float
    why: str


class UnitLife(msgspec.Struct, frozen=True):
    """What the records say of a unit. `flights` are its attempts in order: (number, start, end); `obstacles` have the strongest first.

    `answered_utc` is the end of the last attempt, if the unit has ended with it.
    """

    created_utc: float
    end_utc: float
    flights: Sequence[tuple[int, float, float]]
    obstacles: Sequence[Obstacle]
    answered_utc: float | None = None


def timeline(life: UnitLife) -> list[TimelinePiece]:
    """The life in pieces. They touch, and begin and end with it."""
    end = max(life.created_utc, life.end_utc)
    pieces: list[TimelinePiece] = []
    at, number = life.created_utc, 0
    for attempt, started, finished in life.flights:
        started, finished = min(max(at, started), end), min(max(at, started, finished), end)
        pieces += _between(life, at, started, number)
        at, number = finished, attempt
        if started < finished:
            pieces.append(TimelinePiece("in_flight", started, finished, attempt, ""))
    if life.answered_utc is not None and at < end:
        is_short = end - at < WRITING_S and bool(pieces)
        if is_short:
            pieces[-1] = msgspec.structs.replace(pieces[-1], until_utc=end)
        else:
            pieces.append(TimelinePiece("writing", at, end, number, ""))
        at = end
    return [*pieces, *_between(life, at, end, number)]


def _between(life: UnitLife, start: float, end: float, attempt: int) -> list[TimelinePiece]:
    """The time between two attempts, cut where a reason begins or ends."""
    if start >= end:
        return []
    near = [one for one in life.obstacles if one.from_utc < end and one.until_utc > start]
    cuts = {start, end, *(one.from_utc for one in near), *(one.until_utc for one in near)}
    pieces: list[TimelinePiece] = []
    for first, last in pairwise(sorted(cut for cut in cuts if start <= cut <= end)):
        named = next((one for one in near if one.from_utc <= first and one.until_utc >= last), None)
        piece = TimelinePiece("queued", first, last, attempt, "")
        if named is not None:
            piece = TimelinePiece(named.state, first, last, attempt, named.why)
        if pieces and (pieces[-1].state, pieces[-1].why) == (piece.state, piece.why):
            pieces[-1] = msgspec.structs.replace(pieces[-1], until_utc=last)
        else:
            pieces.append(piece)
    return pieces


# -- from the records --------------------------------------------------------------------------------------------


def unit_timeline(
    store: Store, job: Job, row: UnitResult, *, live: bool, now_utc: float
) -> list[TimelinePiece]:
    """The life of a unit until its end, or until now. `live`: a process runs the job."""
    return timeline(unit_life(store, job, row, live=live, now_utc=now_utc))


def unit_life(store: Store, job: Job, row: UnitResult, *, live: bool, now_utc: float) -> UnitLife:
    """What the records say of a unit."""
    events = store.events(job.id)
    instants = [one.at_utc for one in store.samples.totals(job.id)]
    seen_utc = max([*instants[-1:], *(event.at_utc for event in events[-1:])], default=job.created_utc)
    runs = run_spans(events, instants, now_utc if live else max(seen_utc, row.started_utc or 0.0))
    if not any(event.what == BEGAN for event in events):
        runs = [(job.started_utc or job.created_utc, job.finished_utc or now_utc)]  # A Python program.
    created = store.created_utc(job.id, row.index) or job.created_utc
    ended = row.status in ENDED_STATES and row.finished_utc is not None
    end = (row.finished_utc or now_utc) if ended else now_utc
    attempts = store.attempts(job.id, row.index)
    flights = _flights(attempts, row, runs, now_utc)
    lane = row.lane or (f"{row.provider}/{row.model}" if row.model else row.provider)
    obstacles = [
        *(
            Obstacle("paused", *idle, NOT_RUNNING if idle[0] >= runs[0][0] else NOT_BEGUN)
            for idle in _gaps(runs, created, end)
        ),
        *_waiting_for_others(store, job, row, flights, end),
        *(Obstacle("paused", *span, PAUSED) for span in pause_spans(events, runs)),
        *(
            Obstacle("held", one.from_utc, one.until_utc, one.reason)
            for one in closed_spans(events, lane, end)
        ),
        *_backing_off(attempts, runs),
    ]
    with_attempt = bool(attempts) and row.status != Status.CACHED and ended
    answered = attempts[-1].finished_utc if with_attempt and _is_last(attempts[-1], row) else None
    return UnitLife(created, end, flights, obstacles, answered)


def _is_last(attempt: AttemptView, row: UnitResult) -> bool:
    """Whether the unit ended by the end of this attempt, and not later while it waited."""
    ends = attempt.finished_utc is not None and attempt.again_utc is None
    return ends and (
        row.status == Status.SUCCEEDED or (row.finished_utc or 0.0) - (attempt.finished_utc or 0.0) < 1.0
    )


def _flights(
    attempts: Sequence[AttemptView], row: UnitResult, runs: Sequence[Span], now_utc: float
) -> list[tuple[int, float, float]]:
    """(number, start, end) of the attempts. One whose process died lasted until the end of that run at the latest."""
    flights = [
        (one.number, one.started_utc, one.finished_utc or _run_end(runs, one.started_utc, now_utc))
        for one in attempts
        if one.started_utc is not None
    ]
    if row.status == Status.RUNNING and row.started_utc is not None:
        until = _run_end(runs, row.started_utc, now_utc)
        flights.append((row.attempts + 1, row.started_utc, until))
    return sorted(flights, key=lambda flight: flight[1])


def _run_end(runs: Sequence[Span], utc: float, otherwise: float) -> float:
    return next((max(utc, last) for first, last in reversed(runs) if first <= utc), otherwise)


def _gaps(runs: Sequence[Span], start: float, end: float) -> list[Span]:
    """The times between these instants in which no run worked."""
    edges = [start, *(edge for run in runs for edge in run), end]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return [(first, last) for first, last in pairs if first < last]


def _waiting_for_others(
    store: Store, job: Job, row: UnitResult, flights: Sequence[tuple[int, float, float]], end: float
) -> Iterable[Obstacle]:
    """The time until the last of the units ended that this one needs, if that is before its first attempt."""
    first = flights[0][1] if flights else end
    waits = [
        (min(first, finished if status in ENDED_STATES and finished is not None else end), name)
        for name, status, finished in store.upstream_of(job.id, row.index)
    ]
    if not waits:
        return ()
    until, name = max(waits)
    return (Obstacle("waiting", 0.0, until, name),)


def _backing_off(attempts: Sequence[AttemptView], runs: Sequence[Span]) -> Iterable[Obstacle]:
    """The wait after each attempt that failed. A new run does not wait."""
    for attempt in attempts:
        if attempt.again_utc is not None and attempt.finished_utc is not None:
            until = min(attempt.again_utc, _run_end(runs, attempt.finished_utc, attempt.again_utc))
            why = f"{attempt.kind}: {attempt.message}" if attempt.kind else attempt.message or ""
            yield Obstacle("backing_off", attempt.finished_utc, until, why)
