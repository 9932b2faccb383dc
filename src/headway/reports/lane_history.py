"""How a job went over time: rates against limits, windows, queues, holds, the units that ended and their cost.

It is read from the samples that the run recorded, so it is the same for a job that runs, one that has ended and one whose process was
killed. A column covers the time since the column before it. While no process worked on the job there are no values.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import Final

import msgspec

from headway.batch.result_rows import COST_DIGITS
from headway.core.model import MINUTE_S
from headway.reports.holds import HoldSpan, hold_spans
from headway.stores.records import Job
from headway.stores.samples import LaneSample, SampleTotals
from headway.stores.store import BEGAN, Store

#: Digits of what is returned: a page shows three.
DIGITS: Final = 3
#: A rate over a shorter time would only show the burst at the beginning of a run.
LEAST_SPAN_S: Final = 1.0

Values = list[float | None]


class LaneCurves(msgspec.Struct, frozen=True):
    """One lane: a value for each column. The tokens are those of the dimension whose limit binds most (`token_dimension`), as the
    lane's meters were charged. `refused` counts the refusals of each column; `level` is what is left of the tightest limit (0 to 1).
    """

    starts_per_min: Values
    limit_per_min: Values
    tokens_per_min: Values
    token_limit_per_min: Values
    in_flight: Values
    window: Values
    queued: Values
    remaining: Values
    refused: Values
    level: Values
    token_dimension: str


class LaneHistory(msgspec.Struct, frozen=True):
    """The history of a job. `t` are the ends of the columns (UTC); `done` and `cost_usd` count over all runs of the job."""

    t: list[float]
    lanes: dict[str, LaneCurves]
    holds: list[HoldSpan]
    done: Values
    cost_usd: Values


def lane_history(
    store: Store, job: Job, lane: str | None = None, since_utc: float = 0.0, points: int = 300
) -> LaneHistory:
    """The history of a job, or of one of its lanes, after `since_utc`, in about `points` columns at the most."""
    totals = store.samples.totals(job.id, since_utc)
    events = store.events(job.id)
    begins = [event.at_utc for event in events if event.what == BEGAN]
    first = bisect_right(totals, since_utc, key=lambda one: one.at_utc)
    columns = _columns(totals, first, begins, points)
    lanes: dict[str, _Samples] = {}
    for name, tick, sample in store.samples.of_lanes(job.id, totals[0].tick if totals else 0):
        if lane in (None, name):
            lanes.setdefault(name, _Samples()).add(tick, sample)
    for samples in lanes.values():
        samples.take([one.tick for one in totals[:first]])
    end_utc = job.finished_utc or time.time()
    return LaneHistory(
        t=[column.end_utc for column in columns],
        lanes={name: _curves(samples, columns) for name, samples in lanes.items()},
        holds=[
            hold
            for hold in hold_spans(events, end_utc)
            if hold.until_utc > since_utc and lane in (None, hold.lane)
        ],
        done=[None if column.is_gap else column.ended for column in columns],
        cost_usd=[None if column.is_gap else round(column.cost_usd, COST_DIGITS) for column in columns],
    )


# -- columns ---------------------------------------------------------------------------------------------------


class _SampleGroup(msgspec.Struct, frozen=True):
    """The samples with these ticks. `span_s` is the time that they cover; a gap between two runs has none."""

    ticks: tuple[int, ...]
    span_s: float
    end_utc: float
    ended: int = 0
    cost_usd: float = 0.0

    @property
    def is_gap(self) -> bool:
        return not self.ticks


def _columns(
    totals: Sequence[SampleTotals], first: int, begins: Sequence[float], points: int
) -> list[_SampleGroup]:
    """The samples from `first` on in groups that cover the time without holes. Each run has groups of its own, and a gap before it."""
    size = max(1, ceil((len(totals) - first) / max(1, points)))
    columns: list[_SampleGroup] = []
    from_utc = totals[first - 1].at_utc if first else None
    for run, samples in groupby(totals[first:], key=lambda one: bisect_right(begins, one.at_utc)):
        began_utc = begins[run - 1] if run else None
        if began_utc is not None and began_utc > (from_utc or 0.0):
            if from_utc is not None:
                columns.append(_SampleGroup((), 0.0, round(began_utc, DIGITS)))
            from_utc = began_utc
        for group in _batched(list(samples), size):
            last = group[-1]
            span_s = 0.0 if from_utc is None else last.at_utc - from_utc
            ticks = tuple(one.tick for one in group)
            columns.append(_SampleGroup(ticks, span_s, round(last.at_utc, DIGITS), last.ended, last.cost_usd))
            from_utc = last.at_utc
    return columns


def _batched(items: Sequence[SampleTotals], size: int) -> Iterator[Sequence[SampleTotals]]:
    """The items in groups of this size; the last may be smaller."""
    return (items[first : first + size] for first in range(0, len(items), size))


# -- the curves of a lane ---------------------------------------------------------------------------------------


class _Samples:
    """The samples of the lanes with one name: a lane whose key was changed is another lane, and its counters add up."""

    def __init__(self) -> None:
        self._of_lane: dict[int, dict[int, LaneSample]] = {}
        self._before: dict[int, LaneSample] = {}

    def add(self, tick: int, sample: LaneSample) -> None:
        self._of_lane.setdefault(sample.lane, {})[tick] = sample

    def take(self, ticks: Sequence[int]) -> tuple[dict[str, float], list[LaneSample]]:
        """How much the counters grew over the next ticks, and the samples of the ticks."""
        grown = dict.fromkeys(_COUNTERS, 0.0)
        within: list[LaneSample] = []
        for lane, samples in self._of_lane.items():
            here = [samples[tick] for tick in ticks if tick in samples]
            if not here:
                continue
            before = self._before.get(lane)
            for name in _COUNTERS:
                start = 0.0 if before is None else getattr(before, name)
                grown[name] += max(0.0, getattr(here[-1], name) - start)
            self._before[lane] = here[-1]
            within += here
        return grown, within


def _curves(samples: _Samples, columns: Sequence[_SampleGroup]) -> LaneCurves:
    taken = [(column, *samples.take(column.ticks)) for column in columns]

    def rates(counter: str) -> Values:
        return [
            round(MINUTE_S * grown[counter] / max(LEAST_SPAN_S, column.span_s), DIGITS)
            if within and column.span_s > 0.0
            else None
            for column, grown, within in taken
        ]

    def latest(name: str) -> Values:
        return [_rounded(getattr(within[-1], name)) if within else None for _, _, within in taken]

    limits = {counter: (rates(counter), latest(limit)) for counter, limit in _LIMITS.items()}
    tokens = max(limits, key=lambda counter: _used_share(*limits[counter]))
    return LaneCurves(
        starts_per_min=rates("starts"),
        limit_per_min=latest("request_limit"),
        tokens_per_min=limits[tokens][0],
        token_limit_per_min=limits[tokens][1],
        in_flight=[_mean([one.in_flight for one in within]) for _, _, within in taken],
        window=latest("window"),
        queued=latest("queued"),
        remaining=latest("remaining"),
        refused=[grown["refused"] if within else None for _, grown, within in taken],
        level=latest("level"),
        token_dimension=tokens,
    )


#: Counters of tokens, each with its limit.
_LIMITS: Final = {"tokens": "token_limit", "input_tokens": "input_limit", "output_tokens": "output_limit"}
_COUNTERS: Final = ("starts", "refused", *_LIMITS)


def _used_share(rates: Values, limits: Values) -> float:
    """The mean share of a limit that was used; -1: there is no limit."""
    shares = [rate / limit for rate, limit in zip(rates, limits, strict=True) if rate is not None and limit]
    return sum(shares) / len(shares) if shares else -1.0


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), DIGITS) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
