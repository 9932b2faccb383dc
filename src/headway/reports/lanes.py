"""A lane over all jobs: its cost, what it learned, and its last recorded state."""

from __future__ import annotations

import msgspec

from headway.core.lanes.lane_memory import LaneRecord
from headway.core.reasons import Wait
from headway.core.snapshot import LaneView
from headway.reports.usage import UseReport, use_report
from headway.stores.older_reasons import lane_wait
from headway.stores.records import StoredLane, UsageTotals
from headway.stores.store import Store


class LaneReport(msgspec.Struct, frozen=True):
    """A lane. `learned` is kept for its next run. `seen` is its state at `updated_utc`; instants are UTC."""

    lane: str
    key: str
    updated_utc: float | None
    spent: UseReport
    learned: LaneRecord | None
    seen: LaneView | None


class _StoredWait(msgspec.Struct):
    """A recorded wait: the fields of `Wait`, or a sentence of an older version."""

    reason: str | None = None
    until: float | None = None


class _StoredView(msgspec.Struct):
    wait: _StoredWait | None


def lane_reports(store: Store) -> list[LaneReport]:
    """Every lane that was ever used."""
    uses = store.use_by_lane()
    return [_report(lane, uses.get(lane.id) or UsageTotals()) for lane in store.lanes()]


def _report(lane: StoredLane, use: UsageTotals) -> LaneReport:
    return LaneReport(
        lane=lane.name,
        key=lane.key,
        updated_utc=lane.updated_utc,
        spent=use_report(use),
        learned=None if lane.record is None else msgspec.json.decode(lane.record, type=LaneRecord),
        seen=None if lane.view is None else _view(lane.view),
    )


def _view(data: bytes) -> LaneView:
    stored = msgspec.json.decode(data, type=_StoredView).wait
    if stored is None or stored.reason is None:
        return msgspec.json.decode(data, type=LaneView)
    wait: Wait = lane_wait(stored.reason, stored.until)
    fields: dict[str, object] = {**msgspec.json.decode(data), "wait": msgspec.to_builtins(wait)}
    return msgspec.convert(fields, LaneView)
