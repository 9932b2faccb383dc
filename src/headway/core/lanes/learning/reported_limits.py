"""Learns limits and levels from the responses of a provider that reports them.

A limit that is reported for the first time gets a meter at the reported level, less what was sent since. Later reports correct
its level and its rate. Where resets show that the allowance comes in fixed windows, a `WindowMeter` takes its place. What is used
beyond our own requests belongs to other clients (`other_clients`).
"""

from __future__ import annotations

from headway.core.lanes.in_flight.sent_attempts import SentAttempts
from headway.core.lanes.job_share import WHOLE
from headway.core.lanes.learning.other_clients import OtherClients
from headway.core.lanes.meters.depth_steps import DepthSteps
from headway.core.lanes.meters.fixed_window import WATCHED, BoundaryWatch, WindowMeter
from headway.core.lanes.meters.limit_meters import LimitMeters
from headway.core.lanes.meters.meter import Meter
from headway.core.lanes.queueing.queue import Entry
from headway.core.lanes.traffic import Traffic
from headway.core.model import Dimension, LimitReport


class ReportedLimits:
    """Of one lane."""

    __slots__ = ("_boundaries", "_limits", "_sent", "_steps", "_traffic", "_watch", "others")

    def __init__(
        self, limits: LimitMeters, steps: DepthSteps, traffic: Traffic, sent: SentAttempts, now: float
    ) -> None:
        self._limits, self._steps, self._traffic, self._sent = limits, steps, traffic, sent
        self._boundaries: dict[tuple[Dimension, float], BoundaryWatch] = {}
        #: The share of a limit that other clients of the same key use, where reports show it.
        self.others = 0.0
        self._watch = OtherClients(now)

    def forget_others(self, now: float) -> None:
        """Measure what other clients use anew, from this instant."""
        self.others, self._watch = 0.0, OtherClients(now)

    def learn(
        self, entry: Entry, reports: tuple[LimitReport, ...], now: float, *, refused: bool = False
    ) -> bool:
        """Learn what the response to this attempt reported. Returns whether a limit was reported for the first time."""
        limits = self._limits
        first = False
        for report in reports:
            if report.limit <= 0.0 or limits.evidence.disproves(report):
                continue
            meter = limits.reported(report.dimension, report.period_s)
            if meter is None:
                self._add(entry, report, refused=refused)
                first = True
                continue
            if report.limit != meter.limit and entry.seq > meter.synced_seq:
                meter.set_limit(report.limit, now)
                limits.select()
            try:
                mark = entry.marks[entry.meters.index(meter)]
            except ValueError:
                continue  # It was sent before this limit was known.
            cost = entry.costs[meter.place]
            meter.sync(report, mark, entry.started_at, entry.seq, cost, refused=refused)
            if entry.seq <= WATCHED and not refused and not meter.windowed:
                self._watch_boundary(meter, report, entry)
        if now >= self._watch.until:
            others = self._watch.look(limits.all_reported(), now)
            # While the lane is shared, the other clients are our own jobs.
            self.others = others if limits.part == WHOLE else 0.0
        return first

    def _add(self, entry: Entry, report: LimitReport, *, refused: bool) -> None:
        """A limit is reported for the first time: its meter starts at the reported level, less what was sent since."""
        meter = self._limits.new_reported(report.dimension, report.limit, report.period_s, entry.started_at)
        cost = entry.costs[meter.place]
        mark = _charge(meter, entry)
        meter.sync(report, mark, entry.started_at, entry.seq, cost, refused=refused)
        for other in self._sent.not_counted_by(entry):
            _charge(meter, other)
        meter.debt_s = max(0.0, meter.full_at - entry.started_at - meter.used_s)
        meter.begin_ramp(self._traffic.mean_costs()[meter.place], careful=self._steps.unsure(entry, meter))
        self._limits.add_reported(meter)

    def _watch_boundary(self, meter: Meter, report: LimitReport, entry: Entry) -> None:
        """Count by windows where the resets of a limit show that it comes in windows."""
        key = (report.dimension, report.period_s)
        watch = self._boundaries.get(key)
        if watch is None:
            watch = self._boundaries[key] = BoundaryWatch()
        boundary_at = watch.boundary(report, entry.started_at, meter.rate)
        if boundary_at is None or report.remaining is None or self._limits.part < WHOLE:
            return
        window = WindowMeter(report.dimension, report.limit, report.period_s, boundary_at, entry.started_at)
        place = meter.place
        window.unit_s = self._traffic.mean_costs()[place] / window.rate
        later = sum(costs[place] for costs in self._sent.charged_after(entry))
        window.adjust(report.limit - report.remaining + later)
        window.used_s = meter.used_s
        window.debt_s, window.since_s = meter.debt_s, meter.since_s
        self._limits.replace_reported(window)


def _charge(meter: Meter, entry: Entry) -> float:
    """Charge an attempt that is in flight to a meter that is new; returns its mark."""
    mark = meter.reserve(entry.costs[meter.place], entry.started_at)
    entry.meters = (*entry.meters, meter)
    entry.marks.append(mark)
    return mark
