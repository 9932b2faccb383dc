"""What a lane learns from a refusal that says "too fast".

If the limits are known, the level was misjudged: the reserve grows, once per congestion event, and the meter that
the refusal is about is corrected. If they are unknown, the refusal may be about a rate or about the number in flight:
`_judge` decides that, and the finder measures the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from headway.core.lanes.in_flight.shared_cap import HEARD_AFTER_S, SETTLE_S, OtherJobs
from headway.core.lanes.job_share import WHOLE
from headway.core.lanes.learning.limit_doubt import RefusedAttempt
from headway.core.lanes.meters.meter import MINIMUM_GAP, NEARLY, Meter
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import DAY_S, Costs, Dimension, Hint
from headway.core.retry import LONGEST_HINT_S

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState
    from headway.core.lanes.learning.rate_finder import RateFinder

#: The ramp pauses for so long after a refusal that shows a shallower bucket but was not caused by the ramp.
BOTTOM_PAUSE_S: Final = 10.0
#: A refusal at a number in flight that is lower than the suspected one by more than this share (or two) has another cause.
NEAR: Final = 0.02
#: One below this share of it certainly has another cause.
FAR_BELOW: Final = 0.9
#: With at most so many in flight a refusal is about a rate. With more it may be about either, and both are lowered.
FEW: Final = 3
#: After so many refusals at nearly the same number in flight, that number is suspected.
ALWAYS_AT: Final = 4


def of_rate(lane: LaneState, entry: Entry, hint: Hint, now: float) -> None:
    """The provider refused this attempt because it came too soon."""
    wait_s = hint.retry_after_s
    if wait_s is not None and wait_s <= LONGEST_HINT_S:
        lane.hold.pause(now + wait_s - hint.precision_s)
    if hint.growing:
        lane.slow_down(entry, now)
        return
    if lane.limits.finder is not None:
        _of_unknown(lane, lane.limits.finder, entry, hint, now)
        return
    if not _disproved(lane, entry, hint, now) and not _ended_ramp(lane, entry, hint, now):
        _of_known(lane, entry, hint, now)
    lane.limits.refused(now)


def _disproved(lane: LaneState, entry: Entry, hint: Hint, now: float) -> bool:
    """Whether refusals have proven the configured limits too high. If so, the lane continues at the rate that was accepted."""
    if lane.limits.levelled or lane.limits.part < WHOLE:
        return False
    after = len(lane.sent.charged_after(entry))
    mean = lane.traffic.mean_costs()
    allowed = min(
        (
            meter.rate / mean[meter.place]
            for meter in lane.limits.meters
            if _paces(meter) and mean[meter.place]
        ),
        default=0.0,
    )
    if not allowed:
        return False
    attempt = RefusedAttempt(entry.seq, entry.started_at, lane.seq, lane.refused, after)
    rate = lane.doubt.refused(attempt, allowed)
    if not rate:
        return False
    lane.limits.disprove(hint.dimension, rate, mean, now)
    lane.window.epoch += 1
    lane.caution.reset()
    return True


def of_flight(lane: LaneState, entry: Entry, now: float) -> None:
    """The provider refused this attempt because too many were in flight. If another job searches, that one learns from it."""
    cap = lane.cap
    new = entry.epoch == lane.window.epoch
    if cap.follows and new:
        cap.crowded += 1
    if not cap.follows or cap.places is None:
        lane.window.refused(entry.epoch, lane.in_flight + 1)
        cap.event_at = now
    elif new:
        lane.window.epoch += 1


def of_others(lane: LaneState, news: OtherJobs, now: float) -> None:
    """Learn from what other jobs have sent and met: this one searches for all of them."""
    window, finder = lane.window, lane.limits.finder
    if finder is not None:
        for costs in news.sent:
            finder.count(costs)
    if not (news.refused or news.crowded) or now < lane.cap.event_at + SETTLE_S:
        return
    lane.cap.event_at = now
    if news.crowded or window.size > window.ceiling:
        window.refused(window.epoch, lane.in_flight + 1)
    elif finder is not None and finder.windows is None:
        sent_at = now - HEARD_AFTER_S
        since = lane.sent.charged_since(sent_at)
        _judge(lane, finder, Refused(lane.in_flight, sent_at, lane.seq - len(since), since), now)


def _of_known(lane: LaneState, entry: Entry, hint: Hint, now: float) -> None:
    if not any(_paces(meter) for meter in lane.limits.meters):
        of_flight(lane, entry, now)
        return
    if entry.epoch == lane.window.epoch:
        lane.window.epoch += 1
        lane.caution.grow()
    remaining = {report.dimension: report.remaining for report in hint.reports}
    for meter in _suspects(lane, entry, hint.dimension):
        if _found_bottom(entry, meter, remaining.get(meter.dimension), now):
            meter.rest_ramp(now + BOTTOM_PAUSE_S, lane.seq)


def _paces(meter: Meter) -> bool:
    """Whether a refusal can be about this meter: a refusal names a day's quota, and a gap or a part is our own limit."""
    return meter.period_s < DAY_S and meter.name != MINIMUM_GAP and meter.whole is None


