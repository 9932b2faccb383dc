"""Progress as text lines on stderr: how far the job is, how fast, and what its lanes wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TextIO

from headway.core.snapshot import LaneView
from headway.display.flows.node_changes import NodeChanges
from headway.display.flows.node_text import nodes_text
from headway.display.formatting import clock, duration, money, short, units
from headway.display.terminal import write_line
from headway.display.usage_text import saved_text
from headway.engine.observer import Display, View
from headway.reason_text import wait_text
from headway.reports.flows.node_progress import has_eta, status_counts, units_known
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: Seconds between lines: on a terminal, and elsewhere.
TERMINAL_S: Final = 2.0
PIPE_S: Final = 10.0
#: Shorter waits are normal pacing and not shown.
SHORT_WAIT_S: Final = 3.0

#: The words for events whose code is a term of this project.
_EVENTS: Final = {"breaker_opened": "no new requests", "breaker_closed": "sending again"}

#: The text of a limit has its time at the end.
LONGEST_EVENT: Final = 300

#: Formats an instant: local time for people, UTC for logs.
Clock = Callable[[float], str]


class PlainDisplay(Display):
    """Writes independent lines to a stream."""

    def __init__(self, stream: TextIO, interval_s: float = PIPE_S) -> None:
        self._stream = stream
        self._interval_s = interval_s
        self._shown_at = time.monotonic()
        self._last_line = ""
        self._changes = NodeChanges()

    def say(self, text: str) -> None:
        """One line."""
        write_line(f"{time.strftime('%H:%M:%S')}  {text}", self._stream)

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        self._changes.began(job)
        for line in began_lines(job, unknown):
            self.say(line)

    def noted(self, event: JobEvent) -> None:
        self.say(noted_line(event))

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: one line per unit would be too many."""

    def close(self) -> None:
        """Do nothing: there is nothing to erase."""

    def moved(self, view: View) -> None:
        for change in self._changes.lines(view):
            self.say(change)
        now = time.monotonic()
        line = progress_line(view)
        if now - self._shown_at >= self._interval_s and line != self._last_line:
            self._shown_at, self._last_line = now, line
            self.say(line)


def resend_cost_usd(unknown: list[UnknownOutcome]) -> float | None:
    """The most that sending units again may cost; None if a price is unknown."""
    costs = [one.most_usd for one in unknown if one.most_usd is not None]
    return sum(costs) if len(costs) == len(unknown) else None


def _resend_cost_text(unknown: list[UnknownOutcome]) -> str:
    """What sending units again may cost, in dollars or tokens."""
    usd = resend_cost_usd(unknown)
    if usd is not None and all(one.max_tokens for one in unknown):
        return f"at most {money(usd)} more"
    if usd is not None:  # Without max_tokens, only the model limits an answer.
        return f"about {money(usd)} more, if no answer is longer than reserved for (no max_tokens)"
    tokens_in = sum(one.chars for one in unknown) / 4.0
    text = f"about {tokens_in:,.0f} tokens in"
    if all(one.max_tokens for one in unknown):  # Otherwise only the model limits an answer.
        text += f", at most {sum(max(0, one.max_tokens) for one in unknown):,} out"
    return text


def began_lines(job: Job, unknown: list[UnknownOutcome]) -> list[str]:
    """The first lines of a run: the work to do, and units whose outcome is unknown."""
    grows = job.kind == "flow"  # It adds units while it runs: how many are to go is not known.
    text = f"job {job.name}: {units(job.total)}{' so far' if grows else ''}"
    if job.good:
        stay = f", {job.ended - job.good:,} not run again" if job.ended > job.good else ""
        to_go = "" if grows else f", {job.total - job.ended:,} to go"
        text += f", {saved_text(job)}{stay}{to_go}"
    requests = [one for one in unknown if not one.program]
    lines = [text]
    if requests:
        lost = (
            f"{units(len(requests))} may have been sent before the last process ended; the outcome is unknown"
        )
        lines.append(f"{lost}: {_ids(requests)}; sending them again may cost {_resend_cost_text(requests)}")
    return [*lines, *_program_lines([one for one in unknown if one.program])]


