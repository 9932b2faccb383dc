"""One real rate-limit scope: its meters, its window, its holds, its queue of units.

A lane answers one question, *when may this unit start*, and learns from what comes back. It issues no
commands and knows no other lane; `scheduler.py` does the rest. The policy, from providers.md §4:

- A margin instead of a cut. A refusal does not lower the rate, which is known; it raises the reserve that
  stays in the bucket (×1.5, once per congestion event), and that decays with success.
- Headers first. Where the provider reports levels they move the meters, and usage does not move them again.
- A ramp. While a bucket may be deeper than is proven, each round trip goes further into it (`depth_ramp`).
- A canary. Headers come only with requests. A lane that has work, nothing in flight and has sent nothing for
  three seconds, longer than its own pace explains, sends one and looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import exp
from typing import TYPE_CHECKING, Final

from msgspec import structs

from headway.core.budget import Budget, Shortage
from headway.core.lanes import growth_cap, refusals, settling
from headway.core.lanes.breaker import Breaker, InvalidRun
from headway.core.lanes.depth_ramp import STEP_BURST_S, STEP_PACE, STEP_TIMES, DepthRamp
from headway.core.lanes.estimate import ENOUGH, Estimator
from headway.core.lanes.evidence import Evidence
from headway.core.lanes.fixed_window import WATCHED, BoundaryWatch, WindowMeter
from headway.core.lanes.flight_limit import FIRST_FLIGHT, FlightLimit
from headway.core.lanes.hold import Hold
from headway.core.lanes.job_share import WHOLE, Grant, Parts
from headway.core.lanes.latency_gauge import LatencyGauge
from headway.core.lanes.limit_doubt import DisprovedLimit, LimitDoubt
from headway.core.lanes.meter import CROSSING_S, MINIMUM_GAP, Meter, meters_of
from headway.core.lanes.other_clients import OtherClients
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry, Queue
from headway.core.lanes.queueing.stock import Stock
from headway.core.lanes.queueing.unit_order import UnitOrder
from headway.core.lanes.rate_finder import LEARNED, LEAST_EVIDENCE_S, Finder
from headway.core.lanes.window import Window
from headway.core.lanes.work_time import WorkTime
from headway.core.model import (
    DAY_S,
    DIMENSIONS,
    MINUTE_S,
    Costs,
    Counting,
    Dimension,
    GrowthRule,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    LimitReport,
    Outcome,
    Unit,
    Usage,
)
from headway.core.reasons import StopReason
from headway.core.retry import LONGEST_HINT_S, unpaid

if TYPE_CHECKING:
    from headway.core.lanes.lane_memory import MeterRecord

#: The reserve is this many times a meter's guard to begin with; what one success leaves of what refusals added (half
#: is gone after some 350).
CALM: Final = 1.0
CAUTION_DECAY: Final = 0.998
#: What the estimates of many requests are wrong by in sum: with sizes that were given, and with sizes guessed from characters
#: before any answer has said what a character is worth.
ESTIMATE_ERROR: Final = 0.04
GUESS_ERROR: Final = 0.2
#: After so many answers most of what was guessed before has been put right.
SETTLED: Final = 12 * ENOUGH
#: Silence after which a canary goes (providers.md §4.5).
CANARY_S: Final = 3.0
#: The most tokens that a character can be: rare letters are up to four bytes, and a token has at least one.
MOST_TOKENS: Final = 4.0
#: Time constant of the achieved rate in snapshots.
RATE_TAU_S: Final = 20.0


class Lane:
    """State and policy of one lane."""

    __slots__ = (
        "_boundaries", "_configured", "_growth", "_out", "_parts", "_reported", "_shared", "_step_at", "_step_gap_s", "_watched", "basis", "breaker", "broke",
        "caution", "depth_ramp", "disbelieved", "disproved", "doubt", "estimator", "evidence", "failed", "finder", "first_start_at", "flight", "flight_s",
        "gauge", "hold", "in_flight", "invalid_run", "key", "lane_budgets", "last_start_at", "leads", "limits",
        "limits_announced", "meters", "order", "others", "parked", "part", "places", "queue", "rate", "refused",
        "refused_at", "rendering", "seq", "shortage", "spec", "started", "stock", "stopped", "succeeded", "tokens",
        "tokens_in", "tokens_out", "unanswered", "wake_at", "window", "work_time",
    )  # fmt: skip

    def __init__(self, spec: LaneSpec, now: float, out: Mapping[int, Entry]) -> None:
        self.spec = spec
        self.key = spec.key
        self.queue = Queue()
        self.stock = Stock()
        self.order = UnitOrder(spec.order)
        if self.order.longest_first:
            self.queue.order_by(self.order.table)
        self.in_flight = 0
        self.unanswered = 0
        self.seq = 0
        self.hold = Hold()
        self.stopped: StopReason | None = None
        self.parked = False
        #: Whether it is stopped for want of money alone.
        self.broke = False
        self.lane_budgets: tuple[Budget, ...] = ()
        self.shortage = Shortage()
        self.breaker = Breaker()
        self.caution = CALM
        #: Whether refusals prove its configured limits too high; and what they have proven.
        self.doubt = LimitDoubt()
        self.disproved: DisprovedLimit | None = None
        #: How far beyond the proven depth its meters may go.
        self.depth_ramp = DepthRamp()
        #: While it tests how deep a bucket is: the time between two starts, and when the next may go.
        self._step_gap_s = 0.0
        self._step_at = ALWAYS
        self.first_start_at = NEVER
        self.last_start_at = ALWAYS
        self.invalid_run = InvalidRun()
        self.started = self.succeeded = self.failed = self.refused = 0
        self.tokens = self.tokens_in = self.tokens_out = 0.0
        self.rate = 0.0
        self.work_time = WorkTime(now)
        #: What bounds the number in flight where nothing else does.
        self.flight: FlightLimit | None = None
        #: How long attempts took, all in all.
        self.flight_s = 0.0
        self.wake_at = NEVER
        #: How many of its units wait for their request to be made.
        self.rendering = 0
        self._out = out
        self._configured: list[Meter] = []
        self._reported: dict[tuple[Dimension, float], Meter] = {}
        self.meters: tuple[Meter, ...] = ()
        #: Another object whenever what a unit is measured by has changed: the meters, or what units are expected to take.
        self.basis = object()
        self.limits = spec.limits
        #: What was last said of its limits.
        self.limits_announced: tuple[tuple[int, str], ...] = ()
        #: How much of its limits is ours, beside other jobs that use it.
        self.part = WHOLE
        #: Whether it is this job that finds out what the others want to know, too.
        self.leads = True
        #: How many may be in flight, where that is given out among jobs.
        self.places: int | None = None
        self._boundaries: dict[tuple[Dimension, float], BoundaryWatch] = {}
        self._parts = Parts()
        #: Whether other jobs use it or did: what they took is known only roughly.
        self._shared = False
        self._growth: growth_cap.GrowthCap | None = None
        self.finder = None if spec.limits.known else Finder(now, _limited_first(spec.counting))
        #: The share of a limit that somebody else on this key uses, where reports show it.
        self.others = 0.0
        self._watched = OtherClients(now)
        self.gauge = LatencyGauge()
        self.estimator = Estimator()
        self.evidence = Evidence()
        #: Whether a notice said that its provider reports what cannot be.
        self.disbelieved = False
        #: How many were in flight at the latest refusals of a blind lane.
        self.refused_at: deque[int] = deque(maxlen=refusals.ALWAYS_AT)
        self.window = Window(spec.limits.max_concurrency, rate_known=True)
        if spec.one_ahead:
            self.window.narrow()
        self.configure(spec.limits, now)

    def entry(self, unit: Unit) -> Entry:
        """A unit as the scheduler keeps it, with what it is expected to cost here."""
        entry = Entry(unit, self, unit.estimate, _NOTHING)
        self.estimate(entry)
        return entry

    def estimate(self, entry: Entry) -> None:
        """What a unit is expected to take, by what is known now. One that has been sent keeps to what it was sent with."""
        unit = entry.unit
        estimate = unit.estimate
        if unit.chars:
            estimate = self.estimator.estimate(
                unit.chars, estimate.max_output_tokens, unit.family, estimate.cost_usd
            )
        entry.estimate = estimate
        entry.costs = self.spec.counting.reserved(estimate)
        if unit.output_usd or unit.input_usd:
            self.reprice(entry)

    def reprice(self, entry: Entry) -> None:
        """What is set aside for a unit, by what is known now of such inputs, and of answers that nothing limits."""
        unit, known = entry.unit, self.estimator
        usd, guess = unit.estimate.cost_usd, False
        if unit.output_usd:
            usd += unit.output_usd * known.reserve(unit.family)
            guess = not known.proven(unit.family)
        if unit.input_usd:
            tokens = known.input_reserve(unit.family, unit.input_most, exact=not unit.open_input)
            usd += unit.input_usd * (tokens - unit.input_most)
            guess = guess or (unit.open_input and known.inputs_seen(unit.family) < ENOUGH)
        if usd != entry.estimate.cost_usd:
            entry.estimate = structs.replace(entry.estimate, cost_usd=usd)
        entry.guess = guess

    # -- limits ------------------------------------------------------------------------------------

    def configure(self, limits: LaneLimits, now: float) -> None:
        """Take configured limits, at the start or while running; levels carry over."""
        before = {meter.name: meter for meter in self._configured}
        self._configured = []
        new_depth = limits.burst_s != self.limits.burst_s
        for wanted in meters_of(limits, now):
            meter = before.get(wanted.name, wanted)
            meter.set_limit(wanted.limit, now)
            if new_depth and meter.name != MINIMUM_GAP:
                meter.redeepen(wanted)
            self._configured.append(meter)
        for meter in self._reported.values():
            if new_depth and meter.period_s < DAY_S:
                meter.redeepen(Meter(meter.dimension, meter.limit, now=now, burst_s=limits.burst_s))
        self.limits = limits
        if self.places is None:
            self.window.configure(self._allowed())
        else:
            self.window.scale(
                self._allowed(), 1.0
            )  # Its top is what other jobs leave: to be there says nothing.
        if limits.known:
            self.finder = self.disproved = None
            self.window.throw_open()
        self._bound_flight(now)
        self.select()

    def _bound_flight(self, now: float) -> None:
        """A lane that is known to have no limits follows its throughput; any limit makes that needless."""
        unlimited = (
            self.spec.follow_throughput
            and self.limits.known
            and not self._configured
            and not self._reported
            and not self._allowed()
        )
        if unlimited and self.flight is None:
            self.flight = FlightLimit(now)
            self.window.gauge(FIRST_FLIGHT)
        elif not unlimited and self.flight is not None:
            self.flight = None
            self.window.clear()

    def share(self, grant: Grant, now: float) -> None:
        """Keep to a part of every limit from now on: other jobs use this lane, too; or have gone."""
        ratio = grant.part / self.part
        self.part, self.places, self.leads = grant.part, grant.places, not grant.follows
        self.window.scale(self._allowed(), ratio)
        if self.finder is not None:
            self.finder.scale(ratio)
            if grant.follows:
                self.finder.follow(grant.pace, grant.part, now)
            else:
                self.finder.lead(now)
        self.others, self._watched = 0.0, OtherClients(now)
        self._shared = self._shared or self.part < WHOLE
        self.select()

    def _allowed(self) -> int | None:
        """How many may be in flight by the settings, if they say so."""
        most = self.limits.max_concurrency or None
        return most if most is None or self.places is None else min(most, self.places)

    def select(self) -> None:
        """The meters in force: all reported ones, and configured ones where nothing as tight is reported.

        Beside each the one of our part, while others use the lane.
        """
        loose = float("inf")
        reported = {key: meter.limit for key, meter in self._reported.items()}
        configured = [
            meter
            for meter in self._configured
            if meter.name == MINIMUM_GAP
            or meter.limit < reported.get((meter.dimension, meter.period_s), loose)
        ]
        learned = () if self.finder is None else (self.finder.meter,)
        growth = () if self._growth is None else (self._growth.meter,)
        told = (*configured, *self._reported.values())
        self.meters = (*told, *self._parts.of(told, self.part, leads=self.leads), *learned, *growth)
        for meter in self.meters:
            if meter.ramp is not None:
                meter.ramp = self.depth_ramp
            if meter.since_s < 0.0:
                meter.since_s = self.work_time.for_meter(meter)
        self.basis = self.meters

    def learn(
        self, entry: Entry, reports: tuple[LimitReport, ...], now: float, *, refused: bool = False
    ) -> None:
        """Take the limits and levels that the response to this attempt reported."""
        for report in reports:
            if report.limit <= 0.0 or self.evidence.disproves(report):
                continue
            meter = self._reported.get((report.dimension, report.period_s))
            if meter is None:
                self._meet(entry, report, refused=refused)
                continue
            if report.limit != meter.limit and entry.seq > meter.synced_seq:
                meter.set_limit(report.limit, now)
                self.select()
            try:
                mark = entry.marks[entry.meters.index(meter)]
            except ValueError:
                continue  # It was sent before this limit was known.
            cost = entry.costs[meter.place]
            meter.sync(report, mark, entry.started_at, entry.seq, cost, refused=refused)
            if entry.seq <= WATCHED and not refused and not meter.windowed:
                self._watch_boundary(meter, report, entry)
        if now >= self._watched.until:
            others = self._watched.look(self._reported.values(), now)
            self.others = others if self.part == WHOLE else 0.0  # It would be ourselves, in another job.

    def _watch_boundary(self, meter: Meter, report: LimitReport, entry: Entry) -> None:
        """Count by windows where the resets of a limit show that it comes in windows."""
        key = (report.dimension, report.period_s)
        watch = self._boundaries.get(key)
        if watch is None:
            watch = self._boundaries[key] = BoundaryWatch()
        boundary_at = watch.boundary(report, entry.started_at, meter.rate)
        if boundary_at is None or report.remaining is None or self.part < WHOLE:
            return
        window = WindowMeter(report.dimension, report.limit, report.period_s, boundary_at, entry.started_at)
        place = meter.place
        window.unit_s = self.mean_costs()[place] / window.rate
        window.used_s = meter.used_s
        window.adjust(
            report.limit - report.remaining + sum(costs[place] for costs in self.charged_after(entry))
        )
        window.used_s = meter.used_s
        window.debt_s, window.since_s = meter.debt_s, meter.since_s
        self._reported[key] = window
        self.select()

    def _meet(self, entry: Entry, report: LimitReport, *, refused: bool) -> None:
        """A limit is reported for the first time: its meter starts at the reported level, less what was sent since."""
        meter = Meter(
            report.dimension,
            report.limit,
            report.period_s,
            entry.started_at,
            burst_s=self.limits.burst_s if report.period_s < DAY_S else None,
            reported=True,
        )
        # Sends of one burst arrive in any order: an earlier one without an answer may have come later, too.
        since = [
            other
            for other in self._out.values()
            if other.lane is self
            and (
                other.seq > entry.seq
                or (not other.accepted and other.started_at > entry.started_at - CROSSING_S)
            )
            and other is not entry
        ]
        for sent in (entry, *since):
            mark = meter.reserve(sent.costs[meter.place], sent.started_at)
            sent.meters = (*sent.meters, meter)
            sent.marks.append(mark)
            if sent is entry:
                cost = entry.costs[meter.place]
                meter.sync(report, mark, entry.started_at, entry.seq, cost, refused=refused)
        meter.debt_s = max(0.0, meter.full_at - entry.started_at - meter.used_s)
        self.flight = None
        meter.begin_ramp(self.mean_costs()[meter.place], careful=self._unsure(entry, meter))
        self._reported[report.dimension, report.period_s] = meter
        self.finder = None
        self.window.throw_open()
        self.select()

    def recall(self, known: MeterRecord, now: float) -> None:
        """Go on with a limit that an earlier run was told or had proven; the first new report corrects it."""
        key = (known.dimension, known.period_s)
        if known.reported and key not in self._reported:
            burst_s = self.limits.burst_s if known.period_s < DAY_S else None
            meter = Meter(known.dimension, known.limit, known.period_s, now, burst_s=burst_s, reported=True)
            self._reported[key] = meter
            self.finder = None
            self.window.throw_open()
            self.select()
        for meter in (*self._configured, *self._reported.values()):
            if (meter.dimension, meter.period_s) == key:
                meter.recall(known.depth_s, now, ceiling_s=known.ceiling_s, bottom=known.bottom)

    def recall_found(
        self, rates: tuple[float, ...], dimension: Dimension, depth_s: float, evidence_s: float, now: float
    ) -> None:
        """Go on with a rate that an earlier run found by itself."""
        if self.finder is not None:
            self.finder.recall(rates, DIMENSIONS.index(dimension), depth_s, evidence_s, now)
            self.select()

    # -- when may it start ---------------------------------------------------------------------------

    def permit_at(self) -> float:
        """When there is a place in the window: ALWAYS or NEVER, or when one beyond it may go to test a suspicion."""
        window = self.window
        if self.finder is not None and self.unanswered >= self.finder.most_unanswered:
            return NEVER
        if self.in_flight < window.size:
            return ALWAYS
        return window.probe_at if self.in_flight == window.size else NEVER

    @property
    def full(self) -> bool:
        """Whether as many are out as may be."""
        if self.in_flight >= self.window.size:
            return True
        return self.finder is not None and self.unanswered >= self.finder.most_unanswered

    def when(self, entry: Entry, now: float) -> tuple[float, str]:
        """When this unit may start, by everything that the lane knows, and as what kind of probe (mostly none)."""
        hold = self.hold
        at = hold.until if hold.until > hold.paused_until else hold.paused_until
        if self._step_at > at:
            at = self._step_at
        caution = self.caution
        costs = entry.costs
        for meter in self.meters:  # Meter.ready_at, written out: this is the hottest line there is.
            slack = meter.reach_s - caution * meter.guard_s - meter.safety * costs[meter.place] / meter.rate
            ready = meter.full_at - slack if slack > 0.0 else meter.full_at
            if ready > at:
                at = ready
        if self.breaker.opened_at is not None:
            return (NEVER if self.in_flight else max(at, self.permit_at(), self.breaker.probe_at)), "breaker"
        if self.in_flight >= self.window.size or (self.finder is not None and self.full):
            return max(at, self.permit_at()), "window"
        return (at, "") if at <= now else self.sooner(entry, at)

    def canary_at(self, entry: Entry) -> float:
        """When a silent lane sends one just to see; NEVER where its silence needs no explanation."""
        if not self._reported:
            return NEVER
        gap_s = max(entry.costs[meter.place] / meter.rate for meter in self.meters)
        return max(self.hold.open_at, self.last_start_at + max(CANARY_S, 2.0 * gap_s))

    def sooner(self, entry: Entry, at: float) -> tuple[float, str]:
        """An earlier instant at which it may go all the same, and as what kind of probe."""
        if not self.in_flight and (canary_at := self.canary_at(entry)) < at:
            return canary_at, "canary"
        return at, ""

    def too_large(self, entry: Entry) -> str:
        """Why this unit can never fit, with the numbers; empty where it can."""
        for meter in self.meters:
            cost = entry.costs[meter.place]
            passing = meter.name in (LEARNED, growth_cap.GROWTH_CAP) or meter.whole is not None
            if cost > meter.limit and meter.dimension is not Dimension.REQUESTS and not passing:
                if self.evidence.exceeds(meter) or self._only_guessed(entry, meter.limit):
                    continue
                what = meter.dimension.replace("_", " ")
                return f"it needs {cost:,.0f} {what}, and the lane's limit is {meter.limit:,.0f} {meter.name}"
        return ""

    @staticmethod
    def _only_guessed(entry: Entry, limit: float) -> bool:
        """Whether the size is learned from other units alone: a text this short cannot be so many tokens.

        Then the unit waits for a full bucket instead of failing: what it really takes is known afterwards.
        """
        unit = entry.unit
        return bool(unit.chars) and MOST_TOKENS * unit.chars + (unit.estimate.max_output_tokens or 0) <= limit

    def binding(self, entry: Entry) -> Meter | None:
        """The meter that this unit waits for longest."""
        return max(
            self.meters,
            key=lambda meter: meter.ready_at(entry.costs[meter.place], self.caution),
            default=None,
        )

    # -- an attempt's life -----------------------------------------------------------------------------

    def charge(self, entry: Entry, now: float, probe: str = "") -> None:
        """Take the permit and charge the meters: the attempt begins."""
        if self.finder is not None:
            self._pace_blind(self.finder, now)
        if self._growth is not None:
            self._growth.ease(now)
        self.seq += 1
        self.in_flight += 1
        self.started += 1
        self.unanswered += 1
        entry.flight = self.in_flight
        entry.seq = self.seq
        entry.started_at = now
        entry.epoch = self.window.epoch
        entry.accepted = False
        entry.tries += 1
        entry.cancel_reason = ""
        entry.probe = probe
        if self.finder is not None:
            self.finder.sent(entry.costs)
        costs = entry.charged = entry.costs
        meters = entry.meters = self.meters
        entry.marks = [meter.reserve(costs[meter.place], now) for meter in meters]
        _, tokens, tokens_in, tokens_out = costs
        self.tokens += tokens
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        if self._step_gap_s:
            self._step_at = max(now - STEP_BURST_S, self._step_at) + self._step_gap_s
        if now < self.first_start_at:
            self.first_start_at = now
            self._begin_ramps(entry, now)
        gap_s = now - self.last_start_at
        if gap_s > 0.0:
            self.rate *= exp(-gap_s / RATE_TAU_S)
            if probe != "breaker":
                waited_since = max(self.last_start_at, self.work_time.free_at, entry.not_before)
                self.work_time.add(now - waited_since, self.part, self.window)
            self.last_start_at = now
        self.rate += 1.0 / RATE_TAU_S

    def _begin_ramps(self, entry: Entry, now: float) -> None:
        """The first attempt says how large a step of the depth's ramp is."""
        for meter in self.meters:
            meter.begin_ramp(entry.costs[meter.place], careful=self._unsure(entry, meter))
            self._brace(meter, entry, now)
        refill = max((1.0 / meter.unit_s for meter in self.meters if meter.unit_s), default=0.0)
        if any(meter.shallow and not meter.reported for meter in self.meters):
            self._step_gap_s = 1.0 / max(STEP_PACE, STEP_TIMES * refill)

    def end_steps(self) -> None:
        """The depth is known: starts need no more time between them than the meters say."""
        self._step_gap_s, self._step_at = 0.0, ALWAYS

    def _unsure(self, entry: Entry, meter: Meter) -> bool:
        """Whether a meter's debt may be far from the provider's: other jobs use it or did, or few answers have said what a character costs."""
        guessed = entry.unit.chars > 0 and self.estimator.reports < SETTLED
        return self._shared or (guessed and meter.dimension is not Dimension.REQUESTS)

    def _brace(self, meter: Meter, entry: Entry, now: float) -> None:
        """Keep more in reserve where much is sent at once: its estimates are wrong in sum, and nothing corrects them yet."""
        if meter.ramp is not None and meter.guard_s > 0.0:
            error_s = (GUESS_ERROR if self._unsure(entry, meter) else ESTIMATE_ERROR) * (
                meter.reach_s + now - meter.full_at
            )
            self.caution = max(self.caution, CALM + error_s / meter.guard_s)

    def admitted(self, entry: Entry, hint: Hint | None, now: float, usage: Usage | None = None) -> None:
        """The provider took the attempt, and perhaps said what is left or what the input came to."""
        if usage is not None and not entry.accepted:
            settling.correct_input(self, entry, usage)
        self._note_accepted(entry, usage)
        if hint is not None and hint.reports:
            self.learn(entry, hint.reports, now)
        if entry.accepted:
            return
        entry.accepted = True
        self.unanswered -= 1
        if self.window.kept:
            self.went_ahead(entry)
        elif self.flight is None:
            self.window.succeeded(self.in_flight, first_try=entry.tries == 1)
        if entry.probe == "window":
            self.window.doubt(now)
        for meter in entry.meters:
            if meter.ramp is not None and now >= meter.ramp.rest_until and meter.shallow:
                self._deepen(entry, () if hint is None else hint.reports, now)
                break
        if usage is not None and self.spec.counting.cached_free:
            settling.credit_cached(self, entry, usage.cached_input_tokens, now)
        if self.finder is not None:
            self.finder.accepted(now)

    def _note_accepted(self, entry: Entry, usage: Usage | None) -> None:
        """A request of this size was accepted. Where cached input is free, only its usage says what of it was counted."""
        sure_in = entry.charged[2]
        if self.spec.counting.cached_free:
            sure_in = 0.0 if usage is None else usage.input_tokens - usage.cached_input_tokens
        self.evidence.accepted(entry.charged, sure_in)

    def went_ahead(self, entry: Entry) -> None:
        """An attempt met no limit: if it is the one that the rest wait for, they may go."""
        if self.window.kept and entry.epoch == self.window.epoch:
            self.window.widen()

    def first_words(self, entry: Entry, now: float) -> None:
        """The first headers of an attempt are here before its answer: a blind lane hears from them of a queue."""
        if self.finder is not None and not entry.accepted:
            size = self.gauge.observe(now - entry.started_at, self.in_flight, self.window.size)
            if size is not None:
                self.window.gauge(size)

    def _deepen(self, entry: Entry, reports: tuple[LimitReport, ...], now: float) -> None:
        """An accepted attempt proves the debt that it was sent at."""
        mean = self.mean_costs()
        before_s = self.depth_ramp.proven_s
        for meter, mark in zip(entry.meters, entry.marks, strict=True):
            if meter.shallow:
                marked_s = mark + meter.shift - entry.started_at
                debt_s = meter.reported_debt_s(reports) if meter.reported else marked_s
                meter.accepted(debt_s, mean[meter.place], now, careful=self._unsure(entry, meter))
        if self.depth_ramp.proven_s > before_s:
            for meter in self.meters:
                meter.deepen(meter.proven_s, now)
                self._brace(meter, entry, now)
            if not any(meter.shallow for meter in self.meters):
                self.end_steps()
        if self.part < WHOLE:
            self.select()

    def release(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Give the permit back and settle the meters, exactly once."""
        hint = outcome.hint
        if outcome.kind is None:
            if self.order.lengths is not None:
                self.order.learn(entry.unit, now - entry.started_at)
            self._note_accepted(entry, outcome.usage)
            if not entry.accepted:
                self.admitted(entry, hint, now)
            if self.caution > CALM:
                self.caution = CALM + (self.caution - CALM) * CAUTION_DECAY
        elif hint is not None and hint.reports:
            self.learn(entry, hint.reports, now, refused=True)
        if self.flight is not None and outcome.kind is None:
            size = self.flight.finished(now, self.in_flight, self.window.size)
            if size is not None:
                self.window.gauge(size)
        self.in_flight -= 1
        self.flight_s += now - entry.started_at
        if not entry.accepted:
            self.unanswered -= 1
        if outcome.usage is not None:
            settling.settle(self, entry, outcome.usage)
            unit = entry.unit
            if (unit.chars or unit.input_most) and not outcome.usage.partial:
                self.estimator.learn(unit.chars, unit.family, outcome.usage, unit.input_most)
                if self.estimator.reports in _MILESTONES:
                    self.basis = object()
        elif unpaid(outcome):
            settling.refund(self, entry)

    # -- refusals ---------------------------------------------------------------------------------------

    def throttled(self, entry: Entry, outcome: Outcome, now: float) -> float:
        """Learn from a refusal that said "later"; returns when this unit may try again."""
        self.refused += 1
        hint = outcome.hint or _NO_HINT
        if outcome.kind is Kind.RATE:
            refusals.of_rate(self, entry, hint, now)
        elif outcome.kind is Kind.CONCURRENCY:
            self.flight = None  # The provider says that its number is limited.
            self.window.refused(entry.epoch, self.in_flight + 1)
        if self.spec.one_ahead:
            self.window.narrow()
        held_until = self.heed(outcome, now)
        if held_until is not None:
            return held_until
        return ALWAYS if hint.retry_after_s is None else now + hint.retry_after_s

    def heed(self, outcome: Outcome, now: float) -> float | None:
        """Close the lane where the provider said to come back later than a unit alone should wait for."""
        wait_s = outcome.hint.retry_after_s if outcome.hint is not None else None
        if wait_s is None and outcome.kind is Kind.HOLD:
            wait_s = self.spec.retry.default_wait_s
        if wait_s is None or (outcome.kind is not Kind.HOLD and wait_s <= LONGEST_HINT_S):
            return None
        until = now + wait_s + self.spec.retry.hold_margin_s
        self.hold.extend(until, outcome.message or "the provider said so")
        return self.hold.until

    def deepest_s(self, meter: Meter, entry: Entry) -> float:
        """The largest debt of a meter that this attempt, or one that is in flight, was sent at."""
        return max(
            one.marks[one.meters.index(meter)] + meter.shift - one.started_at
            for one in (entry, *self._out.values())
            if one.lane is self and meter in one.meters
        )

    def charged_after(self, entry: Entry) -> list[Costs]:
        """What is in flight here and was sent after this attempt."""
        return [other.charged for other in self._out.values() if other.lane is self and other.seq > entry.seq]

    def _pace_blind(self, finder: Finder, now: float) -> None:
        meter = finder.meter
        finder.advance(now)
        if finder.meter is not meter:
            self.select()

    @property
    def levelled(self) -> bool:
        """Whether its provider reports limits."""
        return bool(self._reported)

    def disprove(self, dimension: Dimension | None, found: float, since: float, now: float) -> None:
        """Refusals prove that the provider takes only so many requests a second: pace by that."""
        mean = self.mean_costs()
        tightest = min(
            (meter for meter in self._configured if meter.name != MINIMUM_GAP and meter.period_s < DAY_S),
            key=lambda meter: meter.rate / mean[meter.place] if mean[meter.place] else NEVER,
        )
        place = tightest.place if dimension is None else DIMENSIONS.index(dimension)
        rates = tuple(found * cost for cost in mean)
        self.finder = Finder(now, DIMENSIONS[place])
        self.finder.adopt(rates, place, LEAST_EVIDENCE_S, now)
        configured = next((meter.limit for meter in self._configured if meter.place == place), 0.0)
        self.disproved = DisprovedLimit(DIMENSIONS[place], configured, rates[place] * MINUTE_S)
        self.window.epoch += 1
        self.caution = CALM
        self.select()

    def recall_disproved(self, known: DisprovedLimit, now: float) -> None:
        """An earlier run has proven a configured limit too high: search from what it found, if nothing else is configured since."""
        place = DIMENSIONS.index(known.dimension)
        configured = next((meter.limit for meter in self._configured if meter.place == place), 0.0)
        if self.finder is None and not self._reported and configured == known.configured:
            self.finder = Finder(now, known.dimension)
            self.disproved = known
            self.select()

    def slow_down(self, entry: Entry, now: float) -> None:
        """The provider minds how fast the use grows; ten refusals of one burst say so once."""
        if entry.epoch != self.window.epoch:
            return
        self.window.epoch += 1
        slower = growth_cap.slowed(self.growth_rule, self.rate_at(now), self.mean_costs(), now)
        if slower is not None:
            self._growth = slower
            self.select()

    def drop_probe(self, entry: Entry) -> None:
        """Its attempt has ended."""
        entry.probe = ""

    @property
    def growth_rule(self) -> GrowthRule | None:
        """The cap on how fast its use may grow, if it has one."""
        return None if self._growth is None else self._growth.rule

    @property
    def at_floor(self) -> bool:
        """Whether the lane has no way left to be gentler."""
        slowest = self.finder is not None and self.finder.slowest
        return slowest or self.window.size <= 1 or self.caution >= refusals.ALARMED

    # -- what is left to do -----------------------------------------------------------------------------

    @property
    def spent(self) -> bool:
        """Whether neither the source nor the queue has anything for it."""
        return self.stock.exhausted and not self.queue and not self.rendering

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight, nothing is on its way here and nothing will start by itself."""
        return not self.in_flight and not self.stock.fetching and (bool(self.stopped) or self.spent)

    def rate_at(self, now: float) -> float:
        """Starts a second, lately."""
        if not self.started:
            return 0.0
        seen = 1.0 - exp(-max(1.0, now - self.first_start_at) / RATE_TAU_S)
        return self.rate * exp(-(now - self.last_start_at) / RATE_TAU_S) / seen

    def mean_costs(self) -> Costs:
        """What a unit of this lane has reserved on average so far."""
        started = self.started or 1
        return (1.0, self.tokens / started, self.tokens_in / started, self.tokens_out / started)

    def limits_in_force(self) -> tuple[tuple[int, str], ...]:
        """How much, and the name of each limit; our part of a shared limit is not one."""
        return tuple((round(meter.limit), meter.name) for meter in self.meters if meter.whole is None)

    # -- closing and opening ----------------------------------------------------------------------------

    def reopen(self, now: float) -> None:
        """Lift hold, stop and breaker."""
        self.hold.lift(now)
        self.work_time.free(now)
        self.stopped = None
        self.parked = self.broke = False
        self.breaker = Breaker(heard=self.breaker.heard)


_NO_HINT: Final = Hint()
_NOTHING: Final = (1.0, 0.0, 0.0, 0.0)
#: Reports after which queued units are looked at anew: often at first, while each says much.
_MILESTONES: Final = frozenset({1, *(ENOUGH * 2**power for power in range(20))})


def _limited_first(counting: Counting) -> Dimension:
    """The dimension that a provider which counts like this most likely limits, until measurements tell."""
    return Dimension.TOKENS if counting.reserve_max_output else Dimension.INPUT
