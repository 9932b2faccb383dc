"""The text of `headway lanes`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headway.core.lanes.job_share import OUR_PART
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.model import MINUTE_S, AccountWindow
from headway.core.reasons import Wait, WaitCode
from headway.core.snapshot import LaneView, MeterView
from headway.display.formatting import clock, duration, short
from headway.display.status_text import NOT_NAMED
from headway.display.usage_text import cost_text, held_back_text
from headway.reason_text import disproved_text, wait_text
from headway.reports.lanes import LaneReport

#: A running job records its lanes every five seconds: an older view is not of a running job.
STALE_S: Final = 15.0
#: The windows of a subscription, by their names in records.
WINDOW_NAMES: Final = {
    "five_hour": "window of five hours",
    "seven_day": "window of seven days",
    "seven_day_opus": "window of seven days for Opus",
    "seven_day_sonnet": "window of seven days for Sonnet",
    "seven_day_haiku": "window of seven days for Haiku",
    "day": "window of a day",
    "usage": "usage limit",
}
#: Reasons that name a time have it at their end: Codex's limit has 180 characters.
LONGEST_REASON: Final = 300
#: Levels are computed from times, and differ in the last digits.
ROUNDING: Final = 1e-6


def lane_lines(report: LaneReport, now_utc: float) -> list[str]:
    """A lane in a few lines."""
    written = "–" if report.updated_utc is None else clock(report.updated_utc)
    lines = [f"{report.lane}  ({_account(report)}, as of {written})"]
    if report.seen is None or report.learned is None:
        return [*lines, "  not used yet"]
    age_s = now_utc - (report.updated_utc or 0.0)
    return [*lines, *(f"  {line}" for line in _facts(report, report.seen, report.learned, now_utc, age_s))]


def _facts(
    report: LaneReport, seen: LaneView, learned: LaneRecord, now_utc: float, age_s: float
) -> Iterator[str]:
    waits = "" if seen.wait is None else _wait(seen.wait, now_utc, age_s)
    if waits:
        yield waits
    for meter in seen.meters:
        if meter.name.endswith(OUR_PART) or (meter.name == LEARNED and not learned.found):
            continue  # A share of the job that wrote last, or not learned yet.
        yield meter_text(meter)
    windows = {limit.dimension: limit.window_s for limit in learned.meters}
    if learned.found is not None:
        windows.setdefault(learned.found.dimension, learned.found.window_s)
    for dimension, window_s in windows.items():
        if window_s is not None:
            yield f"{dimension.replace('_', ' ')}: fixed windows of {duration(window_s)}"
    if (wrong := learned.disproved) is not None:
        yield disproved_text(wrong.dimension, wrong.configured, wrong.found)
    yield from window_lines(seen.windows, now_utc)
    if seen.memory_places is not None:
        yield f"{seen.memory_places:,} at once fit into its memory_budget"
    most = "any number" if seen.window is None else f"at most {seen.window:,}"
    yield f"{most} in flight, {seen.in_flight:,} now; {seen.refused:,} of {seen.started:,} rate-limited"
    if seen.started and not _is_at_its_beginning(seen):
        text, reason = held_back_text(seen), short(seen.held_for, LONGEST_REASON)
        is_named = bool(reason) and reason in waits
        yield f"latest run: {text.replace(f': {short(reason)}', '') if is_named else text}"
    if cost := cost_text(report.spent):
        yield f"cost of all jobs: {cost}"
    if seen.others:
        yield f"other users of this key take about {seen.others:.0%} of its limit"
    if learned.held_until_utc and learned.held_until_utc > now_utc and not waits.startswith("waits until"):
        why = "" if learned.hold_reason in waits else f": {learned.hold_reason}"
        yield f"held until {clock(learned.held_until_utc)}{why}"


def _account(report: LaneReport) -> str:
    """Where the lane sends to, and a short name of its account; `--json` has the whole key."""
    parts = report.key.split("|")
    if len(parts) < len(("kind", "host", "account", "model")):
        return report.key
    host = parts[1].removesuffix(f" ({report.lane.partition('/')[0]})")
    return f"{host}, account {parts[2]}" if parts[2] else host


def _is_at_its_beginning(seen: LaneView) -> bool:
    """Whether the first attempts of a run are still in flight: nothing can be said of it yet."""
    return bool(seen.in_flight) and not (seen.succeeded or seen.failed or seen.refused)


def window_lines(windows: Iterable[AccountWindow], now_utc: float) -> Iterator[str]:
    """The windows of a subscription that have not begun anew, one line each."""
    for window in windows:
        if window.resets_utc is not None and window.resets_utc <= now_utc:
            continue
        used = "" if window.used is None else f"{window.used:.0%} used"
        resets = "" if window.resets_utc is None else f"resets {clock(window.resets_utc)}"
        facts = [used, "used up" if window.closed else "", resets]
        yield f"{WINDOW_NAMES.get(window.name, window.name)}: {', '.join(filter(None, facts)) or 'open'}"


def windows_text(windows: Iterable[AccountWindow], now_utc: float) -> str:
    """The windows of a subscription in a few words, for a column: "five hours 82%, seven days used up"."""
    return ", ".join(
        f"{WINDOW_NAMES.get(window.name, window.name).removeprefix('window of ')} "
        + ("used up" if window.closed else f"{window.used or 0.0:.0%}")
        for window in windows
        if (window.resets_utc is None or window.resets_utc > now_utc)
        and (window.closed or window.used is not None)
    )


def _wait(wait: Wait, now_utc: float, age_s: float) -> str:
    """What a lane waits for; "" if the wait is over."""
    text = short(wait_text(wait), LONGEST_REASON)
    if wait.code is WaitCode.STOPPED:
        return text
    if wait.until is not None and wait.until > now_utc:
        return f"waits until {clock(wait.until)}: {text}"
    over = wait.until is not None and wait.code not in (WaitCode.BREAKER, WaitCode.PROBE)
    return "" if over or wait.code in NOT_NAMED or age_s >= STALE_S else f"waits: {text}"


def meter_text(meter: MeterView) -> str:
    """One limit. The depth is shown only if it explains what is available: it is what has been used at once so far, and the
    provider may report more. A daily limit has none: all of it can be used at once.
    """
    if meter.name == LEARNED:
        return f"learned so far: about {meter.limit:,.0f} {meter.dimension.replace('_', ' ')} per minute"
    source = "reported" if meter.reported else "configured or learned"
    left = min(meter.limit, max(0.0, meter.level))
    in_bucket = meter.limit / MINUTE_S * meter.depth_s
    whole = meter.name.endswith("per minute") and left <= in_bucket * (1.0 + ROUNDING)
    depth = f", bucket depth {duration(meter.depth_s)}" if whole else ""
    return f"{meter.limit:,.0f} {meter.name} ({source}): {left:,.0f} available{depth}"
