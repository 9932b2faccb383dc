"""What a lane knows, as a plain record that survives the process: holds, reported limits, depths, the window.

Instants on the engine's clock mean nothing in another process, so records carry wall-clock times: the caller
says what both clocks show. Levels are rebuilt from recorded starts, which a crash cannot lose; the record has them as
well, because a provider may have reported less than our own starts explain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headway.core.lanes.estimate import EstimatorRecord
from headway.core.lanes.lane import Lane
from headway.core.lanes.limit_doubt import DisprovedLimit
from headway.core.lanes.queueing.queue import ALWAYS
from headway.core.lanes.rate_finder import LEARNED, Finder
from headway.core.model import DIMENSIONS, Costs, Dimension
from headway.core.retry import LONGEST_BELIEVED_S

#: After this long nothing that was found counts as evidence any more.
FORGOTTEN_S: Final = 7 * 86_400.0


class MeterRecord(msgspec.Struct, frozen=True):
    """A limit that the provider reported, and how deep its bucket proved to be."""

    dimension: Dimension
    period_s: float
    limit: float
    depth_s: float
    reported: bool
    #: When the bucket would have been full again.
    full_utc: float | None = None
    #: How deep its bucket can be at the most, and whether something that went beyond `depth_s` was refused.
    ceiling_s: float | None = None
    bottom: bool = False
    #: Where its whole allowance comes at once, at the start of each window: how long a window is.
    window_s: float | None = None


class FoundRecord(msgspec.Struct, frozen=True):
    """A rate that was found without being told: by dimension, a second; and what it rests on."""

    rates: tuple[float, ...]
    dimension: Dimension
    depth_s: float
    evidence_s: float
    full_utc: float | None = None


class LaneRecord(msgspec.Struct, frozen=True):
    """What a lane takes along into its next life."""

    lane: str
    recorded_utc: float
    held_until_utc: float | None = None
    hold_reason: str = ""
    window: int | None = None
    meters: tuple[MeterRecord, ...] = ()
    found: FoundRecord | None = None
    estimates: EstimatorRecord | None = None
    #: Whether anything has ever come back from the other end.
    answered: bool = False
    #: Requests a second that a limit which was met and not measured is likely between. Plans go by it, lanes do not.
    glimpsed: tuple[float, float] | None = None
    #: A configured limit that refusals proved too high.
    disproved: DisprovedLimit | None = None
    #: The most that one accepted request took, by dimension.
    largest: tuple[float, ...] = ()


def export_lane(lane: Lane, now: float, utc: float) -> LaneRecord:
    """The lane's record at an instant that is `now` on the engine's clock and `utc` on the wall's."""
    held = lane.hold.until > now
    return LaneRecord(
        lane=lane.key,
        recorded_utc=utc,
        held_until_utc=utc + (lane.hold.until - now) if held else None,
        hold_reason=lane.hold.reason if held else "",
        window=round(lane.window.lasting / lane.part) if lane.window.learned else None,
        meters=tuple(
            MeterRecord(
                meter.dimension,
                meter.period_s,
                meter.limit,
                meter.depth_s,
                meter.reported,
                utc + meter.full_at - now,
                meter.ceiling_s,
                meter.shallow and meter.ramp is not None and meter.ramp.ended,
                meter.period_s if meter.windowed else None,
            )
            for meter in lane.meters
            if meter.name != LEARNED and (meter.probed or meter.reported)
        ),
        found=_export_finder(lane.finder, lane.part, utc - now),
        estimates=lane.estimator.export() if lane.estimator.reports else None,
        answered=lane.breaker.heard or lane.succeeded > 0,
        glimpsed=None if lane.finder is None else lane.finder.glimpsed,
        disproved=lane.disproved,
        largest=lane.evidence.largest if any(lane.evidence.largest) else (),
    )


def _export_finder(finder: Finder | None, part: float, offset_s: float) -> FoundRecord | None:
    """What was found, as if nobody else had used the account."""
    if finder is None or not finder.found:
        return None
    return FoundRecord(
        tuple(rate / part for rate in finder.rates),
        DIMENSIONS[finder.place],
        finder.depth_s,
        finder.evidence_s,
        finder.meter.full_at + offset_s,
    )


def import_lane(lane: Lane, record: LaneRecord, now: float, utc: float) -> None:
    """Take up what an earlier life of this lane knew. A hold whose time has come is over."""
    if record.held_until_utc is not None and 0.0 < record.held_until_utc - utc <= LONGEST_BELIEVED_S:
        lane.hold.extend(now + (record.held_until_utc - utc), record.hold_reason)
    if record.window is not None:
        lane.window.resume(record.window)
    lane.breaker.heard = _was_answered(record)
    if len(record.largest) == len(DIMENSIONS):
        lane.evidence.note(record.largest)
    if record.estimates is not None:
        lane.estimator.recall(record.estimates)
    if record.disproved is not None:
        lane.recall_disproved(record.disproved, now)
    if record.found is not None and lane.finder is not None:
        lane.recall_found(
            record.found.rates, record.found.dimension, record.found.depth_s, _trust(record, utc), now
        )
    for meter in record.meters:
        lane.recall(meter, now)
    _restore_levels(lane, record, now - utc)


def reopened(record: LaneRecord) -> LaneRecord:
    """The record without its hold."""
    return msgspec.structs.replace(record, held_until_utc=None, hold_reason="")


def _was_answered(record: LaneRecord) -> bool:
    """Whether somebody is known to be there. Records of earlier versions say it only by what they learned."""
    told = any(meter.reported for meter in record.meters)
    return record.answered or told or record.estimates is not None or record.found is not None


def _restore_levels(lane: Lane, record: LaneRecord, offset_s: float) -> None:
    """What was left when the record was made; time has refilled the buckets since."""
    known = {(each.dimension, each.period_s): each.full_utc for each in record.meters}
    for meter in lane.meters:
        full_utc = known.get((meter.dimension, meter.period_s))
        if meter.name == LEARNED:
            full_utc = None if record.found is None else record.found.full_utc
        if full_utc is not None:
            meter.full_at = full_utc + offset_s


def _trust(record: LaneRecord, utc: float) -> float:
    """The evidence that is left of what was found: less the older it is, and after a week only a start."""
    assert record.found is not None
    age_s = max(0.0, utc - record.recorded_utc)
    return record.found.evidence_s * max(0.0, 1.0 - age_s / FORGOTTEN_S)


def rebuild_levels(
    lane: Lane, starts: Iterable[tuple[float, Costs]], recorded_at: float = float("inf")
) -> None:
    """Charge the lane's meters for starts `(at, costs)` of an earlier life, oldest first, on the engine's clock.

    `recorded_at` is when the record was made that the lane has imported.
    """
    starts = list(starts)
    guessing = lane.finder is not None and not lane.finder.found
    for meter in lane.meters:
        if guessing and meter.name == LEARNED:
            continue  # Its pace is only where a search begins; at that pace the starts would be a debt of minutes.
        meter.rebuild(((at, costs[meter.place]) for at, costs in starts), recorded_at)
    lane.last_start_at = max((at for at, _ in starts), default=ALWAYS)
    if starts:
        for meter in lane.meters:
            # The last of them was let in: no bucket owed more than it holds, whatever was set aside for answers that nobody knew.
            meter.full_at = min(meter.full_at, lane.last_start_at + meter.ceiling_s)
