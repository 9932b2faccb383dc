"""What a lane has learned, as a record that survives the process: holds, reported limits, depths, the window.

Instants on the engine's clock mean nothing in another process, so records have wall-clock times: the caller
passes the time of both clocks. Levels are rebuilt from recorded starts, which a crash cannot lose. The record has levels as
well, because a provider may have reported less than our own starts explain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headway.core.lanes.account import AccountKey
from headway.core.lanes.estimate import EstimatorRecord
from headway.core.lanes.in_flight.window import OPEN
from headway.core.lanes.lane import LaneState
from headway.core.lanes.learning.limit_doubt import DisprovedLimit
from headway.core.lanes.learning.rate_finder import LEARNED, RateFinder
from headway.core.lanes.queueing.queue import ALWAYS
from headway.core.model import DIMENSIONS, AccountWindow, Costs, Dimension
from headway.core.retry import LONGEST_BELIEVED_S

#: After this long a learned rate has no evidence left.
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
    #: The most that its bucket can hold, and whether an attempt beyond `depth_s` was refused.
    ceiling_s: float | None = None
    bottom: bool = False
    #: The length of a window, if the whole allowance comes at once at its start.
    window_s: float | None = None


class FoundRecord(msgspec.Struct, frozen=True):
    """A rate that was learned from refusals: by dimension, a second; and its evidence."""

    rates: tuple[float, ...]
    dimension: Dimension
    depth_s: float
    evidence_s: float
    full_utc: float | None = None
    #: Where its allowance comes at once, at the start of each window: how long a window is.
    window_s: float | None = None


class LaneRecord(msgspec.Struct, frozen=True):
    """What the next run of a lane starts with."""

    lane: str
    recorded_utc: float
    held_until_utc: float | None = None
    hold_reason: str = ""
    window: int | None = None
    meters: tuple[MeterRecord, ...] = ()
    found: FoundRecord | None = None
    estimates: EstimatorRecord | None = None
    #: Whether the provider has ever answered.
    answered: bool = False
    #: Bounds, in requests a second, of a limit that was reached but not measured. Only forecasts use them.
    glimpsed: tuple[float, float] | None = None
    #: A configured limit that refusals proved too high.
    disproved: DisprovedLimit | None = None
    #: The largest accepted request, by dimension.
    largest: tuple[float, ...] = ()
    #: The account that the lane belongs to, and its model there; whether the hold is that of the `account` or of the `model`.
    account: str = ""
    account_model: str = ""
    hold_scope: str = ""
    #: The windows of its subscription.
    windows: tuple[AccountWindow, ...] = ()


def export_lane(lane: LaneState, now: float, utc: float) -> LaneRecord:
    """The lane's record at an instant that is `now` on the engine's clock and `utc` on the wall clock."""
    held = lane.hold.until > now
    return LaneRecord(
        lane=lane.key,
        recorded_utc=utc,
        held_until_utc=utc + (lane.hold.until - now) if held else None,
        hold_reason=lane.hold.reason if held else "",
        window=_export_window(lane),
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
            for meter in lane.limits.meters
            if meter.name != LEARNED and (meter.probed or meter.reported)
        ),
        found=_export_finder(lane.limits.finder, lane.limits.part, utc - now),
        estimates=lane.unit_costs.estimator.export() if lane.unit_costs.estimator.reports else None,
        answered=lane.breaker.ever_answered or lane.succeeded > 0,
        glimpsed=None if lane.limits.finder is None else lane.limits.finder.glimpsed,
        disproved=lane.limits.disproved,
        largest=lane.limits.evidence.largest if any(lane.limits.evidence.largest) else (),
        account=lane.account.name,
        account_model=lane.account.model,
        hold_scope=lane.hold.scope if held else "",
        windows=lane.windows.all(),
    )


def _export_window(lane: LaneState) -> int | None:
    """The learned number in flight of the whole account, of which this job had a part."""
    window, cap = lane.window, lane.cap
    if cap.follows:
        return cap.found(window)
    if not window.learned:
        return None
    return (
        window.lasting + cap.elsewhere if window.ceiling < OPEN else round(window.lasting / lane.limits.part)
    )


def _export_finder(finder: RateFinder | None, part: float, offset_s: float) -> FoundRecord | None:
    """The learned rate of the whole account, of which this job had `part`."""
    if finder is None or not finder.found:
        return None
    return FoundRecord(
        tuple(rate / part for rate in finder.rates),
        DIMENSIONS[finder.place],
        finder.depth_s,
        finder.evidence_s,
        finder.meter.full_at + offset_s,
        finder.window_s,
    )


def import_lane(lane: LaneState, record: LaneRecord, now: float, utc: float) -> None:
    """Continue with what an earlier run has learned. A hold whose end has passed is ignored."""
    _import_hold(lane, record, now, utc)
    _import_windows(lane, record, utc)
    if record.window is not None:
        lane.window.resume(record.window)
    lane.breaker.ever_answered = _was_answered(record)
    if len(record.largest) == len(DIMENSIONS):
        lane.limits.evidence.note(record.largest)
    if record.estimates is not None:
        lane.unit_costs.estimator.recall(record.estimates)
    if record.disproved is not None:
        lane.limits.recall_disproved(record.disproved, now)
    if record.found is not None and lane.limits.finder is not None:
        lane.limits.recall_found(record.found, _trust(record, utc), now)
    for meter in record.meters:
        lane.recall(meter, now)
    _restore_levels(lane, record, now - utc)


def import_account(lane: LaneState, record: LaneRecord, now: float, utc: float) -> None:
    """Take over what another lane of the same account has learned about it: its windows, and a hold of all."""
    other = AccountKey(record.account, record.account_model)
    if lane.account.name and other.name == lane.account.name:
        _import_windows(lane, record, utc)
        if other.shares_hold(lane.account, record.hold_scope):
            _import_hold(lane, record, now, utc)


def _import_hold(lane: LaneState, record: LaneRecord, now: float, utc: float) -> None:
    if record.held_until_utc is not None and 0.0 < record.held_until_utc - utc <= LONGEST_BELIEVED_S:
        lane.hold.extend(now + (record.held_until_utc - utc), record.hold_reason, record.hold_scope)


def _import_windows(lane: LaneState, record: LaneRecord, utc: float) -> None:
    """The windows that have not begun anew since."""
    lane.windows.learn(
        window for window in record.windows if window.resets_utc is not None and window.resets_utc > utc
    )


def reopened(record: LaneRecord) -> LaneRecord:
    """The record without its hold."""
    open_windows = tuple(window for window in record.windows if not window.closed)
    return msgspec.structs.replace(
        record, held_until_utc=None, hold_reason="", hold_scope="", windows=open_windows
    )


def _was_answered(record: LaneRecord) -> bool:
    """Whether the provider has ever answered. Records of earlier versions show it only by what they learned."""
    reported = any(meter.reported for meter in record.meters)
    return record.answered or reported or record.estimates is not None or record.found is not None


def _restore_levels(lane: LaneState, record: LaneRecord, offset_s: float) -> None:
    """Set the levels of the record; time has refilled the buckets since."""
    known = {(each.dimension, each.period_s): each.full_utc for each in record.meters}
    for meter in lane.limits.meters:
        full_utc = known.get((meter.dimension, meter.period_s))
        if meter.name == LEARNED:
            full_utc = None if record.found is None else record.found.full_utc
        if full_utc is not None:
            meter.full_at = full_utc + offset_s


def _trust(record: LaneRecord, utc: float) -> float:
    """The evidence that is left for a learned rate: it shrinks with age, and is 0 after a week."""
    assert record.found is not None
    age_s = max(0.0, utc - record.recorded_utc)
    return record.found.evidence_s * max(0.0, 1.0 - age_s / FORGOTTEN_S)


def rebuild_levels(
    lane: LaneState, starts: Iterable[tuple[float, Costs]], recorded_at: float = float("inf")
) -> None:
    """Charge the lane's meters for starts `(at, costs)` of an earlier run, oldest first, on the engine's clock.

    `recorded_at` is the instant of the record that the lane has imported.
    """
    starts = list(starts)
    guessing = lane.limits.finder is not None and not lane.limits.finder.found
    for meter in lane.limits.meters:
        if guessing and meter.name == LEARNED:
            continue  # Its pace is only where a search begins: at that pace the starts would make a debt of minutes.
        meter.rebuild(((at, costs[meter.place]) for at, costs in starts), recorded_at)
    lane.traffic.last_start_at = max((at for at, _ in starts), default=ALWAYS)
    if starts:
        for meter in lane.limits.meters:
            # The last start was accepted, so no bucket owed more than it holds, whatever was reserved for unknown answers.
            meter.full_at = min(meter.full_at, lane.traffic.last_start_at + meter.ceiling_s)
