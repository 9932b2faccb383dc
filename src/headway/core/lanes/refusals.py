"""What a lane learns from a refusal that says "too fast", told or untold.

Where limits are known the level was misjudged: the reserve grows, once for one congestion event, and the meter that
the refusal speaks of is put right. Where nobody tells anything it may be about a rate or about the number in flight;
`_judge` weighs that, and the finder measures the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headway.core.lanes.job_share import WHOLE
from headway.core.lanes.meter import MINIMUM_GAP, Meter
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import DAY_S, Dimension, Hint
from headway.core.retry import LONGEST_HINT_S

if TYPE_CHECKING:
    from headway.core.lanes.lane import Lane
    from headway.core.lanes.rate_finder import Finder

#: The reserve is at most this many times a meter's guard, and grows by this for each congestion event.
ALARMED: Final = 8.0
CAUTION_GROWTH: Final = 1.5
#: After a refusal that was not the ramp's and found the bucket shallower than it was taken to be, the ramp rests so long.
BOTTOM_PAUSE_S: Final = 10.0
#: A refusal further below the suspected number in flight than this share of it (or two) is about something else.
NEAR: Final = 0.02
#: With so few in flight a refusal is about a rate; with more it may be about either, and is taken for both.
FEW: Final = 3
#: So many refusals at nearly the same number in flight make that number a suspect.
ALWAYS_AT: Final = 4


def of_rate(lane: Lane, entry: Entry, hint: Hint, now: float) -> None:
    """The provider said that this attempt came too soon."""
    wait_s = hint.retry_after_s
    if wait_s is not None and wait_s <= LONGEST_HINT_S:
        lane.hold.pause(now + wait_s - hint.precision_s)
    if hint.growing:
        lane.slow_down(entry, now)
        return
    if lane.finder is not None:
        _of_unknown(lane, lane.finder, entry, now)
    elif not _disproved(lane, entry, hint, now) and not _ended_ramp(lane, entry, hint, now):
        _of_known(lane, entry, hint, now)


def _disproved(lane: Lane, entry: Entry, hint: Hint, now: float) -> bool:
    """Whether refusals have proven the configured limits too high; the lane then goes on at what they let in."""
    if lane.levelled or lane.part < WHOLE:
        return False
    after = len(lane.charged_after(entry))
    mean = lane.mean_costs()
    allowed = min(
        (meter.rate / mean[meter.place] for meter in lane.meters if _paces(meter) and mean[meter.place]),
        default=0.0,
    )
    if not allowed:
        return False
    found = lane.doubt.refused(entry.started_at, lane.started - lane.refused - after, allowed)
    if not found:
        return False
    lane.disprove(hint.dimension, found, entry.started_at, now)
    return True


def _of_known(lane: Lane, entry: Entry, hint: Hint, now: float) -> None:
    if not any(_paces(meter) for meter in lane.meters):
        lane.window.refused(entry.epoch, lane.in_flight + 1)
        return
    if entry.epoch == lane.window.epoch:
        lane.window.epoch += 1
        lane.caution = min(lane.caution * CAUTION_GROWTH, ALARMED)
    told = {report.dimension: report.remaining for report in hint.reports}
    for meter in _suspects(lane, entry, hint.dimension):
        if _found_bottom(entry, meter, told.get(meter.dimension), now):
            meter.rest_ramp(now + BOTTOM_PAUSE_S, lane.seq)


def _paces(meter: Meter) -> bool:
    """Whether a refusal can be about this meter: a day's quota says so itself, a gap and a part are our own."""
    return meter.period_s < DAY_S and meter.name != MINIMUM_GAP and meter.whole is None


def _suspects(lane: Lane, entry: Entry, dimension: Dimension | None) -> list[Meter]:
    """The meters that a refusal speaks of: the dimension it names, otherwise the one nearest to its end."""
    pacing = [meter for meter in lane.meters if _paces(meter)]
    named = [meter for meter in pacing if meter.dimension is dimension]
    return named or [max(pacing, key=lambda meter: meter.ready_at(entry.costs[meter.place], lane.caution))]


