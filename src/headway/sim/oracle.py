"""A policy that knows the truth: each limit, its depth, and what each request will be charged.

It is close to the best that a client can do in input order. Short jobs are measured against it: the theoretical bound ignores
that a large request waits for a full bucket, and that the jitter of the network wastes part of a shallow bucket. It shares no code
with `headway.core`, so that the two share no mistake.

Every start is charged at the instant of its arrival. Because of jitter, in the network and in opening connections, two requests may
arrive closer together than they were sent. The oracle leaves that much of each bucket unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.commands import Command, Finish
from headway.core.events import Event, RequestAccepted
from headway.core.model import Kind, Outcome, RetryPolicy, Unit
from headway.core.unit_states import Status
from headway.sim.baselines import LaneBaseline
from headway.sim.scenario import ProviderSpec, Scenario
from headway.sim.virtual_bucket import VirtualBucket, VirtualWindow, make_bucket
from headway.sim.workload import Truth, Workload

_NAMES: Final = ("requests", "tokens", "input_tokens", "output_tokens")
_REFUNDED: Final = ("tokens", "input_tokens")


class _Account:
    """The true buckets of one provider, by what they count."""

    def __init__(self, real: ProviderSpec) -> None:
        latency = real.latency
        self.real = real
        self.way_s = latency.network_s
        self.blur_s = latency.jitter_s + latency.connect_s
        limits = (real.rpm, real.tpm, real.input_tpm, real.output_tpm)
        depth_s = real.depth_s if real.fixed_windows else max(0.1 * real.depth_s, real.depth_s - self.blur_s)
        self.buckets: dict[str, VirtualBucket] = {
            name: make_bucket(limit / 60.0, depth_s, fixed=real.fixed_windows, offset_s=real.window_offset_s)
            for name, limit in zip(_NAMES, limits, strict=True)
            if limit
        }

    def costs(self, truth: Truth) -> dict[str, float]:
        """What the provider charges for a request, before the refund for cached input."""
        usage = truth.usage
        output = truth.max_tokens if self.real.counting == "reserved" else usage.output_tokens
        tokens_in = usage.input_tokens
        amounts = (1.0, tokens_in + output, tokens_in, usage.output_tokens)
        return dict(zip(_NAMES, amounts, strict=True))

    def open_at(self, truth: Truth, now: float) -> float:
        """When a request may be sent to be admitted on arrival."""
        arrival = now + self.way_s
        costs = self.costs(truth)
        wait_s = 0.0
        for name, bucket in self.buckets.items():
            wait_s = max(wait_s, bucket.wait_s(costs[name], arrival))
            if isinstance(bucket, VirtualWindow) and bucket.full_in_s() < self.blur_s:
                wait_s = max(wait_s, bucket.full_in_s())  # It may arrive in either window.
        return now + wait_s

    def charge(self, truth: Truth, now: float) -> None:
        """Charge a request that is sent. Where a bucket has no room to leave unused, the jitter is charged as well."""
        costs = self.costs(truth)
        for name, bucket in self.buckets.items():
            blur = self.blur_s * bucket.rate if costs[name] >= bucket.capacity else 0.0
            bucket.charge(costs[name] + blur, now + self.way_s)

    def refund_cached(self, truth: Truth, now: float) -> None:
        """Refund the cached input when the first token arrives."""
        if self.real.counting == "used":
            for name in _REFUNDED:
                if name in self.buckets:
                    self.buckets[name].charge(-truth.usage.cached_input_tokens, now)


class Oracle(LaneBaseline):
    """Sends each unit as soon as its lane will admit it."""

    def __init__(self, scenario: Scenario, workload: Workload) -> None:
        providers = {name: lane.provider for name, lane in scenario.lanes.items()}
        slots = {name: real.max_concurrency or 1 << 20 for name, real in providers.items()}
        super().__init__(workload.units, slots)
        self.truths = workload.truths
        self.accounts = {name: _Account(real) for name, real in providers.items()}

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The scheduler's contract; first tokens bring refunds."""
        for event in happened:
            if isinstance(event, RequestAccepted):
                self.accounts[self.units[event.index].lane].refund_cached(self.truths[event.index], now)
        return super().handle(happened, now)

    def _finished(self, unit: Unit, outcome: Outcome, now: float) -> None:
        """It gives a unit up after as many failures as the scheduler: knowing the limits does not make a provider answer."""
        last = self.tries.get(unit.index, 0) + 1 >= RetryPolicy().max_attempts
        if outcome.kind is None or outcome.kind is Kind.RATE or not last:
            super()._finished(unit, outcome, now)
            return
        self.left -= 1
        self.commands.append(Finish(unit, Status.FAILED))
        self.succeeded(unit, now)

    def open_at(self, name: str, unit: Unit, now: float) -> float:
        return self.accounts[name].open_at(self.truths[unit.index], now)

    def charge(self, unit: Unit, now: float) -> None:
        self.accounts[unit.lane].charge(self.truths[unit.index], now)
