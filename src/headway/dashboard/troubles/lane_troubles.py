"""What is wrong with the lanes of a running job: stops, holds, providers that do not answer, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headway.core.reasons import HoldTooLong, LaneBudgetSpent, Wait, WaitCode
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


def lane_trouble(name: str, lane: LaneProgress, flags: Sequence[str]) -> Iterator[Trouble]:
    """What is wrong with one lane now."""
    wait = lane.waits_for
    if wait is None or wait.stop is not None or not (lane.remaining or lane.in_flight):
        return
    text = short(wait_text(wait), _LONGEST)
    if wait.code is WaitCode.HOLD:
        yield held_trouble(name, wait, flags)
    elif wait.code in _WAITS:
        yield Trouble(
            level="warning",
            what=f"{name} waits: {text}",
            do=_WAITS[wait.code],
            until_utc=wait.until,
            lane=name,
        )


def held_trouble(name: str, wait: Wait, flags: Sequence[str]) -> Trouble:
    """A lane is held until an instant."""
    return Trouble(
        level="warning",
        what=f"{name} waits: {short(wait_text(wait), _LONGEST)}",
        do="It goes on by itself then; other lanes are not delayed. If the limit is gone already, try the lane now.",
        command=command_line(flags, "lanes", "--reopen", name),
        action=PageAction(lane_path(name, "reopen")),
        until_utc=wait.until,
        lane=name,
    )


def stopped_trouble(name: str, text: str, advice: str, reason: object, flags: Sequence[str]) -> Trouble:
    """A lane cannot continue. `text` and `advice` are those of the summary of a run."""
    if isinstance(reason, LaneBudgetSpent):
        return Trouble(
            level="error", what=f"{name} stopped: {text}", lane=name,
            do="Raise max_cost of the budget in headway.toml, then resume the job.",
        )  # fmt: skip
    do = advice or "Remove the cause, then try the lane again."
    return Trouble(
        level="warning" if isinstance(reason, HoldTooLong) else "error",
        what=f"{name} stopped: {text}",
        do=do,
        command=command_line(flags, "lanes", "--reopen", name),
        action=PageAction(lane_path(name, "reopen")),
        lane=name,
    )
