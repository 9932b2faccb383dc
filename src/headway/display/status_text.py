"""The text of `headway status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.core.reasons import StopReason, Wait, WaitCode
from headway.display.formatting import clock, count, duration, short, units
from headway.display.stop_advice import stop_reason_text
from headway.display.usage_text import cached_lines, cost_text, hold_text, prediction_lines, use_text
from headway.reason_text import stop_text, wait_text
from headway.reports.jobs import JobReport
from headway.reports.status import StatusReport

#: At most this many unit ids in a line.
MOST_IDS = 5
_BREAKER = (WaitCode.BREAKER, WaitCode.PROBE)


def use_line(job: JobReport, *, sends_requests: bool) -> str:
    """Attempts, tokens and cost of a job. Function calls have no HTTP status, and often no tokens."""
    attempts = count(job.attempts, "attempt")
    if sends_requests:
        return f"{attempts}, {use_text(job.use)}"
    parts = [attempts]
    if job.input_tokens or job.output_tokens:
        parts.append(f"{job.input_tokens:,} tokens in, {job.output_tokens:,} out")
    if job.refused:
        parts.append(f"{job.refused:,} rate-limited")
    if cost := cost_text(job.use):
        parts.append(cost)
    return ", ".join(parts)


def status_lines(report: StatusReport, origin: Sequence[str], next_step: str) -> list[str]:
    """The state of a job. `origin` says where it comes from; `next_step` is "" if there is nothing to do."""
    job = report.job
    below = [
        *origin,
        *prediction_lines(job.prediction),
        *_pace_lines(report),
        *cached_lines(report.cached),
        *failure_lines(job, report.examples),
        *_unknown_lines(report.unknown),
        *(f"{name} stopped: {reason}" for name, reason in sorted(stop_texts(report).items())),
        *(
            f"{name} was {hold_text(hold.held_s, hold.holds, hold.reason)}"
            for name, hold in sorted(job.holds.items())
        ),
        *_lane_lines(report),
        *([next_step] if next_step else []),
    ]
    head = f"job {job.job}: {job.state}, {job.good:,} of {job.total:,} succeeded"
    return [head, *(f"  {line}" for line in below)]


def failure_lines(job: JobReport, examples: Sequence[str]) -> list[str]:
    """Failures by kind, with one example each."""
    return [
        f"{units(failure.units)} ended with '{failure.code or 'failed'}', for example {example}: {short(failure.message)}"
        for failure, example in zip(job.failures, examples, strict=True)
    ]


def stop_texts(report: StatusReport) -> dict[str, str]:
    """Why lanes cannot continue: from the running process, or from the latest run."""
    return {
        name: stop_text(reason)
        if report.progress is not None and isinstance(reason, StopReason)
        else stop_reason_text(reason)
        for name, reason in report.stops.items()
    }


def _pace_lines(report: StatusReport) -> list[str]:
    if report.job.state == "paused":
        return ["nothing new starts until 'headway resume'"]
    if report.progress is None or report.progress.totals.eta_s is None:
        return []
    return [f"about {duration(report.progress.totals.eta_s)} left"]


def _unknown_lines(unknown: Sequence[str]) -> list[str]:
    if not unknown:
        return []
    names = ", ".join(unknown[:MOST_IDS]) + (", …" if len(unknown) > MOST_IDS else "")
    return [
        "no process runs this job: the last one died",
        f"{units(len(unknown))} may have been sent; their outcome is unknown until the job is resumed: {names}",
    ]


def _lane_lines(report: StatusReport) -> Iterator[str]:
    for name, counts in sorted(report.per_lane.items()):
        parts = ", ".join(f"{n:,} {status}" for status, n in counts.items())
        if name in report.job.lanes and (cost := cost_text(report.job.lanes[name])):
            parts += f"; {cost}"
        lane = None if report.progress is None else report.progress.lanes.get(name)
        yield f"{name}: {parts}{_wait(None if lane is None else lane.waits_for)}"


def _wait(wait: Wait | None) -> str:
    if wait is None:
        return ""
    if wait.until:
        return f"; waits until {clock(wait.until)}: {short(wait_text(wait))}"
    return f"; waits: {short(wait_text(wait))}" if wait.code in _BREAKER else ""
