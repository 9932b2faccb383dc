"""What an onlooker knows of one lane from the events it was told and the commands that came out.

It keeps bounds, not copies: when the lane is surely closed, how wide its window can be at most, what its
configured buckets hold. It never reads the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headway.core.lanes.job_share import Grant
from headway.core.model import Costs, Kind, LaneLimits, LaneSpec, Outcome, Unit, Usage
from headway.core.reasons import LaneBudgetSpent, NoticeReason

from .bucket import Bucket, buckets_of, slack_s

NEVER = float("inf")
ALWAYS = float("-inf")
#: DESIGN §2: a hint over 60 s is a hold.
LONGEST_HINT_S = 60.0
THROTTLES = frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.HOLD})
STOPPERS = frozenset({Kind.QUOTA, Kind.AUTH})
HOPELESS = frozenset({Kind.TOO_LARGE, Kind.INVALID})
#: The provider refused before it did any work, and charged nothing.
UNCHARGED = THROTTLES | STOPPERS | HOPELESS | {Kind.OVERLOAD}


class Violation(AssertionError):
    """A property did not hold; `name` says which."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name


def require(holds: bool, name: str, text: str) -> None:
    if not holds:
        raise Violation(name, text)


@dataclass
class Flight:
    """An attempt that is out."""

    unit: Unit
    at: float
    number: int
    charged: list[float]
    buckets: tuple[Bucket, ...]
    accepted: bool = False
    asked: bool = False
    fate: str = ""


