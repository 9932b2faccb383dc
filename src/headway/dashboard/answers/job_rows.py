"""A job as a row: the list of jobs, the head of a job's page, and what changes while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headway.dashboard.answers.query import Page, cursor_number
from headway.dashboard.records.job_reading import JobReading, RecordPlace, reading_of
from headway.dashboard.troubles.job_troubles import brief_troubles
from headway.dashboard.troubles.trouble import Trouble
from headway.jobs.kinds import KINDS
from headway.reports.flows.node_progress import UNIT_NODES
from headway.reports.run_progress import Progress
from headway.stores.store import Store

#: Units that a list of jobs shows as in flight need a process.
_OPEN: Final = ("pending", "assigned", "running")


def job_rows(place: RecordPlace, store: Store, page: Page) -> dict[str, Any]:
    """A page of the jobs, the newest first. The cursor is the number of the last job."""
    before = None if page.after is None else cursor_number(page.after)
    jobs = [job for job in store.jobs() if before is None or job.id < before]
    shown = jobs[: page.limit]
    rows = []
    for job in shown:
        reading = reading_of(place, job, with_progress=False)
        rows.append(job_row(reading, brief_troubles(place, reading)))
    return {"jobs": rows, "next": str(shown[-1].id) if len(jobs) > len(shown) else None}


def job_row(reading: JobReading, troubles: Sequence[Trouble]) -> dict[str, Any]:
    """One job. Its counts are committed; what is in flight is from the progress of its process, at most half a second old."""
    job, progress = reading.job, reading.live_progress
    total = job.total if progress is None else max(job.total, _known_units(progress))
    left = total - job.ended
    in_flight = 0 if progress is None else min(left, progress.totals.in_flight)
    counts = {
        **dict(zip(_OPEN, (left - in_flight, 0, in_flight), strict=True)),
        **{str(status): n for status, n in job.counts.items()},
    }
    return {
        "job": job.name,
        "kind": job.kind,
        "state": reading.state,
        "live": reading.is_live,
        "input": KINDS[job.kind].input_name(job) if job.kind in KINDS else job.input,
        "total": total,
        "counts": counts,
        "attempts": job.attempts,
        "refused": job.refused,
        "input_tokens": job.input_tokens,
        "output_tokens": job.output_tokens,
        "cost_usd": job.known_usd,
        "created_utc": job.created_utc,
        "started_utc": job.started_utc,
        "finished_utc": None if reading.is_live else job.finished_utc,
        "eta_s": None if progress is None else _eta_s(progress),
        "rate_per_s": None if progress is None else sum(lane.rate_per_s for lane in progress.lanes.values()),
        "trouble": troubles,
    }


def _eta_s(progress: Progress) -> float | None:
    """The time left; None while a flow still has nodes or items that are no units yet."""
    if any(progress.node_counts.get(status) for status in ("pending", "ready")):
        return None
    return progress.totals.eta_s if _known_units(progress) <= progress.totals.units else None


def _known_units(progress: Progress) -> int:
    """The units of a flow as far as they are known: items of a node that runs one after another become units one by one."""
    return sum(node.total for node in progress.nodes.values() if node.kind in UNIT_NODES)
