"""The lanes of a job, and all lanes that were ever used.

What a running job does with its lanes is in the progress of its process; limits and their levels are in the records of lanes, which it writes
every few seconds; what was spent is in the committed totals.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from headway.core.lanes.job_share import OUR_PART
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.reasons import EndReason, Wait, WaitCode
from headway.core.snapshot import MeterView
from headway.dashboard.records.job_reading import JobReading, RecordPlace, reading_of
from headway.dashboard.records.slow_values import name_of, patience_for
from headway.display.lane_text import lane_lines
from headway.display.stop_advice import stop_reason_text
from headway.display.usage_text import held_back_text
from headway.reason_text import stop_text, wait_text
from headway.reports.lanes import LaneReport, lane_reports
from headway.reports.run_progress import LaneProgress
from headway.reports.status import stops_left, stops_now
from headway.reports.usage import UseReport, uses_by_name
from headway.stores.records import LIVE, Job
from headway.stores.store import Store


class LaneRows:
    """The lanes of one job."""

    def __init__(self, place: RecordPlace, store: Store, reading: JobReading) -> None:
        self._place, self._store, self._reading = place, store, reading
        self._reports = _reports_of(store, reading.job)

    def rows(self) -> list[dict[str, Any]]:
        """All lanes, in the order of their names."""
        reading, store, job = self._reading, self._store, self._reading.job
        routes = {route.name: route for route in store.routes(job.id)}
        progress = {} if reading.progress is None else reading.progress.lanes
        uses, counts = uses_by_name(store, job), self._counts()
        stops = self._stops()
        return [
            {
                "lane": name,
                "provider": routes[name].provider if name in routes else name.partition("/")[0],
                "model": routes[name].model if name in routes else name.partition("/")[2],
                **_now(progress.get(name) if reading.is_live else None),
                **_of_view(self._reports.get(name), is_live=reading.is_live),
                **_counted(progress.get(name), uses.get(name), counts.get(name)),
                "stopped": stops.get(name),
            }
            for name in sorted({*routes, *progress})
        ]

    def _stops(self) -> dict[str, str]:
        """Why lanes cannot continue, by name."""
        reading = self._reading
        if reading.live_progress is not None:
            return {name: stop_text(reason) for name, reason in stops_now(reading.live_progress).items()}
        left: Mapping[str, EndReason] = stops_left(self._store, reading.job)
        return {name: stop_reason_text(reason) for name, reason in left.items()}

    def _counts(self) -> dict[str, dict[str, int]]:
        """Units by status for each lane, over all runs. With several lanes that takes a scan, so they may be a few seconds old."""
        job, store = self._reading.job, self._store
        names = {route.name for route in store.routes(job.id)}
        if len(names) == 1:
            return {name: {"pending": job.total - job.ended, **job.counts} for name in names}
        state = (job.ended, job.total)
        nothing: dict[str, dict[str, int]] = {}
        return self._place.slow.get(
            name_of("lanes", job), state, lambda own: own.per_lane(job.id), nothing, patience_for(job.total)
        )


def all_lanes(place: RecordPlace, store: Store) -> list[dict[str, Any]]:
    """Every lane that was ever used, as `headway lanes` knows it, and what running jobs do with it."""
    now = time.time()
    running: dict[str, list[dict[str, Any]]] = {}
    for job in store.jobs():
        if job.state in LIVE and (reading := reading_of(place, job)).is_live:
            for row in LaneRows(place, store, reading).rows():
                running.setdefault(str(row["lane"]), []).append({"job": job.name, **row})
    return [
        {**_report_fields(report), "text": lane_lines(report, now), "jobs": running.get(report.lane, [])}
        for report in lane_reports(store)
    ]


def _report_fields(report: LaneReport) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(report, str_keys=True)
    if report.seen is not None:
        wait = report.seen.wait
        fields["seen"]["wait"] = None if wait is None else {"reason": wait_text(wait), "until": wait.until}
        fields["seen"]["limits"] = _limits(report)
    return fields


def _reports_of(store: Store, job: Job) -> dict[str, LaneReport]:
    """The records of the job's lanes by name: those that its units used last, or the latest of that name."""
    used = {use.lane for use in store.use_by_route(job.id).values()}
    keys = {lane.key for lane in store.lanes() if lane.id in used}
    found: dict[str, LaneReport] = {}
    for report in lane_reports(store):
        other = found.get(report.lane)
        if other is None or _is_better(report, other, keys):
            found[report.lane] = report
    return found