@dataclass
class LaneBook:
    """One lane's books."""

    spec: LaneSpec
    opened_at: float
    flights: int = 0
    starts: int = 0
    held_until: float = ALWAYS
    noticed_until: float = ALWAYS
    paused_until: float = ALWAYS
    stopped: bool = False
    noticed_stop: bool = False
    ever_stopped: bool = False
    broke: bool = False
    reported: bool = False
    breaker_open: bool = False
    #: It was closed when it was reopened, and has not answered since: attempts from then on are probes, one at a time.
    probing_since: int | None = None
    breaker_seen: bool = False
    breaker_until: float = ALWAYS
    congested_at: int = 0
    cuts: int = 0
    led: bool = False
    window: float = NEVER
    last_start_at: float = ALWAYS
    buckets: dict[str, Bucket] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.limits = self.spec.limits
        self.buckets = buckets_of(self.limits, self.opened_at)
        self.window = self.limits.max_concurrency or NEVER

    @property
    def closed(self) -> bool:
        return self.stopped or self.noticed_stop

    # -- being told -----------------------------------------------------------------------------------

    def hold(self, until: float, now: float, longest_s: float | None) -> None:
        """A hold is never shortened; one longer than anyone wants to wait stops the lane."""
        self.held_until = max(self.held_until, until)
        if longest_s is not None and self.held_until - now > longest_s:
            self.stop()

    def stop(self) -> None:
        self.stopped = self.ever_stopped = True

    def reopen(self, now: float) -> None:
        if self.closed or self.breaker_open or max(self.held_until, self.noticed_until) > now:
            self.probing_since = self.starts
            self.breaker_seen = True
        self.held_until = self.paused_until = ALWAYS
        self.stopped = False

    def notice(self, what: str, until: float | None, reason: NoticeReason) -> None:
        """Believe what a notice says, beside what the events said."""
        if what == "held" and until is not None:
            self.noticed_until = max(self.noticed_until, until)
        elif what == "stopped":
            self.noticed_stop = self.ever_stopped = True
            self.broke = isinstance(reason, LaneBudgetSpent)
        elif what == "reopened":
            self.noticed_until, self.noticed_stop, self.breaker_open = ALWAYS, False, False
        elif what == "breaker_opened" and until is not None:
            self.breaker_open = self.breaker_seen = True
            self.breaker_until = until
        elif what == "breaker_closed":
            self.breaker_open, self.probing_since = False, None

    def configure(self, limits: LaneLimits, now: float) -> None:
        """New limits: levels carry over by name, the window moves with its maximum."""
        old, self.buckets = self.buckets, buckets_of(limits, now)
        for name, bucket in self.buckets.items():
            if name in old:
                old[name].become(bucket, now)
                self.buckets[name] = old[name]
        at_top = self.window >= (self.limits.max_concurrency or NEVER)
        top = limits.max_concurrency or NEVER
        self.window = top if at_top else min(self.window, top)
        self.limits = limits
        self.last_start_at = ALWAYS

    # -- an attempt's life ------------------------------------------------------------------------------

    def start(self, unit: Unit, now: float) -> Flight:
        costs = self.spec.counting.reserved(unit.estimate)
        for bucket in self.buckets.values():
            bucket.take(costs[bucket.place], now)
        self.flights += 1
        self.starts += 1
        self.last_start_at = now
        return Flight(unit, now, self.starts, list(costs), tuple(self.buckets.values()))

    def accept(self, flight: Flight, usage: Usage | None) -> None:
        """The first sign that the provider took it: the window may grow, the input may be put right."""
        if flight.accepted:
            return
        flight.accepted = True
        self.window = min(self.window + 1, self.limits.max_concurrency or NEVER)
        if usage is not None:
            more = usage.input_tokens - flight.unit.estimate.input_tokens
            if self.spec.counting.cached_free:
                more -= usage.cached_input_tokens
            _charge(flight, (0.0, more, more, 0.0))

    def settle(self, flight: Flight, outcome: Outcome) -> None:
        """What the attempt really cost replaces what was set aside; a refusal costs nothing."""
        charged = flight.charged
        if outcome.usage is not None:
            costs = self.spec.counting.settled(flight.unit.estimate, outcome.usage)
            _charge(flight, tuple(new - old for new, old in zip(costs, charged, strict=True)))
        elif outcome.kind in UNCHARGED:
            _charge(flight, tuple(-cost for cost in charged))

    def heed(self, flight: Flight, outcome: Outcome, kind: Kind, now: float, longest_s: float | None) -> None:
        """An attempt that nobody had stopped failed: what the lane has to learn from it."""
        if kind in STOPPERS:
            self.stop()
        if kind is Kind.CONCURRENCY and flight.number > self.congested_at and self.spec.limits.known:
            self._cut()
        if kind in (Kind.CONCURRENCY, Kind.RATE):
            self.congested_at = self.starts
        wait_s = outcome.hint.retry_after_s if outcome.hint else None
        if wait_s is None and kind is Kind.HOLD:
            wait_s = self.spec.retry.default_wait_s
        if wait_s is None or kind in STOPPERS | HOPELESS:
            return  # "No" is not "later", whatever its headers say.
        if kind is Kind.HOLD or wait_s > LONGEST_HINT_S:
            self.hold(now + wait_s + self.spec.retry.hold_margin_s, now, longest_s)
        elif kind is Kind.RATE and outcome.hint is not None:
            self.paused_until = max(self.paused_until, now + wait_s - outcome.hint.precision_s)

    def share(self, grant: Grant) -> None:
        """Whatever our part of a lane is, its limits are what they were. A job with places leaves the cuts to the one that leads."""
        led, self.led = self.led, grant.follows and grant.places is not None
        if led or self.led:
            self.window, self.cuts = self.limits.max_concurrency or NEVER, 0

    def _cut(self) -> None:
        """A congestion event: the first halves what was in flight, a later one takes away one at least."""
        if self.led:
            return
        size = self.window - 1 if self.cuts else min(self.window, self.flights + 1) // 2
        self.window = max(1, size)
        self.cuts += 1

    # -- judging a start ----------------------------------------------------------------------------------

    def judge(self, unit: Unit, now: float, flights: Iterable[Flight]) -> None:
        """Raise unless this lane may start this unit now, beside these attempts of its own."""
        who, slack = f"unit {unit.index} started in {self.spec.key} at {now}", slack_s(now)
        require(not self.closed, "closed lane", f"{who}, which is stopped")
        held_until = max(self.held_until, self.noticed_until)
        require(now >= held_until - slack, "held lane", f"{who}, which is held until {held_until}")
        require(now >= self.paused_until - slack, "pause", f"{who}, asked to wait until {self.paused_until}")
        most = self.limits.max_concurrency or NEVER
        require(self.flights < most, "lane cap", f"{who} beside {self.flights} others, {most} allowed")
        require(self.flights < self.window, "window", f"{who} beside {self.flights}, window {self.window}")
        self._judge_breaker(who, now)
        self._judge_reopened(who, flights)
        self._judge_buckets(who, self.spec.counting.reserved(unit.estimate), now)

    def _judge_breaker(self, who: str, now: float) -> None:
        if self.breaker_open:
            due = now >= self.breaker_until - slack_s(now)
            require(due and not self.flights, "breaker", f"{who}, whose breaker is open")

    def _judge_reopened(self, who: str, flights: Iterable[Flight]) -> None:
        """A lane that was closed and reopened sends one attempt ahead of all others."""
        if self.probing_since is not None:
            probes = [flight.number for flight in flights if flight.number > self.probing_since]
            require(not probes, "reopened", f"{who}, which was reopened, beside its attempts {probes}")

    def _judge_buckets(self, who: str, costs: Costs, now: float) -> None:
        gap_s = now - self.last_start_at
        require(gap_s >= self.limits.min_gap_s - slack_s(now), "min gap", f"{who}, {gap_s} s after another")
        for name, bucket in self.buckets.items():
            provable = not self.reported or name == "gap"
            if provable and not bucket.admits(costs[bucket.place], now):
                raise Violation(
                    "bucket",
                    f"{who} overdraws {name}: {bucket.level(now)} s left, {costs[bucket.place]} wanted",
                )


def _charge(flight: Flight, more: tuple[float, ...]) -> None:
    for bucket in flight.buckets:
        if not bucket.gap:
            bucket.move(more[bucket.place])
    for place in range(len(more)):
        flight.charged[place] += more[place]
