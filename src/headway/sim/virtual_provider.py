"""A virtual provider: it admits or refuses requests by its scenario, and reports what a real one would.

It knows nothing about policies. It answers with what `providers/limits/hints.py` reads from real
headers and bodies: a kind, a hint, the usage.
"""

from __future__ import annotations

from collections import deque
from math import ceil, floor
from random import Random

import msgspec

from headway.core.model import MINUTE_S, Dimension, Hint, Kind, LimitReport, Outcome
from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.profiles import profile_for
from headway.sim.scenario import ProviderSpec, Span
from headway.sim.virtual_bucket import VirtualBucket, make_bucket
from headway.sim.workload import Truth

#: Anthropic documents its remaining tokens as rounded to the nearest thousand.
ANTHROPIC_ROUNDING = 1000.0
#: Output is charged while it is produced, in this many steps.
OUTPUT_STEPS = 4

_LIMITS = (
    (Dimension.REQUESTS, "rpm"),
    (Dimension.TOKENS, "tpm"),
    (Dimension.INPUT, "input_tpm"),
    (Dimension.OUTPUT, "output_tpm"),
)


class Admission(msgspec.Struct, frozen=True, gc=False):
    """An admitted request: its headers, and how it will end.

    `fails_after_s`: it fails so long after its arrival, without a first token.
    """

    hint: Hint | None
    outcome: Outcome
    fails_after_s: float | None = None