def _is_better(one: LaneReport, other: LaneReport, keys: set[str]) -> bool:
    return (one.key in keys, one.updated_utc or 0.0) > (other.key in keys, other.updated_utc or 0.0)


def _now(lane: LaneProgress | None) -> dict[str, Any]:
    """What the lane of a running job does now."""
    if lane is None:
        return {
            "in_flight": 0, "window": None, "queued": 0, "remaining": 0, "rate_per_s": 0.0, "binding": "", "used_of_binding": 0.0,
            "wait": None, "held": None, "others_share": 0.0, "windows": [],
        }  # fmt: skip
    wait = lane.waits_for
    return {
        "in_flight": lane.in_flight,
        "window": lane.window,
        "queued": lane.queued,
        "remaining": lane.remaining,
        "rate_per_s": lane.rate_per_s,
        "binding": lane.binding,
        "used_of_binding": lane.used_of_binding,
        "wait": None if wait is None else _wait(wait),
        "held": None if wait is None else _hold(wait),
        "others_share": lane.others,
        "windows": lane.windows,
    }  # fmt: skip


def _wait(wait: Wait) -> dict[str, Any]:
    return {"code": wait.code, "text": wait_text(wait), "until_utc": wait.until}


def _hold(wait: Wait) -> dict[str, Any] | None:
    return {"reason": wait.message, "until_utc": wait.until} if wait.code is WaitCode.HOLD else None


def _of_view(report: LaneReport | None, *, is_live: bool) -> dict[str, Any]:
    """The limits of a lane as it recorded them last, what held it back, and when it will have ended."""
    seen = None if report is None else report.seen
    if report is None or seen is None:
        return {"limits": [], "held_back": "", "eta_s": None, "seen_utc": None}
    age_s = max(0.0, time.time() - (report.updated_utc or 0.0))
    eta_s = None if seen.eta_s is None or not is_live else max(0.0, seen.eta_s - age_s)
    return {
        "limits": _limits(report),
        "held_back": held_back_text(seen) if seen.started else "",
        "eta_s": eta_s,
        "seen_utc": report.updated_utc,
    }


def _limits(report: LaneReport) -> list[dict[str, Any]]:
    seen = report.seen
    assert seen is not None
    used = {share.name: share.used for share in seen.shares}
    found = report.learned is not None and report.learned.found is not None
    return [
        {
            "name": meter.name,
            "dimension": meter.dimension,
            "limit": meter.limit,
            "level": min(meter.limit, max(0.0, meter.level)),
            "source": _source(meter),
            "used_share": used.get(meter.name),
        }
        for meter in seen.meters
        if not meter.name.endswith(OUR_PART) and (meter.name != LEARNED or found)
    ]


def _source(meter: MeterView) -> str:
    return "learned" if meter.name == LEARNED else "reported" if meter.reported else "configured"


def _counted(
    lane: LaneProgress | None, use: UseReport | None, counts: Mapping[str, int] | None
) -> dict[str, Any]:
    """Ends, refusals, tokens and cost, over all runs; ends of the latest run alone while those of a large job are counted."""
    if counts is None:
        counts = {} if lane is None else {"succeeded": lane.succeeded, "failed": lane.failed}
    return {
        "succeeded": counts.get("succeeded", 0) + counts.get("cached", 0),
        "failed": counts.get("failed", 0) + counts.get("timed_out", 0),
        "attempts": 0 if use is None else use.attempts,
        "refused": (0 if lane is None else lane.refused) if use is None else use.refused,
        "cost_usd": None if use is None else use.cost_usd,
        "input_tokens": 0 if use is None else use.input_tokens,
        "output_tokens": 0 if use is None else use.output_tokens,
    }
