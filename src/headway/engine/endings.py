"""How a run ends: what its job is called from then on, and what is said of the units that could not finish.

The scheduler gives one reason for the end of a run; lanes that stopped before have their own. Nothing here ends anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headway.core import commands
from headway.core.budget import OUT_OF_MONEY
from headway.core.model import Kind
from headway.engine.observer import View
from headway.engine.plan import Route
from headway.stores.records import Job, State

_STATES: Final[dict[str, State]] = {
    "complete": "complete",
    "stopped": "stopped",
    "parked": "parked",
    "deadline": "deadline",
    "budget": "budget",
    "aborted": "interrupted",
}
#: What a lane may be stopped by that its units can be told as their code.
_CODES: Final = frozenset({*map(str, Kind), "budget"})

#: A code and a sentence.
Reason = tuple[str, str]

_GENERAL: Final[dict[str, Reason]] = {
    "budget": ("budget", OUT_OF_MONEY),
    "deadline": ("deadline", "the run's deadline passed"),
}
_INTERRUPTED: Final[Reason] = ("interrupted", "the run was interrupted; go on with 'headway resume'")


class Ending(msgspec.Struct, frozen=True):
    """How a run ended."""

    state: State
    view: View


def state_after(reason: str, job: Job, *, cancelled: bool, lanes_alone: bool) -> State:
    """What a job is after a run that ended for a reason. `cancelled`: somebody wanted that. `lanes_alone`: if money was
    the reason, it was the lanes' own and not the run's.
    """
    if cancelled and reason == "aborted":
        return "cancelled"
    state = _STATES[reason]
    if state == "complete" and job.good < job.total:
        return "failed"
    # Failed units are what there is to say: a lane that is out of money says less.
    if state == "budget" and lanes_alone and job.ended > job.good:
        return "failed"
    return state


class Stops:
    """Why lanes have stopped, by their key."""

    def __init__(self) -> None:
        self._reasons: dict[str, Reason] = {}

    def heard(self, notice: commands.Notice) -> None:
        """Something about a lane, perhaps that it stopped or goes on."""
        if notice.what == "stopped":
            self._reasons[notice.lane] = _why(notice)
        elif notice.what == "reopened":
            self._reasons.pop(notice.lane, None)

    def unfinished(self, reason: str, routes: Mapping[int, Route]) -> dict[str, Reason]:
        """Why the units that are left could not finish, by route."""
        general = _GENERAL.get(reason, _INTERRUPTED)
        return {str(number): self._reasons.get(route.lane, general) for number, route in routes.items()}


def _why(notice: commands.Notice) -> Reason:
    if notice.until is not None:
        return str(Kind.HOLD), notice.text
    kind, _, rest = notice.text.partition(": ")
    return (kind, rest) if kind in _CODES else ("interrupted", notice.text)
