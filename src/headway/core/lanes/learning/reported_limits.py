"""Learns limits and levels from the responses of a provider that reports them.

A limit that is reported for the first time gets a meter at the reported level, less what was sent since. Later reports correct
its level and its rate. Where resets show that the allowance comes in fixed windows, a `WindowMeter` takes its place; where no
reset is reported and levels or refusals show it, a `ClockWindow`. What is used beyond our own requests belongs to other clients
(`other_clients`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from headway.core.lanes.in_flight.sent_attempts import SentAttempts
from headway.core.lanes.job_share import WHOLE
from headway.core.lanes.learning.level_watch import LevelWatch, shows_window
from headway.core.lanes.learning.other_clients import OtherClients
from headway.core.lanes.meters.clock_window import ClockWindow
from headway.core.lanes.meters.depth_steps import DepthSteps
from headway.core.lanes.meters.fixed_window import WATCHED, BoundaryWatch, WindowMeter
from headway.core.lanes.meters.limit_meters import LimitMeters
from headway.core.lanes.meters.meter import Meter
from headway.core.lanes.queueing.queue import ALWAYS, Entry
from headway.core.lanes.traffic import Traffic
from headway.core.model import DIMENSIONS, Dimension, Hint, LimitReport


class ReportedLimits:
    """Of one lane."""

    __slots__ = (
        "_boundaries", "_last", "_levels", "_limits", "_no_windows", "_sent", "_steps", "_taken_at", "_traffic", "_watch", "others",
    )  # fmt: skip

    def __init__(
        self, limits: LimitMeters, steps: DepthSteps, traffic: Traffic, sent: SentAttempts, now: float
    ) -> None:
        self._limits, self._steps, self._traffic, self._sent = limits, steps, traffic, sent
        self._boundaries: dict[tuple[Dimension, float], BoundaryWatch] = {}
        #: The share of a limit that other clients of the same key use, where reports show it.
        self.others = 0.0
        self._watch = OtherClients(now)
        #: Watches what is left, where no reset is reported; and the latest reports without one, with the next minute of the clock.
        self._levels = LevelWatch()
        self._last: dict[Dimension, tuple[LimitReport, float]] = {}
        #: When the latest request was sent that was accepted; and whether windows of clock minutes were found wrong.
        self._taken_at = now
        self._no_windows = False

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
            if isinstance(meter, ClockWindow):
                if meter.disproved:
                    self._leave_windows(report, entry, now)
            elif report.minute_left_s is not None:
                self._watch_level(report, entry, now, refused=refused)
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

    # -- windows of clock minutes, where no reset is reported ---------------------------------------------------

    def _watch_level(self, report: LimitReport, entry: Entry, now: float, *, refused: bool) -> None:
        """Count by clock minutes where what is left shows that the allowance comes in windows."""
        assert report.minute_left_s is not None
        self._last[report.dimension] = (report, now + report.minute_left_s)
        if refused:
            return
        self._taken_at = max(self._taken_at, entry.started_at)
        if report.dimension is Dimension.REQUESTS:
            counted = self._levels.observe(report, entry.seq, entry.started_at, now)
            if counted:
                self._enter_windows(entry, late=counted == "answered")

    def _enter_windows(self, entry: Entry, *, late: bool) -> bool:
        """The limits without a reset count clock minutes. Returns whether that is believed. `late`: requests may be counted late."""
        if self._no_windows or self._limits.part < WHOLE:
            return False
        entered = False
        for report, boundary_at in self._last.values():
            meter = self._limits.reported(report.dimension, report.period_s)
            if meter is None or meter.windowed or report.remaining is None:
                continue
            window = ClockWindow(
                report.dimension, report.limit, report.period_s, boundary_at, entry.started_at
            )
            place = meter.place
            window.late = late
            window.unanswered = partial(self._unanswered, place)
            window.unit_s = self._traffic.mean_costs()[place] / window.rate
            later = self._sent.uncounted(entry, place) if late else self._later(entry, place)
            window.adjust(report.limit - report.remaining + later)
            window.used_s, window.debt_s, window.since_s = meter.used_s, meter.debt_s, meter.since_s
            self._limits.replace_reported(window)
            entered = True
        return entered

    def _leave_windows(self, report: LimitReport, entry: Entry, now: float) -> None:
        """These are no windows of clock minutes: count by a bucket."""
        self._no_windows = True
        meter = self._limits.new_reported(report.dimension, report.limit, report.period_s, now)
        meter.sync(report, meter.reserve(0.0, now), now, entry.seq)
        self._limits.replace_reported(meter)

    def refused(self, entry: Entry, hint: Hint, now: float) -> None:
        """An attempt was refused because it came too soon: perhaps a window of a clock minute is used up."""
        self._levels.forget()
        if self._last and self._shows_window(entry, hint) and self._enter_windows(entry, late=True):
            self._taken_at = entry.started_at
        for window in self._clock_windows():
            if hint.dimension in (None, window.dimension):
                window.refused(entry.started_at, now)

    def _shows_window(self, entry: Entry, hint: Hint) -> bool:
        """Whether a bucket would have had room for the refused attempt, although little was reported as left."""
        taken_at = max(self._taken_at, self._sent.unanswered_before(entry))
        wait_s = 0.0 if hint.retry_after_s is None else hint.retry_after_s - hint.precision_s
        dry_s = entry.started_at + max(0.0, wait_s) - taken_at
        for report, _ in self._last.values():
            place = DIMENSIONS.index(report.dimension)
            cost = entry.costs[place]
            later = self._sent.uncounted(entry, place)
            if report.remaining is not None and report.remaining <= cost + later:
                return shows_window(dry_s, cost * report.period_s / report.limit)
        return False

    @property
    def reopens_at(self) -> float:
        """When the next window begins, if one of clock minutes is used up; ALWAYS otherwise."""
        return max((window.reopens_at for window in self._clock_windows()), default=ALWAYS)

    def _clock_windows(self) -> Iterator[ClockWindow]:
        return (meter for meter in self._limits.all_reported() if isinstance(meter, ClockWindow))

    def retry_wait_s(self, wait_s: float, now: float) -> float:
        """The wait after a refusal that says to wait so long."""
        return max((window.retry_wait_s(wait_s, now) for window in self._clock_windows()), default=wait_s)

    # -- windows with a reset -----------------------------------------------------------------------------------

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
        window.adjust(report.limit - report.remaining + self._later(entry, place))
        window.used_s = meter.used_s
        window.debt_s, window.since_s = meter.debt_s, meter.since_s
        self._limits.replace_reported(window)

    def _unanswered(self, place: int) -> float:
        """What was charged for attempts without an answer, about."""
        return self._sent.unanswered * self._traffic.mean_costs()[place]

    def _later(self, entry: Entry, place: int) -> float:
        """What was charged for attempts that were sent after this one."""
        return sum(costs[place] for costs in self._sent.charged_after(entry))


def _charge(meter: Meter, entry: Entry) -> float:
    """Charge an attempt that is in flight to a meter that is new; returns its mark."""
    mark = meter.reserve(entry.costs[meter.place], entry.started_at)
    entry.meters = (*entry.meters, meter)
    entry.marks.append(mark)
    return mark
