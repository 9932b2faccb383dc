"""Decides what a failed attempt means for its unit: a retry at an instant, or the end. The only owner of retries.

The lane has already learned from the outcome; here only the retry budget of the unit is spent.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry
from headway.core.model import Kind, Outcome
from headway.core.retry import (
    HOPELESS,
    LANE_STOPPERS,
    SUSPECT_CRASHES,
    SUSPECT_WAIT_S,
    THROTTLES,
    backoff_s,
    is_lanes_fault,
)
from headway.core.unit_states import Move

GIVE_UP: Final = "reduce --concurrency or try again later"
#: Longer durations are written in minutes.
_IN_MINUTES_FROM_S: Final = 120.0


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """`RETRY` with the instant to wait for, or the move that ends the unit. The message is for its record."""

    move: Move
    not_before: float = ALWAYS
    message: str = ""


def judge(entry: Entry, outcome: Outcome, hinted_at: float, now: float) -> Verdict:
    """Spend the retry budget of the unit for this outcome. `hinted_at` is when the provider allows a retry."""
    kind = outcome.kind
    if kind in LANE_STOPPERS:
        return Verdict(Move.RETRY, now)
    if kind in HOPELESS:
        return Verdict(Move.FAIL, message=outcome.message)
    if kind in THROTTLES:
        return _throttled(entry, outcome, hinted_at, now)
    return _spent(entry, outcome, now)


def _throttled(entry: Entry, outcome: Outcome, hinted_at: float, now: float) -> Verdict:
    """The provider refused for now: the unit waits and spends no attempt."""
    retry = entry.retry
    if not entry.throttles:
        entry.refused_at = now
    entry.throttles += 1
    if entry.throttles > retry.max_throttles:
        return Verdict(Move.FAIL, message=_exhausted(entry, outcome, now))
    if hinted_at == ALWAYS:
        hinted_at = now + backoff_s(retry, entry.unit.index, entry.throttles - 1)
    return Verdict(Move.RETRY, hinted_at)


def _exhausted(entry: Entry, outcome: Outcome, now: float) -> str:
    """The message: what the provider said, how often, for how long, and what to do."""
    lasted_s = now - entry.refused_at
    lasted = f"{lasted_s:.0f} s" if lasted_s < _IN_MINUTES_FROM_S else f"{lasted_s / 60:.0f} min"
    times = "once" if entry.throttles == 1 else f"{entry.throttles} times over {lasted}"
    return f"refused {times}, the last time with: {outcome.message or outcome.kind}; {GIVE_UP}"


def _spent(entry: Entry, outcome: Outcome, now: float) -> Verdict:
    """The attempt failed: retry if the unit has attempts left. A probe of an open breaker costs it none if the lane is at fault."""
    retry, kind = entry.retry, outcome.kind
    is_free = entry.probe == "breaker" and is_lanes_fault(outcome) and not entry.outvoted
    entry.attempts += not is_free
    message = outcome.message
    if kind is Kind.CRASH:
        entry.crashes += 1
        if entry.suspect:
            text = f"quarantined: it killed its worker {entry.crashes} times, the last time alone"
            return Verdict(Move.FAIL, message=f"{text}; {message}")
        if entry.crashes >= SUSPECT_CRASHES:
            entry.alone_by = now + SUSPECT_WAIT_S
            message = f"{message}; it runs alone next"
    elif entry.suspect:  # It ran alone and its worker is alive: the earlier deaths had another cause.
        entry.crashes, entry.alone_by = 0, NEVER
    if entry.attempts >= retry.max_attempts:
        return Verdict(Move.TIME_OUT if kind is Kind.TIMEOUT else Move.FAIL, message=outcome.message)
    wait_s = backoff_s(retry, entry.unit.index, max(0, entry.attempts - 1))
    if outcome.hint is not None and outcome.hint.retry_after_s is not None:
        wait_s = max(wait_s, outcome.hint.retry_after_s)
    return Verdict(Move.RETRY, now + wait_s, message)
