"""What is wrong with the lanes of a running job: stops, holds, providers that do not answer, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headway.core.model import Kind
from headway.core.reasons import AccountRefused, HoldTooLong, LaneBudgetSpent, Wait, WaitCode
from headway.dashboard.troubles.trouble import PageAction, Trouble, command_line, lane_path
from headway.display.formatting import short
from headway.reason_text import wait_text
from headway.reports.run_progress import LaneProgress

#: The text of a hold may have its time at the end.
_LONGEST: Final = 300
#: Waits that someone should know of, and what to do. Pacing is normal.
_WAITS: Final = {
    WaitCode.BREAKER: "It goes on as soon as one succeeds. 'headway doctor' checks whether the provider can be reached.",
    WaitCode.PROBE: "It goes on as soon as one succeeds. 'headway doctor' checks whether the provider can be reached.",
    WaitCode.BUDGET: "Raise the budget, or let it end when nothing fits any more.",
    WaitCode.SAME_DIRECTORY: "Start it again with --worktree to run units side by side.",
    WaitCode.CRASHED_TWICE: "It runs alone, so that a crash hits nothing else.",
}
#: What to do about an account that is refused, where nothing better is known.
_ACCOUNT: Final = {
    Kind.QUOTA: "the account has no credit left, or its spend limit is reached: raise it with the provider",
    Kind.AUTH: "the provider refuses the key or the model: correct them ('headway doctor' checks both)",
}
_KEEPS_ITS_KEY: Final = "A running job keeps its key: with another key, resume the job when its other lanes have ended. If the account was at fault, correct it"


def lane_trouble(name: str, lane: LaneProgress, flags: Sequence[str]) -> Iterator[Trouble]:
    """What is wrong with one lane now."""
    wait = lane.waits_for
    if wait is None or wait.stop is not None or not (lane.remaining or lane.in_flight):
        return
    if wait.code is WaitCode.HOLD:
        yield held_trouble(name, wait, flags)
    elif wait.code in _WAITS:
        yield Trouble(
            level="warning",
            what=f"{name} waits: {short(wait_text(wait), _LONGEST)}",
            do=_WAITS[wait.code],
            until_utc=wait.until,
            lane=name,
        )


def held_trouble(name: str, wait: Wait, flags: Sequence[str]) -> Trouble:
    """A lane is held until an instant."""
    return Trouble(
        level="warning",
        what=f"{name} is held: {short(wait.message, _LONGEST) or 'its provider takes no requests now'}",
        do="It goes on by itself when this time is over; other lanes go on now. If the limit is gone already, open the lane.",
        command=command_line(flags, "lanes", "--reopen", name),
        action=PageAction(lane_path(name, "reopen")),
        until_utc=wait.until,
        lane=name,
    )


def stopped_trouble(
    name: str, text: str, advice: str, reason: object, flags: Sequence[str], *, is_live: bool
) -> Trouble:
    """A lane cannot continue. `text` and `advice` are those of the summary of a run.

    Only a running job, or a hold on record, can be asked to open a lane: otherwise the job is resumed.
    """
    if isinstance(reason, LaneBudgetSpent):
        return Trouble(
            level="error", what=f"{name} stopped: {text}", lane=name,
            do="Raise max_cost of the budget in headway.toml, then resume the job.",
        )  # fmt: skip
    if not advice and isinstance(reason, AccountRefused):
        advice = _ACCOUNT.get(reason.kind, "")
    if is_live and isinstance(reason, AccountRefused) and reason.kind is Kind.AUTH:
        advice += f". {_KEEPS_ITS_KEY}"
    is_held = isinstance(reason, HoldTooLong)
    can_open = is_live or is_held
    step = "open the lane" if can_open else "resume the job"
    return Trouble(
        level="warning" if is_held else "error",
        what=f"{name} stopped: {text}",
        do=f"{advice[:1].upper()}{advice[1:]}; then {step}." if advice else f"Remove the cause, then {step}.",
        command=command_line(flags, "lanes", "--reopen", name) if can_open else "",
        action=PageAction(lane_path(name, "reopen")) if can_open else None,
        lane=name,
    )
