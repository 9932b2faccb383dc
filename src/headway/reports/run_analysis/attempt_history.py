"""The course of a job out of the times of its attempts, for jobs without samples: those of older versions, and calls of Python programs.

Attempts know no limits and no windows, so only rates, what was in flight, what had ended and the cost are known. The database adds
up; a job of any size needs the memory of the columns.
"""

from __future__ import annotations

from typing import Final

from headway.core.model import MINUTE_S
from headway.reports.holds import hold_spans
from headway.reports.lane_history import LaneCurves, LaneHistory, Values
from headway.stores.attempt_figures import StartCount
from headway.stores.records import Job
from headway.stores.store import Store

#: The least seconds of a column.
LEAST_S: Final = 0.5


def attempt_history(store: Store, job: Job, points: int) -> LaneHistory:
    """The history of a job in this many columns."""
    figures = store.attempt_figures
    if (span := figures.time_span(job.id)) is None:
        return LaneHistory([], {}, [], [], [])
    first, last = span
    step_s = max(LEAST_S, (last - first) / points)
    columns = int((last - first) / step_s) + 1
    names: dict[int | None, str] = {lane.id: lane.name for lane in store.lanes()}
    lanes: dict[str, _LaneSums] = {}
    done, cost = [0.0] * columns, [0.0] * columns
    for start in figures.starts(job.id, first, step_s):
        lanes.setdefault(names.get(start.lane, ""), _LaneSums(columns)).add(start)
    for end in figures.ends(job.id, first, step_s):
        lanes.setdefault(names.get(end.lane, ""), _LaneSums(columns)).ends[end.place] += end.count
        done[end.place] += end.succeeded
        cost[end.place] += end.cost_usd
    return LaneHistory(
        t=[round(first + step_s * (place + 1), 3) for place in range(columns)],
        lanes={name: sums.curves(step_s) for name, sums in sorted(lanes.items())},
        holds=hold_spans(store.events(job.id), last),
        done=_running(done),
        cost_usd=_running(cost),
    )


class _LaneSums:
    """One lane, column by column."""

    def __init__(self, columns: int) -> None:
        self.starts = [0.0] * columns
        self.tokens = [0.0] * columns
        self.refused = [0.0] * columns
        self.ends = [0.0] * columns

    def add(self, start: StartCount) -> None:
        """Add what began in a column."""
        self.starts[start.place] += start.count
        self.tokens[start.place] += start.tokens
        self.refused[start.place] += start.refused

    def curves(self, step_s: float) -> LaneCurves:
        """The lane for a plot."""
        none: Values = [None] * len(self.starts)
        begun, ended = _running(self.starts), _running(self.ends)
        in_flight: Values = [
            max(0.0, a - b) for a, b in zip(begun, ended, strict=True) if a is not None and b is not None
        ]
        return LaneCurves(
            starts_per_min=[round(MINUTE_S * one / step_s, 3) for one in self.starts],
            limit_per_min=none,
            tokens_per_min=[round(MINUTE_S * one / step_s, 3) for one in self.tokens],
            token_limit_per_min=none,
            in_flight=in_flight,
            window=none,
            queued=none,
            remaining=none,
            refused=list(self.refused),
            level=none,
            token_dimension="tokens",
        )


def _running(values: list[float]) -> Values:
    """The sum up to each column."""
    total, sums = 0.0, []
    for value in values:
        total += value
        sums.append(round(total, 9))
    return list(sums)
