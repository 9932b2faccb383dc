"""One real rate-limit scope: its meters, its window, its holds, its queue of units.

A lane answers one question, *when may this unit start*, and learns from every answer. It issues no
commands and knows no other lane; `scheduler.py` does the rest. The policy, from providers.md §4:

- A margin instead of a cut. A refusal does not lower the rate, which is known. It raises the reserve that
  stays in the bucket (×1.5, once per congestion event); the reserve decays with each success.
- Headers first. If the provider reports levels, they move the meters, and usage does not move them again.
- A ramp. While a bucket may be deeper than is proven, each round trip goes further into it (`depth_ramp`).
- A canary. Headers come only with answers. A lane that has work and nothing in flight, and has sent nothing for
  three seconds and for longer than its own pace explains, sends one request to learn its level.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import structs

from headway.core.budget import Budget, Shortage
from headway.core.lanes import refusals, settling
from headway.core.lanes.account import AccountKey, AccountWindows, hold_scope
from headway.core.lanes.breaker import Breaker, InvalidRun
from headway.core.lanes.hold import Hold
from headway.core.lanes.in_flight.flight_limit import FIRST_BLIND_FLIGHT, FlightLimit
from headway.core.lanes.in_flight.latency_gauge import LatencyGauge
from headway.core.lanes.in_flight.sent_attempts import SentAttempts
from headway.core.lanes.in_flight.shared_cap import SharedCap
from headway.core.lanes.in_flight.unwritten import Unwritten
from headway.core.lanes.in_flight.window import Window
from headway.core.lanes.job_share import WHOLE, Grant
from headway.core.lanes.learning.limit_doubt import LimitDoubt
from headway.core.lanes.learning.reported_limits import ReportedLimits
from headway.core.lanes.meters.caution import ALARMED, CALM, Caution
from headway.core.lanes.meters.depth_steps import DepthSteps
from headway.core.lanes.meters.limit_meters import LimitMeters
from headway.core.lanes.meters.meter import Meter
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry, Queue
from headway.core.lanes.queueing.stock import Stock
from headway.core.lanes.queueing.unit_order import UnitOrder
from headway.core.lanes.traffic import Traffic
from headway.core.lanes.unit_costs import UnitCosts
from headway.core.lanes.work_time import WorkTime
from headway.core.model import Hint, Kind, LaneLimits, LaneSpec, LimitReport, Outcome, Unit, Usage
from headway.core.reasons import StopReason
from headway.core.retry import LONGEST_HINT_S, THROTTLES, unpaid

if TYPE_CHECKING:
    from headway.core.lanes.lane_memory import MeterRecord

#: A canary is sent after so long without a start (providers.md §4.5).
CANARY_S: Final = 3.0
#: With fewer units left than this, a lane looks whether its reserve is larger than they need: a share of what they cost, because
#: estimates are wrong by less than that. It keeps this much to the end: the jitter of the network, there and back (0.15 s each way).
LAST: Final = 64
LAST_RESERVE_S: Final = 0.3
#: In its first second, the pace of a lane is what has succeeded by the time since its first start, at least this long.
FIRST_S: Final = 1.0
LEAST_S: Final = 0.02
LAST_SHARE: Final = 0.25


class LaneState:
    """State and policy of one lane."""

    __slots__ = (
        "account", "breaker", "broke", "cap", "caution", "cluster_places", "crowded_out", "disbelieved", "doubt", "failed", "flight", "flight_s", "gauge",
        "good_seq", "hold", "in_flight",
        "invalid_run", "key", "lane_budgets", "limits", "limits_announced", "memory_announced", "memory_places", "order", "parked", "queue", "refused",
        "refused_at", "rendering", "reported", "sent", "seq", "shortage", "spec", "steps", "stock", "stopped", "succeeded", "traffic",
        "unanswered", "unit_costs", "unwritten", "wake_at", "window", "windows",
        "work_time",
    )  # fmt: skip

    def __init__(self, spec: LaneSpec, now: float, out: Mapping[int, Entry]) -> None:
        self.spec = spec
        self.key = spec.key
        # The account that it belongs to, and what is known of its windows; the scheduler joins those of one account.
        self.account = AccountKey(spec.account, spec.account_model)
        self.windows = AccountWindows()
        # Units, and how many of them wait for their request to be made.
        self.queue = Queue()
        self.stock = Stock()
        self.order = UnitOrder(spec.order)
        if self.order.longest_first:
            self.queue.order_by(self.order.table)
        self.rendering = 0
        self.wake_at = NEVER
        #: Whether it waits for a place among all attempts of the run: the next one that ends may start a unit.
        self.crowded_out = False
        # What closes the lane. `broke`: it is stopped only because the budget is spent.
        self.hold = Hold()
        self.stopped: StopReason | None = None
        self.parked = self.broke = False
        self.lane_budgets: tuple[Budget, ...] = ()
        self.shortage = Shortage()
        self.breaker = Breaker()
        self.invalid_run = InvalidRun()
        # Attempts: in flight, without an answer, the number of the latest; and totals.
        self.in_flight = self.unanswered = self.seq = 0
        #: The number of the latest send that has succeeded.
        self.good_seq = 0
        self.sent = SentAttempts(self, out)
        self.unwritten = Unwritten()
        self.traffic = Traffic()
        self.succeeded = self.failed = self.refused = 0
        self.work_time = WorkTime(now)
        #: The sum of the durations of all attempts.
        self.flight_s = 0.0
        # Limits of rates.
        self.unit_costs = UnitCosts(spec.counting)
        self.limits = LimitMeters(spec, self.work_time, now)
        self.caution = Caution()
        self.steps = DepthSteps(self.limits, self.traffic, self.unit_costs.estimator, self.caution)
        self.reported = ReportedLimits(self.limits, self.steps, self.traffic, self.sent, now)
        #: Whether refusals prove its configured limits too high.
        self.doubt = LimitDoubt()
        #: The limits of the latest notice, and whether a notice said that the provider reports impossible usage.
        self.limits_announced: tuple[tuple[int, str], ...] = ()
        self.disbelieved = False
        # Limits of the number in flight. `flight` follows the throughput where nothing else limits it.
        self.window = Window(spec.limits.max_concurrency, rate_known=True)
        self.flight: FlightLimit | None = None
        self.gauge = LatencyGauge()
        #: How many fit into the memory that its processes may take; None: any number.
        self.memory_places: int | None = None
        self.memory_announced = False
        #: How many can run on the cluster that it uses; None: it uses none.
        self.cluster_places: int | None = None
        #: This job's places of a number in flight that several jobs share.
        self.cap = SharedCap()
        #: How many were in flight at the latest refusals, while no limit is known.
        self.refused_at: deque[int] = deque(maxlen=refusals.ALWAYS_AT)
        if spec.one_ahead:
            self.window.narrow()
        self.configure(spec.limits, now)

    def entry(self, unit: Unit) -> Entry:
        """The scheduler's entry for a unit, with the costs that are expected on this lane."""
        entry = Entry(unit, self, unit.estimate, _NOTHING)
        self.unit_costs.estimate(entry)
        return entry

    # -- limits ------------------------------------------------------------------------------------

    def configure(self, limits: LaneLimits, now: float) -> None:
        """Take configured limits, at the start or while running; levels carry over."""
        self.limits.configure(limits, now)
        self.cap.configure(self.window, self._most)
        if limits.known:
            self.window.throw_open()
        self._bound_flight(now)

    def _bound_flight(self, now: float) -> None:
        """Follow the throughput where no number in flight is configured and the lane does not search for its limits."""
        limits = self.limits
        paced = bool(limits.configured) or limits.levelled
        follows = self.spec.follow_throughput and (paced or limits.settings.known) and self._most is None
        if not follows and self.flight is not None:
            self.flight = None
            self.window.clear()
        elif follows and (self.flight is None or paced != self.flight.paced):
            self.flight = FlightLimit(now, self.seq, paced=paced)
            self.window.follow(self.flight.first)

    def _bound_blind_flight(self, now: float) -> None:
        """Follow the throughput in a search without a refusal, once much is in flight: a server may queue instead of refusing.

        Answers that come in one piece have no first headers by which `LatencyGauge` would notice.
        """
        finder = self.limits.finder
        searches = finder is not None and finder.mode == "ramp" and not finder.follows and not self.refused
        if (
            searches
            and self.spec.follow_throughput
            and self.in_flight >= FIRST_BLIND_FLIGHT
            and self._most is None
        ):
            self.flight = FlightLimit(now, self.seq, first=FIRST_BLIND_FLIGHT)
            self.window.follow(FIRST_BLIND_FLIGHT)

    def share(self, grant: Grant, now: float) -> None:
        """Keep to a part of every limit from now on: other jobs use this lane, too, or have ended."""
        ratio = grant.part / self.limits.part
        self.limits.share(grant, now)
        self.cap.take(grant, self.window, self._most, ratio)
        self.reported.forget_others(now)
        news = self.cap.hear(grant)
        if not grant.follows:
            refusals.of_others(self, news, now)

    @property
    def _most(self) -> int | None:
        """How many may be in flight by the settings, by what fits into memory and into the cluster; None: any number."""
        found = (self.limits.settings.max_concurrency, self.memory_places, self.cluster_places)
        return min((most for most in found if most), default=None)

    def fit_into_memory(self, places: int | None) -> None:
        """So many processes fit into memory. Those that run stay."""
        self.memory_places = places
        self.cap.configure(self.window, self._most)

    def fit_into_cluster(self, places: int) -> None:
        """So many can run on the cluster. Those that run stay."""
        self.cluster_places = places
        self.cap.configure(self.window, self._most)

    def learn(
        self, entry: Entry, reports: tuple[LimitReport, ...], now: float, *, refused: bool = False
    ) -> None:
        """Learn the limits and levels that the response to this attempt reported."""
        if self.reported.learn(entry, reports, now, refused=refused):
            self.window.throw_open()
            if self.window.open or self.flight is not None:
                self._bound_flight(now)
        self.limits.level_parts()

    def recall(self, record: MeterRecord, now: float) -> None:
        """Continue with a limit that an earlier run received or proved."""
        if self.limits.recall(record, now):
            self.window.throw_open()
            self._bound_flight(now)

    # -- when may it start ---------------------------------------------------------------------------

    def permit_at(self) -> float:
        """When the window has a place: ALWAYS, NEVER, or the instant at which one attempt beyond it may test a suspicion."""
        window, finder = self.window, self.limits.finder
        if finder is not None and self.unanswered >= finder.most_unanswered(late=self.gauge.late):
            return NEVER
        if self.in_flight < window.size:
            return ALWAYS
        return window.probe_at if self.in_flight == window.size and self.cap.full else NEVER

    def starts_nothing_before(self, at: float) -> bool:
        """Whether its pace, and not an answer that another attempt waits for, decides when its next unit starts, and that is later."""
        return self.wake_at > at and self.in_flight < self.window.size and not self.crowded_out

    @property
    def full(self) -> bool:
        """Whether no more attempts may be in flight."""
        if self.in_flight >= self.window.size:
            return True
        finder = self.limits.finder
        return finder is not None and self.unanswered >= finder.most_unanswered(late=self.gauge.late)

    def when(self, entry: Entry, now: float) -> tuple[float, str]:
        """The earliest instant at which this unit may start, and as what kind of probe (mostly none)."""
        hold = self.hold
        at = hold.until if hold.until > hold.paused_until else hold.paused_until
        steps = self.steps
        if steps.next_at > at:
            at = steps.next_at
        caution = self.caution.level
        limits = self.limits
        costs = entry.costs
        if self.stock.exhausted and len(self.queue) < LAST and limits.part == WHOLE:
            caution = self._last_caution(entry, caution)
        for meter in limits.meters:  # Meter.ready_at, inlined: no other line runs as often.
            slack = meter.reach_s - caution * meter.guard_s - meter.safety * costs[meter.place] / meter.rate
            ready = meter.full_at - slack if slack > 0.0 else meter.paid_at(costs[meter.place], caution)
            if ready > at:
                at = ready
        if self.breaker.opened_at is not None:
            if not self.breaker.may_probe(self.in_flight):
                return NEVER, "breaker"
            return max(at, self.permit_at(), self.breaker.probe_at), "breaker"
        if self.in_flight >= self.window.size or (limits.finder is not None and self.full):
            return max(at, self.permit_at()), "window"
        if at > now:
            return self.sooner(entry, at)
        if self.unwritten.count and not self.unwritten.leave_room(limits.meters, costs, caution):
            return NEVER, ""
        return at, ""

    def waits_for_connections(self, entry: Entry) -> bool:
        """Whether the unit fits only after requests have been written that started before it."""
        unwritten = self.unwritten
        return unwritten.count > 0 and not unwritten.leave_room(
            self.limits.meters, entry.costs, self.caution.level
        )

    def _last_caution(self, entry: Entry, caution: float) -> float:
        """The reserve for one of the last units: no more than those that follow it may need."""
        left = len(self.queue) + self.rendering
        needed = [
            max(LAST_RESERVE_S, LAST_SHARE * left * entry.costs[meter.place] / meter.rate) / meter.guard_s
            for meter in self.limits.meters
            if meter.guard_s
        ]
        return min(caution, max(needed, default=caution))

    def canary_at(self, entry: Entry) -> float:
        """When a silent lane sends a canary; NEVER if no levels are reported."""
        if not self.limits.levelled:
            return NEVER
        gap_s = max(entry.costs[meter.place] / meter.rate for meter in self.limits.meters)
        last_at = self.traffic.last_start_at
        return max(self.hold.open_at, last_at + max(CANARY_S, 2.0 * gap_s, self.limits.closed_s(last_at)))

    def sooner(self, entry: Entry, at: float) -> tuple[float, str]:
        """`at`, or an earlier instant at which the unit may start as a canary; and the kind of probe."""
        if not self.in_flight and (canary_at := self.canary_at(entry)) < at:
            return canary_at, "canary"
        return at, ""

    def binding(self, entry: Entry) -> Meter | None:
        """The meter that this unit waits for longest."""
        return max(
            self.limits.meters,
            key=lambda meter: meter.ready_at(entry.costs[meter.place], self.caution.level),
            default=None,
        )

    # -- an attempt's life -----------------------------------------------------------------------------

    def charge(self, entry: Entry, now: float, probe: str = "") -> None:
        """Take the permit and charge the meters: the attempt begins."""
        limits, traffic, steps = self.limits, self.traffic, self.steps
        costs = entry.charged = entry.costs
        if limits.learning:
            limits.start(costs, now)
        self.seq += 1
        self.in_flight += 1
        self.unanswered += 1
        entry.flight = self.in_flight
        entry.seq = self.seq
        entry.started_at = now
        entry.epoch = self.window.epoch
        entry.accepted = False
        entry.tries += 1
        entry.cancel_reason = ""
        entry.probe = probe
        if probe == "breaker":
            self.breaker.probe_seq = self.seq
        meters = entry.meters = limits.meters
        if self.unwritten.count:
            self.unwritten.hold_back(meters, now)
        entry.marks = [meter.reserve(costs[meter.place], now) for meter in meters]
        if self.unwritten.count:
            self.unwritten.unmark(entry)
        if steps.gap_s:
            steps.started(now)
        if now < traffic.first_start_at:
            steps.begin(entry, now)
        if now > traffic.last_start_at and probe != "breaker":
            waited_since = max(traffic.last_start_at, self.work_time.free_at, entry.not_before)
            self.work_time.add(now - waited_since, limits.part, self.window)
        traffic.start(costs, now)

    def delayed(self, entry: Entry) -> None:
        """The request of an attempt cannot be written yet."""
        if entry.unwritten is None:
            entry.unwritten = entry.charged
            self.unwritten.add(entry.charged)

    def written(self, entry: Entry, now: float) -> None:
        """A request that could not be written at once has been written: the attempt began at this instant."""
        if entry.unwritten is not None:
            self._forget_unwritten(entry)
            self.unwritten.charge(entry, self.limits.meters, now)
            entry.started_at = now

    def _forget_unwritten(self, entry: Entry) -> None:
        """It does not wait to be written any more."""
        if entry.unwritten is not None:
            self.unwritten.remove(entry.unwritten)
            entry.unwritten = None

    def admitted(self, entry: Entry, hint: Hint | None, now: float, usage: Usage | None = None) -> None:
        """The provider accepted the attempt. It may have reported what is left, and the size of the input."""
        if usage is not None and not entry.accepted:
            settling.correct_input(self, entry, usage)
        self._note_accepted(entry, usage)
        self._accept(entry, hint, now, usage)

    def _accept(self, entry: Entry, hint: Hint | None, now: float, usage: Usage | None = None) -> None:
        if hint is not None and hint.reports:
            self.learn(entry, hint.reports, now)
        if entry.accepted:
            return
        entry.accepted = True
        self.unanswered -= 1
        if self.window.kept:
            self.went_ahead(entry)
        elif self.flight is None and (self.cap.full or self.window.size < self.window.ceiling):
            self.window.succeeded(self.in_flight, first_try=entry.tries == 1)
        if entry.probe == "window":
            self.window.doubt(now)
        for meter in entry.meters:
            if meter.ramp is not None and now >= meter.ramp.rest_until and meter.shallow:
                self.steps.accepted(entry, () if hint is None else hint.reports, now, self.unstarted)
                break
        if usage is not None and self.spec.counting.cached_free:
            settling.credit_cached(self, entry, usage.cached_input_tokens, now)
        if self.limits.finder is not None:
            self.limits.finder.accepted(now, entry.started_at, self.unstarted)

    def _note_accepted(self, entry: Entry, usage: Usage | None) -> None:
        """A request of this size was accepted. If cached input is free, only the usage shows how much was counted."""
        sure_in = entry.charged[2]
        if self.spec.counting.cached_free:
            sure_in = 0.0 if usage is None else usage.input_tokens - usage.cached_input_tokens
        self.limits.evidence.accepted(entry.charged, sure_in)

    def went_ahead(self, entry: Entry) -> None:
        """An attempt met no limit. If the others wait for it, they may start."""
        if self.window.kept and entry.epoch == self.window.epoch:
            self.window.widen()

    def headers_arrived(self, entry: Entry, now: float) -> None:
        """An attempt has its first headers. If the limits are unknown, the time until then shows a queue at the server."""
        if self.limits.finder is not None and not entry.accepted:
            size = self.gauge.observe(now - entry.started_at, self.in_flight, self.window.size)
            if size is not None:
                self.window.gauge(size)

    def release(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """Give the permit back and settle the meters, exactly once."""
        hint, in_one_piece = outcome.hint, not entry.accepted and outcome.kind is None
        if hint is not None and hint.windows:
            self.windows.learn(hint.windows)
        if entry.probe == "breaker":
            self.breaker.probe_seq = 0
        if outcome.kind is None:
            self.good_seq = max(self.good_seq, entry.seq)
            if self.order.lengths is not None:
                self.order.learn(entry.unit, now - entry.started_at)
            self._note_accepted(entry, outcome.usage)
            if not entry.accepted:
                self._accept(entry, hint, now)
            if self.caution.level > CALM:
                self.caution.decay()
        elif hint is not None and hint.reports:
            self.learn(entry, hint.reports, now, refused=True)
        if in_one_piece and self.flight is None:
            self._bound_blind_flight(now)
        if self.flight is not None:
            took_s = None if outcome.kind is not None else now - entry.started_at
            size = self.flight.finished(now, entry.seq, took_s, self.in_flight, self.window.size, self.seq)
            if size is not None:
                self.window.follow(size)
        if entry.unwritten is not None:
            self._forget_unwritten(entry)
        self.in_flight -= 1
        self.flight_s += now - entry.started_at
        if not entry.accepted:
            self.unanswered -= 1
        if outcome.usage is not None:
            settling.settle(self, entry, outcome.usage)
            if self.unit_costs.learn(entry.unit, outcome.usage):
                self.limits.basis = object()
        elif unpaid(outcome):
            settling.refund(self, entry)

    # -- refusals ---------------------------------------------------------------------------------------

    def throttled(self, entry: Entry, outcome: Outcome, now: float) -> float:
        """Learn from a refusal that said "later". Returns the instant at which this unit may try again."""
        self.refused += 1
        hint = outcome.hint or _NO_HINT
        if outcome.kind is Kind.RATE and self.limits.levelled:
            self.reported.refused(entry, hint, now)
            if hint.retry_after_s is not None:
                wait_s = self.reported.retry_wait_s(hint.retry_after_s, now)
                hint = structs.replace(hint, retry_after_s=wait_s)
        if outcome.kind is Kind.RATE:
            if self.limits.finder is not None and self.flight is not None:
                self.flight = None  # The search has met a limit.
                self.window.clear()
            refusals.of_rate(self, entry, hint, now)
        elif outcome.kind is Kind.CONCURRENCY:
            self.flight = None  # The number in flight has a limit.
            refusals.of_flight(self, entry, now)
        if self.spec.one_ahead:
            self.window.narrow()
        held_until = self.hold_as_told(outcome, now)
        if held_until is not None:
            return held_until
        return self.reported.reopens_at if hint.retry_after_s is None else now + hint.retry_after_s

    def hold_as_told(self, outcome: Outcome, now: float) -> float | None:
        """Hold the lane if the provider's wait is too long for a single unit. Returns when the hold ends; None: no hold."""
        wait_s = outcome.hint.retry_after_s if outcome.hint is not None else None
        if wait_s is None and outcome.kind is Kind.HOLD:
            wait_s = self.spec.retry.default_wait_s
        if wait_s is None or (outcome.kind is not Kind.HOLD and wait_s <= LONGEST_HINT_S):
            return None
        until = now + wait_s + self.spec.retry.hold_margin_s
        self.hold.extend(until, outcome.message or "the provider said so", hold_scope(outcome.hint))
        return self.hold.until

    def slow_down(self, entry: Entry, now: float) -> None:
        """Use grew too fast for the provider. Ten refusals of one burst count once."""
        if entry.epoch == self.window.epoch:
            self.window.epoch += 1
            self.limits.slow_growth(self.traffic.rate_at(now), self.traffic.mean_costs(), now)

    def drop_probe(self, entry: Entry) -> None:
        """An attempt has ended, so it is no probe any more."""
        entry.probe = ""

    @property
    def at_floor(self) -> bool:
        """Whether the lane cannot slow down any further."""
        slowest = self.limits.finder is not None and self.limits.finder.slowest
        return slowest or self.window.size <= 1 or self.caution.level >= ALARMED

    def pace_at(self, now: float) -> float:
        """Starts a second, lately. The mean of the traffic needs a second to know a fast lane; until then, what has succeeded counts."""
        traffic = self.traffic
        rate, since_s = traffic.rate_at(now), now - traffic.first_start_at
        if 0.0 < since_s < FIRST_S:
            return max(rate, self.succeeded / max(LEAST_S, since_s))
        return rate

    # -- what is left to do -----------------------------------------------------------------------------

    @property
    def unstarted(self) -> float:
        """How many units have yet to start; infinity: not known."""
        return self.stock.left + len(self.queue) + self.rendering

    @property
    def spent(self) -> bool:
        """Whether neither the source nor the queue has a unit for this lane."""
        return self.stock.exhausted and not self.queue and not self.rendering

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight, nothing is being fetched, and nothing will start by itself."""
        return not self.in_flight and not self.stock.fetching and (bool(self.stopped) or self.spent)

    # -- closing and opening ----------------------------------------------------------------------------

    def reopen(self, now: float) -> None:
        """Lift hold, stop and breaker. Units that waited for the end of the hold, or were refused, wait no longer.

        If it was closed, one probe goes first: nothing proves that the limit, or what was wrong, is gone.
        """
        was_closed = self.hold.until > now or (self.stopped and not self.broke) or self.breaker.open
        self.windows.reopen()
        self.queue.hasten(self.hold.open_at if self.hold.open_at > now else NEVER, THROTTLES, now)
        self.hold.lift(now)
        self.work_time.free(now)
        self.stopped = None
        self.parked = self.broke = False
        probe_seq = self.breaker.probe_seq
        self.breaker = Breaker(ever_answered=self.breaker.ever_answered)
        if was_closed:
            self.breaker.probe_first(now, self.seq, probe_seq)
        self.queue.end_rotation(now)


_NO_HINT: Final = Hint()
_NOTHING: Final = (1.0, 0.0, 0.0, 0.0)