class VirtualProvider:
    """One provider account with its true limits."""

    def __init__(self, spec: ProviderSpec, seed: str) -> None:
        self.spec = spec
        self.in_flight = 0
        self.admitted = 0
        self.refused = 0
        self._day = 0.0
        self._before_today = 0
        self.waiting: deque[int] = deque()
        self.longest_queue = 0
        self._random = Random(seed)
        self._rates = {
            dimension: getattr(spec, name) / 60.0 for dimension, name in _LIMITS if getattr(spec, name)
        }
        self.buckets = self._make_buckets()
        self._shadows = self.buckets
        if spec.headers_say_minute:
            self._shadows = {dimension: VirtualBucket(rate, 60.0) for dimension, rate in self._rates.items()}
        elif spec.headers_count_answers:
            self._shadows = self._make_buckets()
        self._changes = sorted(spec.changes, key=lambda change: change.at_s)

    def _make_buckets(self) -> dict[Dimension, VirtualBucket]:
        spec = self.spec
        return {
            dimension: make_bucket(
                rate, spec.depth_s, fixed=spec.fixed_windows, offset_s=spec.window_offset_s
            )
            for dimension, rate in self._rates.items()
        }

    def arrive(self, truth: Truth, now: float) -> Admission | Outcome:
        """Admit a request, or refuse it with an outcome."""
        self._change(now)
        refusal = self._outside_refusal(now) or self._refusal(truth, now)
        if refusal is not None:
            self.refused += refusal.kind in (Kind.RATE, Kind.CONCURRENCY)
            return refusal
        self.in_flight += 1
        self.admitted += 1
        self._charge(self._reservation(truth), now)
        fails = self.spec.errors and self._random.random() < self.spec.errors
        if fails:
            failure = Outcome(kind=Kind.TRANSIENT, message="500")
            return Admission(self._headers(now), failure, self.spec.error_after_s)
        return Admission(self._headers(now), Outcome(usage=truth.usage))

    def first_token(self, truth: Truth, now: float) -> Hint | None:
        """The input has been read: refund the cached part. Returns the headers if only now they count the request."""
        if self.spec.counting == "used" and truth.usage.cached_input_tokens:
            cached = truth.usage.cached_input_tokens
            self._charge({Dimension.INPUT: -cached, Dimension.TOKENS: -cached}, now)
        if not self.spec.headers_count_answers:
            return None
        self._charge_in(self._shadows, self._reservation(truth), now)
        return self._headers(now)

    def produced(self, truth: Truth, now: float) -> None:
        """Charge a further part of the output."""
        if self.spec.counting == "used":
            step = truth.usage.output_tokens / OUTPUT_STEPS
            self._charge({Dimension.OUTPUT: step, Dimension.TOKENS: step}, now)

    def must_wait(self, index: int) -> bool:
        """Put an arriving request into the queue if it has to wait; returns whether it does."""
        if not self.spec.queues or self.in_flight < self.spec.max_concurrency:
            return False
        self.waiting.append(index)
        self.longest_queue = max(self.longest_queue, len(self.waiting))
        return True

    def leave(self) -> None:
        """A request has ended, or its client has gone."""
        self.in_flight -= 1

    def _reservation(self, truth: Truth) -> dict[Dimension, float]:
        tokens_in = truth.usage.input_tokens
        tokens = tokens_in + (truth.max_tokens if self.spec.counting == "reserved" else 0.0)
        output = truth.usage.output_tokens if self.spec.counting == "reserved" else 0.0
        return {
            Dimension.REQUESTS: 1.0,
            Dimension.TOKENS: tokens,
            Dimension.INPUT: tokens_in,
            Dimension.OUTPUT: output,
        }

    def _charge(self, costs: dict[Dimension, float], now: float) -> None:
        self._charge_in(self.buckets, costs, now)
        if self._shadows is not self.buckets and not self.spec.headers_count_answers:
            self._charge_in(self._shadows, costs, now)

    def _charge_in(
        self, buckets: dict[Dimension, VirtualBucket], costs: dict[Dimension, float], now: float
    ) -> None:
        for dimension, bucket in buckets.items():
            bucket.charge(costs.get(dimension, 0.0), now)

    def _change(self, now: float) -> None:
        while self._changes and self._changes[0].at_s <= now:
            factor = self._changes.pop(0).factor
            for dimension, rate in self._rates.items():
                self.buckets[dimension].scale(rate * factor, now)
                if self._shadows is not self.buckets:
                    self._shadows[dimension].scale(rate * factor, now)

    def _outside_refusal(self, now: float) -> Outcome | None:
        """Refusals that do not depend on the client's rate."""
        if self._span_at(self.spec.outages, now):
            return Outcome(kind=Kind.TRANSIENT, message="connection refused")
        if self._span_at(self.spec.storms, now):
            return Outcome(kind=Kind.OVERLOAD, message="overloaded")
        if self.spec.rpd and self._admitted_today(now) >= self.spec.rpd:
            hint = Hint(retry_after_s=self.spec.day_s - now % self.spec.day_s)
            return Outcome(kind=Kind.HOLD, hint=hint, message="the day's requests are used up")
        hold = self._span_at(self.spec.holds, now)
        if hold is not None:
            hint = Hint(retry_after_s=hold.until_s - now)
            return Outcome(kind=Kind.HOLD, hint=hint, message="quota used up until the reset")
        return None

    def _admitted_today(self, now: float) -> int:
        if now // self.spec.day_s > self._day:
            self._day = now // self.spec.day_s
            self._before_today = self.admitted
        return self.admitted - self._before_today

    def _span_at(self, spans: tuple[Span, ...], now: float) -> Span | None:
        for span in spans:
            if span.from_s <= now < span.until_s and (
                span.share >= 1.0 or self._random.random() < span.share
            ):
                return span
        return None

    def _refusal(self, truth: Truth, now: float) -> Outcome | None:
        cap = self.spec.max_concurrency
        if cap and self.in_flight >= cap and not self.spec.queues:
            if self.spec.says_which:
                return Outcome(kind=Kind.CONCURRENCY, message="too many requests at once")
            return Outcome(kind=Kind.RATE, message="too many requests")
        waits = {}
        costs = self._reservation(truth)
        for dimension, bucket in self.buckets.items():
            cost = max(
                costs[dimension], 1.0
            )  # Even output that is charged as produced needs a level above 0.
            wait_s = bucket.wait_s(cost, now)
            if wait_s > 0.0:
                waits[dimension] = wait_s
        if not waits:
            return None
        worst = max(waits, key=lambda dimension: waits[dimension])
        return Outcome(
            kind=Kind.RATE,
            hint=self._retry_hint(waits[worst], worst, now),
            message=f"limit reached for {worst}",
        )

    def _retry_hint(self, wait_s: float, dimension: Dimension, now: float) -> Hint:
        headers = self._headers(now)
        reports = headers.reports if headers else ()
        named_dimension = dimension if self.spec.says_which else None
        style = self.spec.retry_after
        if style == "none":
            return Hint(reports, dimension=named_dimension)
        if style == "text":
            return self._text_hint(wait_s, dimension, now)
        if style == "exact":
            return Hint(reports, wait_s, dimension=named_dimension)
        if style == "minute":
            return Hint(reports, MINUTE_S, precision_s=1.0, dimension=named_dimension)
        whole_s = ceil(wait_s) if style == "integer" else ceil(now + wait_s) - now
        return Hint(reports, float(whole_s), precision_s=1.0, dimension=named_dimension)

    def _text_hint(self, wait_s: float, dimension: Dimension, now: float) -> Hint:
        """The body of OpenAI's 429, read like a real one."""
        unit = "requests per min (RPM)" if dimension is Dimension.REQUESTS else "tokens per min (TPM)"
        limit = self.buckets[dimension].rate * 60.0
        text = f"Rate limit reached for gpt-x on {unit}: Limit {limit:.0f}. Please try again in {wait_s * 1000:.0f}ms."
        body = msgspec.json.encode({"error": {"message": text, "code": "rate_limit_exceeded"}})
        return understand(RawResponse(status=429, body=body), profile_for("openai"), now_utc=now).hint

    def _headers(self, now: float) -> Hint | None:
        style = self.spec.headers
        if style == "none":
            return None
        return Hint(
            tuple(self._report(dimension, bucket, now) for dimension, bucket in self._shadows.items())
        )

    def _report(self, dimension: Dimension, bucket: VirtualBucket, now: float) -> LimitReport:
        bucket.refill(now)
        remaining = max(0.0, bucket.level)
        reset_s = bucket.full_in_s()
        if self.spec.headers == "levels":
            offset_s = self.spec.clock_offset_s
            clock_s = now + (self.spec.window_offset_s if offset_s is None else offset_s)
            return LimitReport(
                dimension, bucket.rate * 60.0, floor(remaining), minute_left_s=MINUTE_S - clock_s % MINUTE_S
            )
        if self.spec.headers == "openai":
            return LimitReport(
                dimension, bucket.rate * 60.0, floor(remaining), ceil(reset_s * 1000.0) / 1000.0
            )
        if dimension is not Dimension.REQUESTS:
            remaining = round(remaining / ANTHROPIC_ROUNDING) * ANTHROPIC_ROUNDING
        whole_s = ceil(now + reset_s) - floor(
            now
        )  # An instant of whole seconds, less a Date of whole seconds.
        return LimitReport(
            dimension,
            bucket.rate * 60.0,
            floor(remaining),
            float(whole_s),
            reset_precision_s=2.0,
            remaining_precision=1.0 if dimension is Dimension.REQUESTS else ANTHROPIC_ROUNDING / 2.0,
        )