def _program_lines(unknown: list[UnknownOutcome]) -> list[str]:
    """Units of programs whose outcome is unknown: those that ran, and those that were about to start."""
    ran = [one for one in unknown if one.sent]
    waited = [one for one in unknown if not one.sent]
    lines = []
    if ran:
        were = "was" if len(ran) == 1 else "were"
        lines.append(
            f"{units(len(ran))} {were} running when the last process ended, and may have done a part of the work: {_ids(ran)}"
        )
    if waited:
        were = "was" if len(waited) == 1 else "were"
        lines.append(
            f"{units(len(waited))} {were} about to start when the last process ended: {_ids(waited)}"
        )
    return lines


def _ids(unknown: list[UnknownOutcome]) -> str:
    return ", ".join(one.custom_id for one in unknown[:5]) + (", …" if len(unknown) > 5 else "")


def noted_line(event: JobEvent, at: Clock = clock) -> str:
    """An event in one line."""
    until = f" until {at(event.until_utc)}" if event.until_utc is not None else ""
    who = f"{event.lane}: " if event.lane else ""
    if event.what == "released":  # Its text is the reason of the hold.
        return f"{who}the hold is over ({short(event.text)})" if event.text else f"{who}the hold is over"
    what = _EVENTS.get(event.what) or event.what.replace("_", " ")
    return f"{who}{what}{until}: {short(event.text, LONGEST_EVENT)}"


def progress_line(view: View, at: Clock = clock) -> str:
    """The whole run in one line."""
    ended, snapshot = view.ended, view.snapshot
    total = units_known(view)
    percent = 100 * ended // total if total else 100  # Rounded down: not 100 before the end.
    parts = [f"{ended:,}/{total:,} ({percent}%)", f"{snapshot.in_flight} in flight"]
    rate = sum(lane.rate_per_s for lane in snapshot.lanes)
    if rate:
        parts.append(rate_text(rate))
    cancelled = view.counts.get("cancelled", 0)
    failed = ended - view.counts["succeeded"] - view.counts["cached"] - cancelled
    if failed:
        parts.append(f"{failed:,} failed")
    if cancelled:
        parts.append(f"{cancelled:,} cancelled")
    if view.refused:
        parts.append(f"{view.refused:,} rate-limited")
    if snapshot.waiting_for_others:
        parts.append(f"{snapshot.waiting_for_others:,} waiting for other units")
    if view.paused:
        parts.append("paused")
    elif snapshot.eta_s is not None and has_eta(view):
        parts.append(f"about {duration(snapshot.eta_s)} left")
    if view.parts:
        parts.append(nodes_text(status_counts(view.parts, view.more_parts)))
    waits = [text for lane in snapshot.lanes if (text := waiting(lane, view, at))]
    return ", ".join(parts) + "".join(f"; {text}" for text in waits[:5])


def rate_text(per_s: float) -> str:
    """ "41.7/s", or "2.5/min" for a rate below one in two seconds."""
    return f"{per_s:,.1f}/s" if per_s >= 0.5 else f"{60.0 * per_s:,.1f}/min"


def waiting(lane: LaneView, view: View, at: Clock = clock, least_s: float = SHORT_WAIT_S) -> str:
    """What a lane waits for; "" for normal pacing: less than `least_s` seconds."""
    if lane.wait is None or not lane.remaining:
        return ""
    if lane.wait.until is None:
        return f"{view.names[lane.key]} waits: {wait_text(lane.wait)}" if not lane.in_flight else ""
    if lane.wait.until - view.snapshot.at < least_s:
        return ""
    until = at(lane.wait.until + view.utc_offset_s)
    return f"{view.names[lane.key]} waits until {until}: {short(wait_text(lane.wait), 80)}"
