"""The limits of a lane as meters: configured, reported, learned from refusals; and which of them are in force.

Every reported limit is in force, and a configured one where nothing as tight is reported. While other jobs use the lane, a
second meter beside each keeps this job to its part. A lane that knows no limit searches for its rate (`rate_finder`). A refusal
that says that use grew too fast adds a cap on growth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headway.core.lanes.estimate import MOST_TOKENS
from headway.core.lanes.job_share import SMALL, WHOLE, Grant, Parts
from headway.core.lanes.learning.evidence import Evidence
from headway.core.lanes.learning.limit_doubt import NEARLY_ALL, DisprovedLimit
from headway.core.lanes.learning.rate_finder import LEARNED, LEAST_EVIDENCE_S, Pace, RateFinder
from headway.core.lanes.meters.clock_window import ClockWindow
from headway.core.lanes.meters.depth_ramp import DepthRamp
from headway.core.lanes.meters.growth_cap import GROWTH_CAP, GrowthCap, slowed
from headway.core.lanes.meters.meter import MINIMUM_GAP, Meter, meters_of
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import (
    DAY_S,
    DIMENSIONS,
    MINUTE_S,
    Costs,
    Counting,
    Dimension,
    GrowthRule,
    LaneLimits,
    LaneSpec,
)

if TYPE_CHECKING:
    from headway.core.lanes.lane_memory import FoundRecord, MeterRecord
    from headway.core.lanes.work_time import WorkTime

_UNLIMITED: Final = float("inf")


class LimitMeters:
    """The meters of one lane."""

    __slots__ = (
        "_configured", "_growth", "_parts", "_reported", "_work_time", "basis", "depth_ramp", "disproved", "evidence", "finder",
        "leads", "learning", "meters", "part", "settings", "was_shared",
    )  # fmt: skip

    def __init__(self, spec: LaneSpec, work_time: WorkTime, now: float) -> None:
        #: The configured limits.
        self.settings = spec.limits
        #: The meters in force.
        self.meters: tuple[Meter, ...] = ()
        #: Replaced by another object whenever units must be measured again: the meters or the estimates have changed.
        self.basis = object()
        #: Searches for the rate while no limit is known.
        self.finder = None if spec.limits.known else RateFinder(now, _limited_first(spec.counting))
        #: Whether `start` has something to do.
        self.learning = self.finder is not None
        #: A configured limit that refusals have proven too high.
        self.disproved: DisprovedLimit | None = None
        #: The largest accepted requests: a limit that is reported far below them is not believed.
        self.evidence = Evidence()
        #: How far the meters may go beyond the proven depth.
        self.depth_ramp = DepthRamp()
        #: This job's part of the limits, and whether this job searches for what is unknown (the others follow it).
        self.part = WHOLE
        self.leads = True
        #: Whether other jobs use the lane or did: how much they took is known only roughly.
        self.was_shared = False
        self._work_time = work_time
        self._configured: list[Meter] = []
        self._reported: dict[tuple[Dimension, float], Meter] = {}
        self._parts = Parts()
        self._growth: GrowthCap | None = None

    # -- which meters are in force ---------------------------------------------------------------------

    def select(self) -> None:
        """Choose the meters in force."""
        reported = {key: meter.limit for key, meter in self._reported.items()}
        configured = [
            meter
            for meter in self._configured
            if meter.name == MINIMUM_GAP
            or meter.limit < reported.get((meter.dimension, meter.period_s), _UNLIMITED)
        ]
        learned = () if self.finder is None else (self.finder.meter,)
        growth = () if self._growth is None else (self._growth.meter,)
        whole = (*configured, *self._reported.values())
        self.meters = (*whole, *self._parts.of(whole, self.part, leads=self.leads), *learned, *growth)
        for meter in self.meters:
            if meter.ramp is not None:
                meter.ramp = self.depth_ramp
            if meter.since_s < 0.0:
                meter.since_s = self._work_time.for_meter(meter)
        self.learning = self.finder is not None or self._growth is not None
        self.basis = self.meters

    def configure(self, limits: LaneLimits, now: float) -> None:
        """Take configured limits, at the start or while running; levels carry over."""
        before = {meter.name: meter for meter in self._configured}
        self._configured = []
        new_depth = limits.burst_s != self.settings.burst_s
        for wanted in meters_of(limits, now):
            meter = before.get(wanted.name, wanted)
            meter.set_limit(wanted.limit, now)
            if new_depth and meter.name != MINIMUM_GAP:
                meter.redeepen(wanted)
            self._configured.append(meter)
        for meter in self._reported.values():
            if new_depth and meter.period_s < DAY_S:
                meter.redeepen(Meter(meter.dimension, meter.limit, now=now, burst_s=limits.burst_s))
        self.settings = limits
        if limits.known:
            self.finder = self.disproved = None
        self.select()

    def share(self, grant: Grant, now: float) -> None:
        """Keep to a part of every limit from now on, beside other jobs."""
        if grant.follows and grant.pace is not None:
            self._follow_doubt(grant.pace, now)
        ratio = grant.part / self.part
        if ratio == WHOLE and self.leads and not grant.follows:
            return
        self.part, self.leads = grant.part, not grant.follows
        if self.finder is not None:
            self.finder.part = grant.part
            self.finder.scale(ratio)
            if grant.follows:
                self.finder.follow(grant.pace, grant.part, now)
            else:
                self.finder.lead(now)
        self.was_shared = self.was_shared or self.part < WHOLE
        self._parts.begin(grant.before, now)
        self.select()

    def level_parts(self) -> None:
        """The levels of the limits have just been corrected: a small part is no fuller than its limit."""
        if self.part < SMALL:
            self._parts.level()

    def refused(self, now: float) -> None:
        """A request was refused for its rate."""
        self.level_parts()
        self._parts.refused(now)

    def start(self, costs: Costs, now: float) -> None:
        """An attempt starts: move what is learned, the found rate and the cap on growth, on to this instant."""
        if self.finder is not None:
            meter = self.finder.meter
            self.finder.advance(now)
            if self.finder.meter is not meter:
                self.select()
        if self._growth is not None:
            self._growth.ease(now)
        if self.finder is not None:
            self.finder.sent(costs, now)

    def in_force(self) -> tuple[tuple[int, str], ...]:
        """The amount and the name of each limit in force; a part of a limit is not one."""
        return tuple((round(meter.limit), meter.name) for meter in self.meters if meter.whole is None)

    def too_large(self, entry: Entry) -> str:
        """Why this unit can never fit, with the numbers; empty where it can."""
        for meter in self.meters:
            cost = entry.costs[meter.place]
            passing = meter.name in (LEARNED, GROWTH_CAP) or meter.whole is not None
            if cost > meter.limit and meter.dimension is not Dimension.REQUESTS and not passing:
                if self.evidence.exceeds(meter) or _only_guessed(entry, meter.limit):
                    continue
                what = meter.dimension.replace("_", " ")
                return f"it needs {cost:,.0f} {what}, and the lane's limit is {meter.limit:,.0f} {meter.name}"
        return ""

    # -- reported limits -------------------------------------------------------------------------------

    @property
    def configured(self) -> bool:
        """Whether any limit is configured."""
        return bool(self._configured)

    @property
    def levelled(self) -> bool:
        """Whether the provider reports limits."""
        return bool(self._reported)

    def reported(self, dimension: Dimension, period_s: float) -> Meter | None:
        """The meter of a reported limit."""
        return self._reported.get((dimension, period_s))

    def all_reported(self) -> Iterable[Meter]:
        """The meters of all reported limits."""
        return self._reported.values()

    def closed_s(self, at: float) -> float:
        """How long a window of the clock has been closed; for ever if its next boundary is sure."""
        windows = [meter for meter in self._reported.values() if isinstance(meter, ClockWindow)]
        return max(
            (NEVER if window.sure else at - window.closed_at for window in windows if window.closed),
            default=0.0,
        )

    def replace_reported(self, meter: Meter) -> None:
        """Count a reported limit by this meter from now on."""
        self._reported[meter.dimension, meter.period_s] = meter
        self.select()

    def add_reported(self, meter: Meter) -> None:
        """A limit is reported for the first time: the search for a rate ends."""
        self.finder = None
        self.replace_reported(meter)

    def new_reported(self, dimension: Dimension, limit: float, period_s: float, now: float) -> Meter:
        """A full meter for a reported limit, not in force yet."""
        burst_s = self.settings.burst_s if period_s < DAY_S else None
        return Meter(dimension, limit, period_s, now, burst_s=burst_s, reported=True)

    def owe(self, debts: dict[str, float], now: float) -> None:
        """Others have used so many seconds of refill, by the names of meters. A reported level is better known."""
        for meter in self.meters:
            if meter.whole is None and not meter.levelled:
                meter.owe_until(now + debts.get(meter.name, 0.0))

    def begin_anew(self, now: float) -> None:
        """Others may have used all that was left, and they have their parts of what comes: begin with empty buckets."""
        for meter in self.meters:
            if meter.period_s < DAY_S and meter.name != MINIMUM_GAP:
                meter.owe_until(now + max(meter.depth_s, meter.reach_s))

    # -- learned limits --------------------------------------------------------------------------------

    @property
    def growth_rule(self) -> GrowthRule | None:
        """The cap on how fast use may grow, if there is one."""
        return None if self._growth is None else self._growth.rule

    def slow_growth(self, rate: float, mean: Costs, now: float) -> None:
        """Use grew too fast, at `rate` requests a second of `mean` costs: go on below that and grow slowly."""
        slower = slowed(self.growth_rule, rate, mean, now)
        if slower is not None:
            self._growth = slower
            self.select()

    def disprove(self, dimension: Dimension | None, rate: float, mean: Costs, now: float) -> None:
        """Refusals prove that the provider takes only `rate` requests a second, of `mean` costs: pace by that."""
        tightest = min(
            (meter for meter in self._configured if meter.name != MINIMUM_GAP and meter.period_s < DAY_S),
            key=lambda meter: meter.rate / mean[meter.place] if mean[meter.place] else NEVER,
        )
        place = tightest.place if dimension is None else DIMENSIONS.index(dimension)
        rates = tuple(rate * cost for cost in mean)
        self.finder = RateFinder(now, DIMENSIONS[place])
        self.finder.adopt(rates, place, LEAST_EVIDENCE_S, now)
        self.disproved = DisprovedLimit(
            DIMENSIONS[place], self._configured_limit(place), rates[place] * MINUTE_S
        )
        self.select()

    def _follow_doubt(self, pace: Pace, now: float) -> None:
        """Another job paces itself by what the provider accepts. If that is clearly less than what is configured here, so do we."""
        dimension = DIMENSIONS[pace.place]
        configured, accepted = self._configured_limit(pace.place), pace.rates[pace.place] * MINUTE_S
        if self.finder is not None or self._reported or not (self._configured and pace.evidence_s):
            return
        if not configured or accepted < NEARLY_ALL * configured:
            self.finder = RateFinder(now, dimension)
            self.disproved = DisprovedLimit(dimension, configured, accepted)

    def _configured_limit(self, place: int) -> float:
        return next((meter.limit for meter in self._configured if meter.place == place), 0.0)

    # -- limits of an earlier run ----------------------------------------------------------------------

    def recall(self, record: MeterRecord, now: float) -> bool:
        """Continue with a limit that an earlier run received or proved; the first new report corrects it.

        Returns whether it is a reported limit that was not known yet.
        """
        new = record.reported and self.reported(record.dimension, record.period_s) is None
        if new:
            self.add_reported(self.new_reported(record.dimension, record.limit, record.period_s, now))
        for meter in (*self._configured, *self._reported.values()):
            if meter.dimension is record.dimension and meter.period_s == record.period_s:
                meter.recall(record.depth_s, now, ceiling_s=record.ceiling_s, bottom=record.bottom)
        return new

    def recall_found(self, record: FoundRecord, evidence_s: float, now: float) -> None:
        """Continue with a rate that an earlier run found; `evidence_s` is how far it is still believed."""
        if self.finder is not None:
            place = DIMENSIONS.index(record.dimension)
            if record.window_s is None:
                self.finder.recall(record.rates, place, record.depth_s, evidence_s, now)
            else:
                self.finder.recall_windows(record.rates, place, record.window_s, now)
            self.select()

    def recall_disproved(self, record: DisprovedLimit, now: float) -> None:
        """An earlier run has proven a configured limit too high: search again, unless the configuration has changed since."""
        configured = self._configured_limit(DIMENSIONS.index(record.dimension))
        if self.finder is None and not self._reported and configured == record.configured:
            self.finder = RateFinder(now, record.dimension)
            self.disproved = record
            self.select()


def _limited_first(counting: Counting) -> Dimension:
    """The dimension that a provider with this way of counting most likely limits, until measurements show it."""
    return Dimension.TOKENS if counting.reserve_max_output else Dimension.INPUT


def _only_guessed(entry: Entry, limit: float) -> bool:
    """Whether the size is only learned from other units: a text this short cannot be so many tokens.

    Then the unit waits for a full bucket instead of failing. Its real size is known afterwards.
    """
    unit = entry.unit
    return bool(unit.chars) and MOST_TOKENS * unit.chars + (unit.estimate.max_output_tokens or 0) <= limit