def _suspects(lane: LaneState, entry: Entry, dimension: Dimension | None) -> list[Meter]:
    """The meters that a refusal may be about: those of the dimension it names, or else the emptiest one."""
    pacing = [meter for meter in lane.limits.meters if _paces(meter)]
    named = [meter for meter in pacing if meter.dimension is dimension]
    return named or [
        max(pacing, key=lambda meter: meter.ready_at(entry.costs[meter.place], lane.caution.level))
    ]


def _found_bottom(entry: Entry, meter: Meter, left: float | None, now: float) -> bool:
    """An attempt was refused at a debt that seemed possible. `left` is what the provider reports as left, if it does.

    Returns whether the bucket is shallower than assumed.
    """
    cost = entry.costs[meter.place]
    if left is not None and left <= cost:
        return False  # The report explains the refusal: it has corrected the level, and the depth is not in doubt.
    before_s = meter.proven_s
    # If other jobs use the lane, the meter of our part says how far we went.
    measured = next((part for part in entry.meters if part.whole is meter), meter)
    if measured in entry.meters:
        mark = entry.marks[entry.meters.index(measured)]
        meter.overreached(mark + measured.shift - entry.started_at - cost / measured.rate)
    if left is None:
        meter.empty(now)
    return meter.proven_s < before_s


def _ended_ramp(lane: LaneState, entry: Entry, hint: Hint, now: float) -> bool:
    """End the ramp of a bucket's depth. Returns whether it has reached the bottom, which is no congestion."""
    remaining = {report.dimension: report.remaining for report in hint.reports}
    bottom = False
    for meter in entry.meters:
        named = hint.dimension is None or meter.dimension is hint.dimension
        left = remaining.get(meter.dimension)
        as_reported = left is not None and left <= entry.costs[meter.place]
        if named and not as_reported and _ramps(lane, meter, entry, now):
            meter.end_ramp(meter.full_at - entry.started_at, lane.seq, now)
            bottom = True
    ramp = lane.limits.depth_ramp
    if not bottom and not _whole(entry) and (not ramp.ended or now >= ramp.rest_until):
        if ramp.ended:
            ramp.end(now, lane.seq)  # It went beyond the depth again, and met a refusal again.
        else:
            ramp.rest(now + BOTTOM_PAUSE_S, -1)
        for meter in lane.limits.meters:
            meter.deepen(meter.proven_s, now)
    if ramp.ended:
        lane.steps.end()
    if lane.limits.part < WHOLE:
        lane.limits.select()
    return bottom


def _whole(entry: Entry) -> bool:
    """Whether a whole bucket was used up, so that a refusal says nothing of its depth."""
    return any(
        meter.ramp is not None and meter.full_at - entry.started_at >= NEARLY * meter.ceiling_s
        for meter in entry.meters
    )


def _ramps(lane: LaneState, meter: Meter, entry: Entry, now: float) -> bool:
    """Whether this attempt was sent while the ramp of a meter went beyond its proven depth."""
    ramp = meter.ramp
    if ramp is None or entry.seq <= ramp.last_seq:
        return ramp is not None
    resting = ramp.ended and now < ramp.rest_until
    return (
        meter.shallow and not resting and lane.sent.deepest_s(meter, entry) >= meter.proven_s - meter.unit_s
    )


