"""What can be told to the scheduler. `Scheduler.handle` takes a batch of these and the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headway.core.lanes.job_share import Grant
from headway.core.model import Hint, LaneLimits, LaneSpec, Outcome, Unit, Usage


class RequestAccepted(msgspec.Struct, frozen=True, gc=False):
    """The provider took the request: its first headers are here, the answer is not yet.

    `usage` is there where a stream opens with the input that was counted (Anthropic's message_start does).
    """

    index: int
    hint: Hint | None = None
    usage: Usage | None = None


class Finished(msgspec.Struct, frozen=True, gc=False):
    """An attempt ended, one way or another."""

    index: int
    outcome: Outcome


class AnswerRejected(msgspec.Struct, frozen=True, gc=False):
    """The provider answered well, and its answer is not what was asked for: the lane did its part, the unit is not done.

    `outcome` is the lane's, without a kind. `again` is the unit as it goes on, longer by what is said to the model about
    its answer; None: it ends here.
    """

    index: int
    outcome: Outcome
    message: str
    again: Unit | None = None


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """An attempt was stopped from our side, as a `CancelAttempt` command asked. `sent`: it may have left already."""

    index: int
    sent: bool = True


class ReopenLane(msgspec.Struct, frozen=True, gc=False):
    """Lift a lane's hold, stop or open breaker."""

    lane: str


class OpenLane(msgspec.Struct, frozen=True):
    """A lane that was not known at the start."""

    spec: LaneSpec


class SetLimits(msgspec.Struct, frozen=True, gc=False):
    """New configured limits for a lane, while it runs."""

    lane: str
    limits: LaneLimits


class Share(msgspec.Struct, frozen=True, gc=False):
    """Other jobs use this lane, too, or do not any more: keep to this."""

    lane: str
    grant: Grant


class Units(msgspec.Struct, frozen=True):
    """Units of a lane, by priority, then in the order of the fetch: the answer to `Fetch`, or work that comes by itself.

    `more`: the source has further units of the lane, and a `Fetch` will bring them. Where the fetch was `sized`, `left` is how
    many, and `largest` has units that stand for them: the next one, where the longest were fetched, and otherwise the largest
    of each family, of those that are left or were there before. None stand for units whose order must not change.
    """

    lane: str
    units: Sequence[Unit]
    more: bool
    left: int = 0
    largest: Sequence[Unit] = ()


class SerialUnits(msgspec.Struct, frozen=True):
    """The answer to `FetchSerial`; no units: the serial phase is over."""

    units: Sequence[Unit]


class RestUnits(msgspec.Struct, frozen=True):
    """The answer to `FetchRest`, by index; no units: there are none left."""

    units: Sequence[Unit]


class Rendered(msgspec.Struct, frozen=True, gc=False):
    """The answer to `Render`: the unit with its real size, no longer `late`. None: its request cannot be made, as `message` says."""

    index: int
    unit: Unit | None
    message: str = ""


class MoreWork(msgspec.Struct, frozen=True, gc=False):
    """The source has units again for a lane that it had none for."""

    lane: str


class InputClosed(msgspec.Struct, frozen=True, gc=False):
    """The source will get no further units."""


class CancelUnit(msgspec.Struct, frozen=True, gc=False):
    """Somebody no longer wants this unit."""

    index: int


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Start nothing until `Resume`; what is in flight goes on."""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Undo `Pause`."""


class Abort(msgspec.Struct, frozen=True, gc=False):
    """Start nothing more. `drain` lets what is in flight finish, `cancel` stops it."""

    mode: Literal["drain", "cancel"] = "drain"


Event = (
    RequestAccepted
    | Finished
    | AnswerRejected
    | Cancelled
    | ReopenLane
    | OpenLane
    | SetLimits
    | Share
    | Units
    | SerialUnits
    | RestUnits
    | Rendered
    | MoreWork
    | InputClosed
    | CancelUnit
    | Pause
    | Resume
    | Abort
)
