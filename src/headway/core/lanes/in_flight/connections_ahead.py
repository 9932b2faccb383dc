"""How many connections a lane should have open beyond those in use, so that its next requests need not wait for one.

Opening a connection takes 50 to 300 ms with TLS. A lane at its pace needs what it starts within that time. A lane whose
bucket or rate is still being found starts the next step of its ramp when the answers to this one arrive: its connections are opened
meanwhile. A lane that starts nothing soon needs none. The first burst of a lane opens its own connections: others would only delay
those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState

#: The time that a connection takes to open, and what is kept beyond that.
OPENING_S: Final = 0.3
SPARE: Final = 1.2
#: Before the first request of a lane, and just after it; later at least one.
HANDFUL: Final = 4
FIRST_S: Final = 0.1
#: For the next step of a ramp: as many as are in flight, up to so many. A step may be larger, and the bucket may end before it.
MOST_RAMP: Final = 64


def connections_ahead(lane: LaneState, now: float) -> int:
    """How many requests the lane may start within the time that a connection takes to open."""
    if lane.stopped or lane.parked or lane.breaker.open or lane.hold.open_at > now + OPENING_S or lane.spent:
        return 0
    if now < lane.traffic.first_start_at + FIRST_S:
        soon = float(HANDFUL - lane.seq)
    else:
        paced = lane.starts_nothing_before(now + OPENING_S)
        soon = 0.0 if paced else max(1.0, SPARE * OPENING_S * lane.traffic.rate_at(now))
        if _ramps(lane):
            soon = max(soon, min(MOST_RAMP, lane.in_flight))
        soon -= lane.unwritten.count  # Their connections are being opened.
    if lane.stock.exhausted:
        soon = min(soon, len(lane.queue))
    return max(0, min(int(soon), lane.window.size - lane.in_flight))


def _ramps(lane: LaneState) -> bool:
    """Whether the number in flight is about to grow in proportion: a depth or a rate is being found."""
    finder, ramp = lane.limits.finder, lane.limits.depth_ramp
    if finder is not None:
        return finder.mode == "ramp"
    return not ramp.ended and any(meter.shallow for meter in lane.limits.meters)
