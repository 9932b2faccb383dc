"""When processes worked on a job, the time between its runs, and when it was paused: from the events of its runs. PURE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.stores.records import JobEvent
from headway.stores.store import BEGAN, ENDED, LOST


class Pauses:
    """The pauses of a job, from the events of its runs. The end of a run whose process died was not recorded: the last of `instants`
    before the next run stands for it.
    """

    def __init__(self, events: Iterable[JobEvent], instants: Iterable[float] = ()) -> None:
        self._spans: list[tuple[float, float]] = []
        known = sorted(instants)
        ended: float | None = None
        for event in events:
            if event.what == ENDED:
                ended = event.at_utc
            elif event.what == LOST:
                ended = max((one for one in known if one < event.at_utc), default=None)
            elif event.what == BEGAN:
                if ended is not None:
                    self._spans.append((ended, event.at_utc))
                ended = None

    def between(self, start: float, end: float) -> float:
        """How many seconds of this time no process worked on the job."""
        overlaps = (min(end, last) - max(start, first) for first, last in self._spans)
        return sum(one for one in overlaps if one > 0.0)


#: (from, until) in UTC.
Span = tuple[float, float]


def run_spans(events: Iterable[JobEvent], instants: Sequence[float], now_utc: float) -> list[Span]:
    """When each run of the job began and ended. The end of a run whose process died was not recorded: the last event or the last of
    `instants` before the next run stands for it; `now_utc` is the end of a run that goes on.
    """
    spans: list[Span] = []
    began: float | None = None
    latest = 0.0
    for event in events:
        if event.what == BEGAN:
            if began is not None:
                spans.append((began, max(began, _last_before(instants, event.at_utc), latest)))
            began = event.at_utc
        elif event.what == ENDED and began is not None:
            spans.append((began, event.at_utc))
            began = None
        if event.what != LOST:
            latest = event.at_utc
    if began is not None:
        spans.append((began, max(began, now_utc)))
    return spans


def _last_before(instants: Sequence[float], utc: float) -> float:
    return max((one for one in instants if one < utc), default=0.0)


def pause_spans(events: Iterable[JobEvent], runs: Sequence[Span]) -> list[Span]:
    """When the job was paused by a command. A pause ends with its run at the latest."""
    spans: list[Span] = []
    paused: float | None = None
    for event in [*events, *(JobEvent(until, None, ENDED, "") for _, until in runs[-1:])]:
        if event.what == "command" and event.lane is None and event.text.partition(":")[0] == "pause":
            paused = event.at_utc if paused is None else paused
        elif paused is not None and (
            event.what in (BEGAN, ENDED) or (event.what == "command" and event.text == "resume")
        ):
            spans.append((paused, max(paused, event.at_utc)))
            paused = None
    return spans
