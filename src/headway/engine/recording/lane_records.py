"""What a lane learned, as the store keeps it, and how the next run restores it.

Nothing here commits: rows go into a `WriteBatch`, records come from a `Store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import (
    LaneRecord,
    export_lane,
    import_account,
    import_lane,
    rebuild_levels,
)
from headway.core.model import DAY_S, MINUTE_S, Costs
from headway.core.snapshot import LaneView
from headway.stores.records import RecordedStart, UnknownOutcome


class RestoredLane:
    """A lane that knows again what it learned in earlier runs. The levels of its meters follow (`restore_levels`)."""

    __slots__ = ("lane", "now", "recorded_at", "starts", "utc")

    def __init__(self, lane: LaneState, record: bytes | None, now: float, utc: float) -> None:
        self.lane, self.now, self.utc = lane, now, utc
        self.recorded_at = float("inf")
        self.starts: list[tuple[float, Costs]] = []
        if record is not None:
            learned = msgspec.json.decode(record, type=LaneRecord)
            # If the clock was set back since then, its difference says nothing: count no time as passed.
            self.utc = max(utc, learned.recorded_utc)
            import_lane(lane, learned, now, self.utc)
            self.recorded_at = now - (self.utc - learned.recorded_utc)

    def join_account(self, records: Iterable[bytes | None]) -> None:
        """Take over what other lanes know of the same account."""
        for record in records:
            if record is not None:
                import_account(self.lane, msgspec.json.decode(record, type=LaneRecord), self.now, self.utc)

    def add_start(self, utc: float | None, costs: Costs) -> None:
        """A request was sent at this time; None: the time is not known, so it counts as sent just now."""
        at = self.now if utc is None else min(self.now, self.now - (self.utc - utc))
        self.starts.append((at, costs))


def oldest_start_utc(lanes: Iterable[LaneState], utc: float) -> float:
    """Starts before this time no longer count for any meter of these lanes."""
    longest_s = max((meter.period_s for lane in lanes for meter in lane.limits.meters), default=0.0)
    return utc - min(DAY_S, max(MINUTE_S, longest_s))


def restore_levels(
    lanes: Mapping[int, RestoredLane], starts: Iterable[RecordedStart], unknown: Iterable[UnknownOutcome] = ()
) -> None:
    """Compute what is left in the buckets of lanes (by their number), from recorded starts and from units that may have
    been sent.
    """
    for start in starts:
        if start.lane in lanes:
            lanes[start.lane].add_start(start.at_utc, start.costs)
    for unit in unknown:
        if unit.lane is not None and unit.lane in lanes:
            tokens_in = unit.chars / 4.0
            costs = (1.0, tokens_in + max(0, unit.max_tokens), tokens_in, 0.0)
            lanes[unit.lane].add_start(unit.started_utc, costs)
    for each in lanes.values():
        rebuild_levels(each.lane, sorted(each.starts), each.recorded_at)


def lane_row(
    lane: LaneState, record: bytes | None, view: LaneView, now: float, utc: float
) -> tuple[bytes, bytes, float]:
    """What a lane has learned, its view, and the time. `record` is what the store has from before this run."""
    if record is None or lane.seq or lane.hold.until > now:
        # A lane that sent nothing has learned nothing, and the older record is better.
        record = msgspec.json.encode(export_lane(lane, now, utc))
    return record, msgspec.json.encode(_with_utc(view, utc - now)), utc


def _with_utc(view: LaneView, offset_s: float) -> LaneView:
    """The same view with UTC instants, for other processes."""
    if view.wait is None or view.wait.until is None:
        return view
    wait = msgspec.structs.replace(view.wait, until=view.wait.until + offset_s)
    return msgspec.structs.replace(view, wait=wait)
