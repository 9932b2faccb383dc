"""The text of `headway lanes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.core.lanes.job_share import OUR_PART
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.lanes.rate_finder import LEARNED
from headway.core.reasons import Wait, WaitCode
from headway.core.snapshot import LaneView, MeterView
from headway.display.formatting import clock, duration, short
from headway.display.usage_text import cost_text, held_back_text
from headway.reason_text import disproved_text, wait_text
from headway.reports.lanes import LaneReport

#: A running job records its lanes every five seconds: an older view is not of a running job.
STALE_S: Final = 15.0


def lane_lines(report: LaneReport, now_utc: float) -> list[str]:
    """A lane in a few lines."""
    written = "–" if report.updated_utc is None else clock(report.updated_utc)
    lines = [f"{report.lane}  ({report.key}, as of {written})"]
    if report.seen is None or report.learned is None:
        return [*lines, "  not used yet"]
    age_s = now_utc - (report.updated_utc or 0.0)
    return [*lines, *(f"  {line}" for line in _facts(report, report.seen, report.learned, now_utc, age_s))]


def _facts(
    report: LaneReport, seen: LaneView, learned: LaneRecord, now_utc: float, age_s: float
) -> Iterator[str]:
    if seen.wait is not None and (line := _wait(seen.wait, now_utc, age_s)):
        yield line
    for meter in seen.meters:
        if meter.name.endswith(OUR_PART) or (meter.name == LEARNED and not learned.found):
            continue  # A share of the job that wrote last, or not learned yet.
        yield _meter(meter)
    for limit in learned.meters:
        if limit.window_s is not None:
            yield f"{limit.dimension.replace('_', ' ')}: fixed windows of {duration(limit.window_s)}"
    if (wrong := learned.disproved) is not None:
        yield disproved_text(wrong.dimension, wrong.configured, wrong.found)
    window = "unlimited" if seen.window is None else f"{seen.window:,}"
    yield f"window {window}, {seen.in_flight:,} in flight, {seen.refused:,} of {seen.started:,} rate-limited"
    if seen.started:
        yield f"latest run: {held_back_text(seen)}"
    if cost := cost_text(report.spent):
        yield f"cost of all jobs: {cost}"
    if seen.others:
        yield f"other users of this key take about {seen.others:.0%} of its limit"
    if learned.held_until_utc and learned.held_until_utc > now_utc:
        yield f"held until {clock(learned.held_until_utc)}: {learned.hold_reason}"


def _wait(wait: Wait, now_utc: float, age_s: float) -> str:
    """What a lane waits for; "" if the wait is over."""
    text = short(wait_text(wait))
    if wait.code is WaitCode.STOPPED:
        return text
    if wait.until is not None and wait.until > now_utc:
        return f"waits until {clock(wait.until)}: {text}"
    broken = wait.code in (WaitCode.BREAKER, WaitCode.PROBE)
    return f"waits: {text}" if broken and age_s < STALE_S else ""


def _meter(meter: MeterView) -> str:
    """One limit. A daily limit has no depth: all of it can be used at once."""
    if meter.name == LEARNED:
        return f"learned so far: about {meter.limit:,.0f} {meter.dimension.replace('_', ' ')} per minute"
    source = "reported" if meter.reported else "configured or learned"
    left = min(meter.limit, max(0.0, meter.level))
    depth = "" if meter.name.endswith("per day") else f", bucket depth {duration(meter.depth_s)}"
    return f"{meter.limit:,.0f} {meter.name} ({source}): {left:,.0f} available{depth}"
