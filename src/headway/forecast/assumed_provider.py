"""Makes a virtual provider from the known limits of a lane, with their present levels.

Limits that are configured, reported or found are taken for those of the provider, and the real scheduler paces against them. The
depth of a bucket may be unknown: headers imply a depth, accepted requests prove one, and only a refusal makes it certain. The
quick forecast assumes the deepest bucket, the slow one the proven depth. The likely one assumes what headers imply if that
is credible, and otherwise a depth between the two.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, Literal

from headway.core.lanes.in_flight.window import OPEN
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.meters.depth_ramp import FIRST_DEPTH_S
from headway.core.lanes.meters.growth_cap import GROWTH_CAP
from headway.core.lanes.meters.meter import MINIMUM_GAP, NEARLY, Meter
from headway.core.model import DAY_S, Dimension
from headway.forecast.figures import LaneKnowledge
from headway.sim.scenario import ProviderSpec
from headway.sim.virtual_bucket import VirtualBucket
from headway.sim.virtual_provider import VirtualProvider

#: The likely depth if no request was refused: so far between the proven and the deepest possible one, in logarithms. After some
#: hundred requests buckets of one and of five seconds have both proven about 1.4.
DEEPER: Final = 0.5
#: A depth of so many times the first one cannot be network jitter.
PLAINLY: Final = 2.0
#: The assumed requests in flight of a provider without a known limit, for each variant of the forecast.
WINDOWS: Final = {"low": 128, "estimate": 32, "high": 8}


def has_no_known_limit(lane: LaneState) -> bool:
    """Whether no limit of this lane is known."""
    return lane.limits.finder is not None and not lane.limits.finder.found and not lane.window.learned


def met_rate(lane: LaneState, known: LaneKnowledge, variant: str) -> float | None:
    """The assumed requests a second of a provider whose limit was met but not measured."""
    if (
        known.record is None
        or known.record.glimpsed is None
        or lane.limits.finder is None
        or lane.limits.finder.found
    ):
        return None
    least, most = known.record.glimpsed
    return {"low": most, "estimate": sqrt(least * most), "high": least}[variant] or None


def assumed_provider(
    lane: LaneState, known: LaneKnowledge, variant: str, now: float
) -> tuple[ProviderSpec, dict[Dimension, VirtualBucket]]:
    """The provider of one lane, and its buckets."""
    buckets: dict[Dimension, VirtualBucket] = {}
    for meter in lane.limits.meters:
        if meter.period_s >= DAY_S or meter.name in (MINIMUM_GAP, GROWTH_CAP):
            continue  # Only the client keeps to these, or the provider closes for the day.
        if meter.name == LEARNED and (lane.limits.finder is None or not lane.limits.finder.found):
            continue
        bucket = _bucket(lane, meter, known.record, variant, now)
        other = buckets.get(meter.dimension)
        if other is None or bucket.rate < other.rate:
            buckets[meter.dimension] = bucket
    if rate := met_rate(lane, known, variant):
        buckets[Dimension.REQUESTS] = VirtualBucket(rate, FIRST_DEPTH_S)
    reported = any(meter.reported for meter in lane.limits.meters)
    style: Literal["openai", "anthropic"] = "anthropic" if known.kind == "anthropic" else "openai"
    found = lane.limits.finder is not None
    provider = ProviderSpec(
        max_concurrency=lane.window.size if lane.window.learned else 0,
        counting="used" if known.spec.counting.settle_output else "reserved",
        headers=style if reported else "none",
        says_which=not found,
        retry_after="none" if found else "exact",
    )
    return provider, buckets


def _bucket(
    lane: LaneState, meter: Meter, record: LaneRecord | None, variant: str, now: float
) -> VirtualBucket:
    if meter.name == LEARNED:
        assert lane.limits.finder is not None
        bucket = VirtualBucket(lane.limits.finder.rates[lane.limits.finder.place], lane.limits.finder.depth_s)
    else:
        bucket = VirtualBucket(meter.rate, _depth_s(meter, record, variant))
    owed_s = max(0.0, meter.full_at - now)
    bucket.level = max(0.0, bucket.capacity - owed_s * bucket.rate)
    return bucket


def _depth_s(meter: Meter, record: LaneRecord | None, variant: str) -> float:
    """The assumed depth of the provider's bucket."""
    if not meter.probed:
        return max(meter.depth_s, meter.ceiling_s)
    learned = [] if record is None else record.meters
    same = next((one for one in learned if (one.dimension, one.period_s) == (meter.dimension, meter.period_s)), None)  # fmt: skip
    if same is not None and same.bottom:
        return meter.depth_s
    implied_s = same.ceiling_s if same is not None and meter.reported else None
    deepest_s = max(meter.depth_s, meter.ceiling_s if implied_s is None else min(implied_s, meter.ceiling_s))
    if variant == "high":
        return meter.depth_s
    if variant == "low" or (implied_s is not None and _credible(implied_s, meter)):
        return deepest_s
    if meter.depth_s > FIRST_DEPTH_S:
        return float(meter.depth_s ** (1.0 - DEEPER) * deepest_s**DEEPER)
    return meter.depth_s


def _credible(implied_s: float, meter: Meter) -> bool:
    """Whether the headers describe the real bucket. Many providers report by the minute and count by the second."""
    return implied_s < NEARLY * meter.period_s or meter.depth_s > PLAINLY * FIRST_DEPTH_S


def set_buckets(provider: VirtualProvider, buckets: dict[Dimension, VirtualBucket]) -> None:
    """Give a virtual provider its buckets."""
    provider.buckets.update(buckets)


def most_in_flight(lane: LaneState) -> int:
    """The known limit of requests in flight; 0: none."""
    return 0 if lane.window.size >= OPEN else lane.window.size
