"""The text of `headway status`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headway.core.reasons import StopReason, Wait, WaitCode
from headway.display.flows.node_text import MARKS, node_line, nodes_text
from headway.display.formatting import clock, count, duration, short, units
from headway.display.stop_advice import stop_reason_text
from headway.display.usage_text import cached_lines, cost_text, hold_text, prediction_lines, use_text
from headway.reason_text import stop_text, wait_text
from headway.reports.flows.node_progress import NodeProgress, most_urgent
from headway.reports.jobs import Failure, JobReport
from headway.reports.status import FailureExample, StatusReport

#: At most this many unit ids in a line.
MOST_IDS = 5
#: At most this many nodes of a flow have a line.
MOST_NODES = 30
#: Waits that other lines of the report name, or that end within milliseconds.
NOT_NAMED = frozenset({WaitCode.STOPPED, WaitCode.PAUSED, WaitCode.RUN_ENDING, WaitCode.READING})

#: States of units that have another name for people.
_STATES = {"assigned": "about to start"}


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


def status_lines(
    report: StatusReport, origin: Sequence[str], next_step: str, *, compares: bool = False
) -> list[str]:
    """The state of a job. `origin` says where it comes from; `next_step` is "" if there is nothing to do.

    `compares`: `origin` has a line for each model, which is all there is to say of the lanes of a complete job.
    """
    job = report.job
    below = [
        *origin,
        *_node_lines(report),
        *prediction_lines(job.prediction),
        *_pace_lines(report),
        *cached_lines(report.cached),
        *failure_lines(job, report.examples),
        *retry_lines(report.to_retry),
        *([f"the latest run ended with an error: {report.error}"] if report.error else []),
        *_unknown_lines(report),
        *(f"{name} stopped: {reason}" for name, reason in sorted(stop_texts(report).items())),
        *(
            f"{name} was {hold_text(hold.held_s, hold.holds, hold.reason)}"
            for name, hold in sorted(job.holds.items())
        ),
        *(() if compares and job.state == "complete" else _lane_lines(report)),
        *([next_step] if next_step else []),
    ]
    head = f"job {job.job}: {job.state}, {job.good:,} of {job.total:,} succeeded"
    return [head, *(f"  {line}" for line in below)]


def failure_lines(job: JobReport, examples: Sequence[FailureExample]) -> list[str]:
    """Failures by kind, with one example each."""
    return [failure_line(failure, example) for failure, example in zip(job.failures, examples, strict=True)]


def retry_lines(failures: Sequence[Failure]) -> list[str]:
    """Units that wait for another attempt, by the reason why the last one failed."""
    return [
        f"{units(failure.units)} {'waits' if failure.units == 1 else 'wait'} for another attempt after "
        f"'{failure.code}': {short(failure.message)}"
        for failure in failures
    ]


def failure_line(failure: Failure, example: FailureExample) -> str:
    """A failure, and its first unit."""
    if example.raised:
        return f"{units(failure.units)} failed, for example {example.custom_id}: your function raised {short(failure.message)}"
    if failure.message == "cancelled":
        return f"{units(failure.units)} cancelled, for example {example.custom_id}"
    return (
        f"{units(failure.units)} ended with '{failure.code or 'failed'}', "
        f"for example {example.custom_id}: {short(failure.message)}"
    )


def stop_texts(report: StatusReport) -> dict[str, str]:
    """Why lanes cannot continue: from the running process, or from the latest run."""
    return {
        name: stop_text(reason)
        if report.progress is not None and isinstance(reason, StopReason)
        else stop_reason_text(reason)
        for name, reason in report.stops.items()
    }


def _node_lines(report: StatusReport) -> Iterator[str]:
    """The nodes of a flow: all of a small one, otherwise those that matter most."""
    if not report.nodes:
        return
    yield nodes_text(report.node_counts)
    shown = most_urgent([_Named(name, node) for name, node in report.nodes.items()], MOST_NODES)
    for one in shown:
        yield f"  {MARKS.get(one.status, ' ')} {node_line(report.job.job, one.name, one.node)}"
    if (more := sum(report.node_counts.values()) - len(shown)) > 0:
        yield f"  … {more:,} more nodes: headway graph --job {report.job.job}"


class _Named(NamedTuple):
    name: str
    node: NodeProgress

    @property
    def status(self) -> str:
        return self.node.status


def _pace_lines(report: StatusReport) -> list[str]:
    if report.job.state == "paused":
        return ["nothing new starts until 'headway resume'"]
    if report.progress is None or report.progress.totals.eta_s is None:
        return []
    return [f"about {duration(report.progress.totals.eta_s)} left"]


def _unknown_lines(report: StatusReport) -> list[str]:
    unknown = report.unknown
    if not unknown:
        return []
    names = ", ".join(unknown[:MOST_IDS]) + (", …" if len(unknown) > MOST_IDS else "")
    died = [] if report.error else ["no process runs this job: the last process ended unexpectedly"]
    return [
        *died,
        f"{units(len(unknown))} {'was' if len(unknown) == 1 else 'were'} in flight; the outcome is unknown until the job is resumed: {names}",
    ]


def _lane_lines(report: StatusReport) -> Iterator[str]:
    for name, counts in sorted(report.per_lane.items()):
        parts = ", ".join(f"{n:,} {_STATES.get(status, status)}" for status, n in counts.items())
        if name in report.job.lanes and (cost := cost_text(report.job.lanes[name])):
            parts += f"; {cost}"
        lane = None if report.progress is None else report.progress.lanes.get(name)
        yield f"{name}: {parts}{_wait(None if lane is None else lane.waits_for)}"


def _wait(wait: Wait | None) -> str:
    if wait is None:
        return ""
    if wait.until:
        return f"; waits until {clock(wait.until)}: {short(wait_text(wait))}"
    return "" if wait.code in NOT_NAMED else f"; waits: {short(wait_text(wait))}"
