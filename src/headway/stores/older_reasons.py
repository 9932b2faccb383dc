"""Reads reasons that earlier versions stored as text. No other file parses these sentences.

Versions up to schema 10 stored `[code, message]` for the units that a run left, and a sentence for the wait of a lane.
"""

from __future__ import annotations

import re
from typing import Final

from headway.core.model import Kind
from headway.core.reasons import (
    AccountRefused,
    DeadlinePassed,
    EndReason,
    HoldTooLong,
    LaneBudgetSpent,
    NeverAnswered,
    RunBudgetSpent,
    RunInterrupted,
    StopReason,
    StopRequested,
    Wait,
    WaitCode,
)
from headway.lazy_pattern import lazy_pattern

_RUN_BUDGET: Final = "the budget is used up; go on with a higher one"
_INTERRUPTED: Final = "the run was interrupted; go on with 'headway resume'"
_LANE_BUDGET: Final = lazy_pattern(
    r"(?P<name>.+) may cost \$(?P<cap>[\d,.e+-]+) and has cost \$(?P<spent>[\d,.]+); "
    r"the next request may cost up to \$(?P<wanted>[\d,.]+)",
    re.DOTALL,
)
_NEVER: Final = lazy_pattern(r"never an answer, tried for (?P<seconds>\d+) s: (?P<message>.*)", re.DOTALL)
_STOPPED: Final = "stopped: "
_BREAKER: Final = "breaker: "
_PROBES: Final = {"; its probe": WaitCode.PROBE, "; the next probe": WaitCode.BREAKER}


def end_reason(code: str, message: str) -> EndReason:
    """The reason why a run left units, from their code and message."""
    if code == "deadline":
        return DeadlinePassed()
    if code == "budget" and message == _RUN_BUDGET:
        return RunBudgetSpent()
    if code == "interrupted" and message == _INTERRUPTED:
        return RunInterrupted()
    return _stop_reason(code, message)


def _stop_reason(code: str, message: str) -> StopReason:
    if code == Kind.HOLD:
        return HoldTooLong(message)
    if code == "budget" and (spent := _LANE_BUDGET.fullmatch(message)):
        figures = (float(spent[name].replace(",", "")) for name in ("cap", "spent", "wanted"))
        return LaneBudgetSpent(spent["name"], *figures)
    if code not in set(Kind):
        return StopRequested(message)
    if never := _NEVER.fullmatch(message):
        return NeverAnswered(Kind(code), never["message"], float(never["seconds"]))
    return AccountRefused(Kind(code), message, wrong_path="invalid url" in message.lower())


def lane_wait(reason: str, until: float | None) -> Wait:
    """The wait of a lane, from its sentence."""
    if reason.startswith(_STOPPED):
        return Wait(WaitCode.STOPPED, until, stop=_stop_in(reason.removeprefix(_STOPPED)))
    if reason.startswith(_BREAKER):
        for end, code in _PROBES.items():
            if reason.endswith(end):
                return Wait(code, until, reason.removeprefix(_BREAKER).removesuffix(end))
    return Wait(WaitCode.PACE, until, reason)


def _stop_in(text: str) -> StopReason:
    code, _, message = text.partition(": ")
    known = code == "budget" or (code in set(Kind) and code != Kind.HOLD)
    return _stop_reason(code, message) if known else StopRequested(text)
