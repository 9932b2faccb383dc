"""What to do about the lanes of a job that are held or have stopped, in one line with the command."""

from __future__ import annotations

import shlex
from typing import Final

from headway.core.model import Kind
from headway.core.reasons import AccountRefused, LaneBudgetSpent, StopReason, Wait, WaitCode
from headway.display.lanes.lane_order import AT_WORK, rank
from headway.reports.watching.job_watch import JobSight

_ACCOUNT: Final = {
    Kind.QUOTA: "raise the credit or the spend limit with the provider, then",
    Kind.AUTH: "check the key and the model ('headway doctor'), then",
}
_PROBES: Final = "it goes on as soon as a test request succeeds; 'headway doctor' checks the provider"


def next_step(sight: JobSight, flags: str) -> str:
    """About the first lane in trouble, the stopped ones first; "" if there is none. `flags` lead to the records."""
    view = sight.view
    if view is None or not sight.live or view.paused:
        return ""
    troubled = sorted((lane for lane in sight.lanes if rank(lane) < AT_WORK), key=rank)
    for lane in troubled:
        name = view.names[lane.key]
        if lane.wait is not None and (step := _step(name, lane.wait, sight.job.name, flags)):
            others = f" (and {len(troubled) - 1} more)" if len(troubled) > 1 else ""
            return f"{name}{others}: {step}"
    return ""


def _step(lane: str, wait: Wait, job: str, flags: str) -> str:
    """About one lane."""
    reopen = _command(flags, "lanes", "--reopen", lane)
    if wait.stop is not None:
        return _after_stop(wait.stop, reopen)
    if wait.code is WaitCode.HOLD:
        return f"it goes on by itself; if the limit is gone already: {reopen}"
    if wait.code is WaitCode.BUDGET:
        return f"raise the budget: {_command(flags, 'budget', job, 'USD')}"
    return _PROBES if wait.code in (WaitCode.BREAKER, WaitCode.PROBE) else ""


def _after_stop(stop: StopReason, reopen: str) -> str:
    if isinstance(stop, LaneBudgetSpent):
        return "raise max_cost of the budget in headway.toml, then resume the job"
    if isinstance(stop, AccountRefused):
        return f"{_ACCOUNT.get(stop.kind, 'remove the cause, then')}: {reopen}"
    return f"remove the cause ('headway doctor' checks the provider), then: {reopen}"


def _command(flags: str, *words: str) -> str:
    return " ".join(["headway", shlex.join(words), *([flags] if flags else [])])
