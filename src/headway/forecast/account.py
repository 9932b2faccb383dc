"""What a lane knows of its limits → a virtual provider that has just these, as full as they are now.

Limits that are configured, were reported or were found are taken for the provider's own, and the real scheduler paces
against them. How deep its buckets are may not be known: headers imply a depth, accepted probes prove one, and only a
refused probe ends the doubt. A forecast in a hurry takes the deepest, a slow one the depth that is proven; the likely
one what headers imply where that is credible, and otherwise something between the two.
"""

from __future__ import annotations

from math import sqrt
from typing import Final, Literal

from headway.core.lanes.depth_ramp import FIRST_DEPTH_S
from headway.core.lanes.growth_cap import GROWTH_CAP
from headway.core.lanes.lane import Lane
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.lanes.meter import MINIMUM_GAP, NEARLY, Meter
from headway.core.lanes.rate_finder import LEARNED
from headway.core.lanes.window import OPEN
from headway.core.model import DAY_S, Dimension
from headway.forecast.figures import LaneKnowledge
from headway.sim.scenario import ProviderSpec
from headway.sim.virtual_bucket import VirtualBucket
from headway.sim.virtual_provider import VirtualProvider

#: Where probes were accepted and none was refused: how far, between the depth that is proven and the deepest that can
#: be, the likely one is, in logarithms. After some hundred requests both one and five seconds have proven about 1.4.
DEEPER: Final = 0.5
#: A depth of so many times the first one is no jitter of the network.
PLAINLY: Final = 2.0
#: Requests that a provider without a known limit is taken to answer at once, by the mind of the forecast.
WINDOWS: Final = {"low": 128, "estimate": 32, "high": 8}


def blind(lane: Lane) -> bool:
    """Whether nothing at all is known that could limit this lane."""
    return lane.finder is not None and not lane.finder.found and not lane.window.learned


def glimpsed(lane: Lane, known: LaneKnowledge, mind: str) -> float | None:
    """Requests a second that a provider is taken to allow whose limit was met and not measured."""
    if known.record is None or known.record.glimpsed is None or lane.finder is None or lane.finder.found:
        return None
    least, most = known.record.glimpsed
    return {"low": most, "estimate": sqrt(least * most), "high": least}[mind] or None


def account_of(
    lane: Lane, known: LaneKnowledge, mind: str, now: float
) -> tuple[ProviderSpec, dict[Dimension, VirtualBucket]]:
    """The provider of one lane, and its buckets."""
    buckets: dict[Dimension, VirtualBucket] = {}
    for meter in lane.meters:
        if meter.period_s >= DAY_S or meter.name in (MINIMUM_GAP, GROWTH_CAP):
            continue  # What the client alone keeps to, or the provider minds by closing for the day.
        if meter.name == LEARNED and (lane.finder is None or not lane.finder.found):
            continue
        bucket = _bucket(lane, meter, known.record, mind, now)
        other = buckets.get(meter.dimension)
        if other is None or bucket.rate < other.rate:
            buckets[meter.dimension] = bucket
    if rate := glimpsed(lane, known, mind):
        buckets[Dimension.REQUESTS] = VirtualBucket(rate, FIRST_DEPTH_S)
    reported = any(meter.reported for meter in lane.meters)
    style: Literal["openai", "anthropic"] = "anthropic" if known.kind == "anthropic" else "openai"
    found = lane.finder is not None
    provider = ProviderSpec(
        max_concurrency=lane.window.size if lane.window.learned else 0,
        counting="used" if known.spec.counting.settle_output else "reserved",
        headers=style if reported else "none",
        says_which=not found,
        retry_after="none" if found else "exact",
    )
    return provider, buckets


def _bucket(lane: Lane, meter: Meter, record: LaneRecord | None, mind: str, now: float) -> VirtualBucket:
    if meter.name == LEARNED:
        assert lane.finder is not None
        bucket = VirtualBucket(lane.finder.rates[lane.finder.place], lane.finder.depth_s)
    else:
        bucket = VirtualBucket(meter.rate, _depth_s(meter, record, mind))
    owed_s = max(0.0, meter.full_at - now)
    bucket.level = max(0.0, bucket.capacity - owed_s * bucket.rate)
    return bucket


def _depth_s(meter: Meter, record: LaneRecord | None, mind: str) -> float:
    """How deep the provider's bucket is taken to be."""
    if not meter.probed:
        return max(meter.depth_s, meter.ceiling_s)
    learned = [] if record is None else record.meters
    same = next((one for one in learned if (one.dimension, one.period_s) == (meter.dimension, meter.period_s)), None)  # fmt: skip
    if same is not None and same.bottom:
        return meter.depth_s
    implied_s = same.ceiling_s if same is not None and meter.reported else None
    deepest_s = max(meter.depth_s, meter.ceiling_s if implied_s is None else min(implied_s, meter.ceiling_s))
    if mind == "high":
        return meter.depth_s
    if mind == "low" or (implied_s is not None and _credible(implied_s, meter)):
        return deepest_s
    if meter.depth_s > FIRST_DEPTH_S:
        return float(meter.depth_s ** (1.0 - DEEPER) * deepest_s**DEEPER)
    return meter.depth_s


def _credible(implied_s: float, meter: Meter) -> bool:
    """Whether headers speak of the bucket that counts. Many speak of the minute and count by the second."""
    return implied_s < NEARLY * meter.period_s or meter.depth_s > PLAINLY * FIRST_DEPTH_S


def furnish(provider: VirtualProvider, buckets: dict[Dimension, VirtualBucket]) -> None:
    """Give a virtual provider its buckets."""
    provider.buckets.update(buckets)


def in_flight(lane: Lane) -> int:
    """How many may be out at once as far as is known; 0: any number."""
    return 0 if lane.window.size >= OPEN else lane.window.size
