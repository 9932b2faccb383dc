"""How a run ended: the state of its job, and the reasons for units that could not finish.

The scheduler gives one reason for the end of a run. Lanes that stopped before have their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core import commands
from headway.core.reasons import (
    DeadlinePassed,
    EndReason,
    RunBudgetSpent,
    RunInterrupted,
    StopReason,
    UpstreamUnfinished,
)
from headway.engine.observer import View
from headway.engine.run_spec import UnitRoute
from headway.stores.records import Job, State

_STATES: Final[dict[str, State]] = {
    "complete": "complete",
    "stopped": "stopped",
    "parked": "parked",
    "deadline": "deadline",
    "budget": "budget",
    "aborted": "interrupted",
}
#: For units of lanes that did not stop themselves. Where only lanes stopped, such a lane has units left only if these wait for others.
_GENERAL: Final[dict[str, EndReason]] = {
    "budget": RunBudgetSpent(),
    "deadline": DeadlinePassed(),
    "stopped": UpstreamUnfinished(),
    "parked": UpstreamUnfinished(),
}
_INTERRUPTED: Final = RunInterrupted()


class RunResult(msgspec.Struct, frozen=True):
    """How a run ended."""

    state: State
    view: View


def state_after(reason: str, job: Job, *, cancelled: bool, lanes_alone: bool) -> State:
    """The state of a job after a run. `cancelled`: by a command. `lanes_alone`: a budget that is spent is a lane's, not the
    run's.
    """
    if cancelled and reason == "aborted":
        return "cancelled"
    state = _STATES[reason]
    if state == "complete" and job.good < job.total:
        return "failed"
    # Failed units say more than a lane that is out of money.
    if state == "budget" and lanes_alone and job.ended > job.good:
        return "failed"
    return state


class LaneStops:
    """Why lanes have stopped, by their key."""

    def __init__(self) -> None:
        self._reasons: dict[str, StopReason] = {}

    def note(self, notice: commands.Notice) -> None:
        """A notice about a lane: it may have stopped, or may go on."""
        if isinstance(notice.reason, StopReason):
            self._reasons[notice.lane] = notice.reason
        elif notice.what == "reopened":
            self._reasons.pop(notice.lane, None)

    def unfinished(self, reason: str, routes: Mapping[int, UnitRoute]) -> dict[str, EndReason]:
        """Why the units that are left could not finish, by route."""
        if reason == "complete":  # Units are left only if this run was not to run them.
            return {}
        general = _GENERAL.get(reason, _INTERRUPTED)
        return {str(number): self._reasons.get(route.lane, general) for number, route in routes.items()}
