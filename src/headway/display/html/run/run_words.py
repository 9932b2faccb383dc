"""The sentences of the section "How it ran": waits, changes and what the simulation assumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.core.reasons import WaitCode
from headway.display.formatting import count, duration
from headway.forecast.what_if import Change
from headway.reason_text import wait_name
from headway.reports.run_analysis.run_analysis import FasterReport, RunAnalysis
from headway.stores.samples import LaneWait

#: From this difference on, the simulation does not show the run well, and says so.
FAR_OFF: Final = 0.25
_CHANGES: Final = {
    "tokens": "twice the tokens per minute for {lane}",
    "requests": "twice the requests per minute for {lane}",
    "key": "one more key for {lane}, with limits of its own",
    "in_flight": "twice as many in flight for {lane}",
    "concurrency": "twice the --concurrency",
}
_WHY_NOT: Final = {
    "flow": "A flow that has run is not simulated: which units it has, and when, depends on the answers of earlier ones, so a simulation that sends "
    "them all at once would promise too much. Its critical path is its longest chain of steps; 'headway plan FLOW' tries the flow with other limits (--rpm, --tpm).",
    "short": "It took less than a second: nothing is simulated.",
    "no_answer": "No request succeeded, so there is nothing to simulate.",
}
#: A change that gains less is no gain.
_LEAST_GAIN: Final = 0.01


def wait_words(wait: LaneWait) -> str:
    """What a lane waited for."""
    try:
        return wait_name(WaitCode(wait.reason), wait.for_limit)
    except ValueError:
        return wait.reason.replace("_", " ")  # A reason of a newer version.


def change_words(change: Change) -> str:
    """What is different."""
    return _CHANGES[change.what].format(lane=change.lane)


def gain_words(seconds: float, report: FasterReport, slowest: str) -> str:
    """How much faster it would have been: "42% less time"."""
    if report.simulated_s <= 0.0:
        return "–"
    gain = 1.0 - seconds / report.simulated_s
    if gain < _LEAST_GAIN:
        return "no faster"
    other = f"; then {slowest} takes longest" if slowest != report.slowest else ""
    return f"{gain:.0%} less time{other}"


def summary_words(analysis: RunAnalysis) -> str:
    """The first line: how long it ran, and what it waited for most."""
    text = f"It ran for {duration(analysis.worked_s)}."
    if analysis.waits:
        longest = analysis.waits[0]
        text += (
            f" The longest wait: {longest.lane} waited {duration(longest.seconds)} for {wait_words(longest)}."
        )
    if not analysis.sampled:
        text += " It has no samples of its lanes, because it was too short or is of an older version: rates are those of its attempts, and limits are not known."
    return text


def faster_words(analysis: RunAnalysis) -> Iterator[str]:
    """What the simulation did, and what it assumes."""
    report = analysis.faster
    if report.why_not:
        yield _WHY_NOT[report.why_not]
        return
    part = "" if report.simulated >= report.requests else f" (a sample of {report.simulated:,})"
    yield (
        f"The scheduler ran the {count(report.requests, 'request')} of this job again in virtual time{part}: with the tokens that were charged, the time that each "
        f"answer took, and the limits that its lanes had last. As it was, that takes {duration(report.simulated_s)}; {report.slowest} takes longest."
    )
    off = report.simulated_s / analysis.worked_s - 1.0 if analysis.worked_s else 0.0
    if abs(off) > FAR_OFF:
        yield (
            f"The run itself took {duration(analysis.worked_s)}, so the simulation leaves something out that mattered: holds, failures, pauses, other jobs, "
            "a first search for limits, or units that wait for others. Read the differences, not the times."
        )
    yield (
        "It assumes that answers take as long as they did, also with more of them at once; that buckets are full at the start; and that nothing "
        "fails and nothing is held."
    )
    if report.without_limits:
        yield f"No limit is known of {', '.join(report.without_limits)}: it is simulated without one."
