"""A watched job in words: how far it is, how fast, what it cost, and what it waits for."""

from __future__ import annotations

from headway.core.snapshot import LaneView
from headway.display.formatting import duration, money
from headway.display.lanes.lane_order import AT_WORK, is_busy, rank
from headway.display.lanes.lane_table import wait_cell
from headway.display.plain import rate_text
from headway.engine.observer import View
from headway.reports.flows.node_progress import has_eta, units_known
from headway.reports.watching.job_watch import JobSight


def job_line(sight: JobSight, resume: str) -> str:
    """A job in one line: "batch, 729 of 1,620 (45%), 41.2/s, 3m 05s left, $0.12, 12 rate-limited, paused"."""
    parts = [sight.job.kind, progress_text(sight)]
    if rate := rate_of(sight):
        parts.append(rate_text(rate))
    parts += job_facts(sight, resume)
    if sight.job.refused:
        parts.append(f"{sight.job.refused:,} rate-limited")
    return ", ".join(part for part in parts if part)


def rate_of(sight: JobSight) -> float:
    """Units a second, of the lanes that have work. Nothing starts while a job is paused."""
    if not sight.live or sight.state == "paused":
        return 0.0
    return sum(lane.rate_per_s for lane in sight.lanes if is_busy(lane))


def progress_text(sight: JobSight) -> str:
    """ "729 of 1,620 (45%)"."""
    ended, total = ended_of(sight)
    percent = f" ({100 * ended // total}%)" if total else ""
    return f"{ended:,} of {total:,}{percent}"


def ended_of(sight: JobSight) -> tuple[int, int]:
    """How many units have ended, of how many that are known."""
    view = sight.view
    if view is None or not sight.live:
        return sight.job.ended, sight.job.total
    return view.ended, units_known(view)


def job_facts(sight: JobSight, resume: str) -> list[str]:
    """What a row says of a job beside its figures, the most important first."""
    if sight.state == "interrupted":
        return [f"interrupted: its process was killed; to go on: {resume}"]
    if not sight.live:
        return [sight.end or sight.state]
    view = sight.view
    if view is None:
        return ["starting"]
    facts = ["paused"] if view.paused or sight.state == "paused" else []
    if not facts and has_eta(view) and view.snapshot.eta_s is not None:
        facts.append(f"{duration(view.snapshot.eta_s)} left")
    failed = sum(view.counts.get(name, 0) for name in ("failed", "timed_out"))
    facts += [f"{failed:,} failed"] if failed else []
    facts += [money(view.cost_usd)] if view.cost_usd else []
    wait = job_wait(view)
    return [*facts, *([wait] if wait else [])]


def job_wait(view: View) -> str:
    """What a job waits for: its first lane in trouble, or any lane if nothing is in flight."""
    if view.paused:
        return ""
    lanes = [lane for lane in view.snapshot.lanes if is_busy(lane)]
    troubled = [lane for lane in lanes if rank(lane) < AT_WORK]
    waiting = troubled or ([] if view.snapshot.in_flight else lanes)
    return next((text for lane in waiting if (text := _lane_wait(lane, view))), "")


def _lane_wait(lane: LaneView, view: View) -> str:
    text = wait_cell(lane, view)
    return f"{view.names[lane.key]}: {text}" if text else ""