def _of_unknown(lane: LaneState, finder: RateFinder, entry: Entry, hint: Hint, now: float) -> None:
    if finder.follows:
        _of_followed(lane, finder, entry, now)
        return
    if _windowed(lane, finder, entry, hint, now):
        lane.window.clear()
        lane.limits.select()
        return
    if finder.overshoots(entry.started_at):
        pass
    elif entry.probe == "window":
        lane.window.confirm()
    elif entry.epoch == lane.window.epoch:
        since = lane.sent.charged_after(entry)
        _judge(
            lane,
            finder,
            Refused(entry.flight, entry.started_at, entry.seq, since),
            now,
            told=hint.retry_after_s is not None,
        )
    if finder.overshooting:
        finder.overshoot_further()
    else:
        finder.emptied(lane.traffic.mean_costs(), now)


def _of_followed(lane: LaneState, finder: RateFinder, entry: Entry, now: float) -> None:
    """Another job searches: it learns of this refusal, and judges it."""
    if entry.epoch == lane.window.epoch:
        lane.window.epoch += 1
        lane.cap.refused += 1
        finder.refused(entry.started_at, entry.seq, [], lane.traffic.mean_costs(), now)
    finder.emptied(lane.traffic.mean_costs(), now)


def _windowed(lane: LaneState, finder: RateFinder, entry: Entry, hint: Hint, now: float) -> bool:
    """Whether it is a fixed window that is used up. A refusal near the suspected number in flight is about that."""
    if finder.windows is None:
        if entry.flight >= FAR_BELOW * lane.window.ceiling:
            return False
        finder.may_have_taken(lane.sent.unanswered_before(entry))
    boundary = None
    if hint.retry_after_s is not None:
        low_at = entry.started_at + hint.retry_after_s - hint.precision_s
        boundary = (low_at, now + hint.retry_after_s)
    return finder.window_closed(entry.started_at, boundary, lane.traffic.mean_costs(), now)


class Refused(NamedTuple):
    """A refused attempt: how many were in flight with it, when it was sent, its number, and what was sent after it."""

    flight: int
    sent_at: float
    seq: int
    since: list[Costs]


def _judge(lane: LaneState, finder: RateFinder, refused: Refused, now: float, *, told: bool = False) -> None:
    """Decide whether a refusal is about a rate or about the number in flight. `told`: the provider says how long to wait.

    The first one may be about either. Later, a refusal well below a number that was accepted before is about a rate, and one
    just above the window's ceiling is about the number in flight.
    """
    window, flight = lane.window, refused.flight
    lane.cap.event_at = now
    if flight > window.ceiling and window.size > window.ceiling:
        window.refused(window.epoch, flight)
        return
    window.epoch += 1
    ramping = finder.mode == "ramp"
    if flight <= FEW:
        window.clear()
    elif ramping and 2 * flight > lane.in_flight:
        # If many more are in flight by now, it cannot be about their number.
        window.suspect(flight - 1, now)
    elif not ramping and flight >= window.ceiling - max(2.0, NEAR * window.ceiling):
        window.suspect(flight - 1, now)
    elif not ramping and _always_at(lane, flight):
        window.suspect(max(1, min(lane.refused_at) - lane.cap.elsewhere - 1), now)
    else:
        window.clear()
    finder.refused(refused.sent_at, refused.seq, refused.since, lane.traffic.mean_costs(), now)
    if told:
        finder.end_overshoot(now)
    if ramping and not finder.overshooting:
        # Until the refusals of all that was sent meanwhile are back.
        lane.hold.pause(2.0 * now - refused.sent_at)
    lane.limits.select()


def _always_at(lane: LaneState, flight: int) -> bool:
    """Whether the latest refusals all came at nearly the same number in flight. That of other jobs is known less exactly."""
    lane.refused_at.append(flight + lane.cap.elsewhere)
    lowest, highest = min(lane.refused_at), max(lane.refused_at)
    same = max(1, highest // 20) * (2 if lane.cap.elsewhere else 1)
    return len(lane.refused_at) == ALWAYS_AT and highest - lowest <= same