def _found_bottom(entry: Entry, meter: Meter, left: float | None, now: float) -> bool:
    """A refusal at a debt that was thought to be fine, with what the provider says is left, if it says so.

    Returns whether the bucket turns out to be shallower than it was taken to be.
    """
    cost = entry.costs[meter.place]
    if left is not None and left <= cost:
        return False  # As reported: the level has been put right, and the depth is not in doubt.
    before_s = meter.proven_s
    # Beside other jobs it is our part that says how far we went.
    measured = next((part for part in entry.meters if part.whole is meter), meter)
    if measured in entry.meters:
        mark = entry.marks[entry.meters.index(measured)]
        meter.overreached(mark + measured.shift - entry.started_at - cost / measured.rate)
    if left is None:
        meter.empty(now)
    return meter.proven_s < before_s


def _ended_ramp(lane: Lane, entry: Entry, hint: Hint, now: float) -> bool:
    """End the ramp of a bucket's depth. Returns whether it has met the bottom, which is no congestion."""
    told = {report.dimension: report.remaining for report in hint.reports}
    bottom = False
    for meter in entry.meters:
        named = hint.dimension is None or meter.dimension is hint.dimension
        left = told.get(meter.dimension)
        as_reported = left is not None and left <= entry.costs[meter.place]
        if named and not as_reported and _ramps(lane, meter, entry, now):
            meter.end_ramp(meter.full_at - entry.started_at, lane.seq, now)
            bottom = True
    if not bottom and not lane.depth_ramp.ended:
        lane.depth_ramp.rest(now + BOTTOM_PAUSE_S, -1)
        for meter in lane.meters:
            meter.deepen(meter.proven_s, now)
    if lane.depth_ramp.ended:
        lane.end_steps()
    if lane.part < WHOLE:
        lane.select()
    return bottom


def _ramps(lane: Lane, meter: Meter, entry: Entry, now: float) -> bool:
    """Whether this attempt was sent while the ramp went beyond what is proven of a meter."""
    ramp = meter.ramp
    if ramp is None or entry.seq <= ramp.last_seq:
        return ramp is not None
    resting = ramp.ended and now < ramp.rest_until
    return meter.shallow and not resting and lane.deepest_s(meter, entry) >= meter.proven_s - meter.unit_s


def _of_unknown(lane: Lane, finder: Finder, entry: Entry, now: float) -> None:
    if entry.probe == "window":
        lane.window.confirm()
    elif entry.epoch == lane.window.epoch:
        _judge(lane, finder, entry, now)
    finder.meter.empty(now)


def _judge(lane: Lane, finder: Finder, entry: Entry, now: float) -> None:
    """Was it a rate, or too many at once?

    The first time it may be either. Later a refusal well below what was accepted before is about a rate, and one
    just above the window's ceiling is about the number in flight.
    """
    window, flight = lane.window, entry.flight
    if flight > window.ceiling and window.size > window.ceiling:
        window.refused(window.epoch, flight)
        return
    window.epoch += 1
    ramping = finder.mode == "ramp"
    if flight <= FEW:
        window.clear()
    elif ramping and 2 * flight > lane.in_flight:
        # With many more in flight by now it cannot be about their number.
        window.suspect(flight - 1, now)
    elif not ramping and flight >= window.ceiling - max(2.0, NEAR * window.ceiling):
        window.suspect(flight - 1, now)
    elif not ramping and _always_at(lane, flight):
        window.suspect(min(lane.refused_at) - 1, now)
    else:
        window.clear()
    finder.refused(entry.started_at, entry.seq, lane.charged_after(entry), lane.mean_costs(), now)
    lane.select()


def _always_at(lane: Lane, flight: int) -> bool:
    """Whether refusals keep coming at the same number in flight."""
    lane.refused_at.append(flight)
    lowest, highest = min(lane.refused_at), max(lane.refused_at)
    return len(lane.refused_at) == ALWAYS_AT and highest - lowest <= max(1, highest // 20)
