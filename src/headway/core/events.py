"""The events that the scheduler takes. `Scheduler.handle` gets a batch of them and the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from headway.core.lanes.job_share import Grant
from headway.core.model import Hint, LaneLimits, LaneSpec, Outcome, Unit, Usage


class Delayed(msgspec.Struct, frozen=True, gc=False):
    """The request of an attempt cannot be written yet: its intent is not on disk, or no connection is open.

    `Written` follows, or the end of the attempt.
    """

    index: int


class Written(msgspec.Struct, frozen=True, gc=False):
    """The request of an attempt that was `Delayed` has just been written."""

    index: int


class RequestAccepted(msgspec.Struct, frozen=True, gc=False):
    """The provider accepted the request: its first headers have arrived, its answer has not.

    `usage` is given if a stream begins with the counted input (Anthropic's message_start).
    """

    index: int
    hint: Hint | None = None
    usage: Usage | None = None


class Finished(msgspec.Struct, frozen=True, gc=False):
    """An attempt ended, with or without success."""

    index: int
    outcome: Outcome


class AnswerRejected(msgspec.Struct, frozen=True, gc=False):
    """The provider answered, but the answer does not fit what was asked for. The lane succeeded, the unit did not.

    `outcome` is that of the attempt, without a kind. `again` is the unit for its next attempt, which also tells the model what was
    wrong with the answer; None: the unit ends. `is_free`: the unit pays no attempt, so it goes on even if it has none left.
    """

    index: int
    outcome: Outcome
    message: str
    again: Unit | None = None
    is_free: bool = False


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """An attempt was cancelled, after a `CancelAttempt` command. `sent`: its request may have been sent."""

    index: int
    sent: bool = True


class ReopenLane(msgspec.Struct, frozen=True, gc=False):
    """Lift a lane's hold, stop or open breaker."""

    lane: str


class OpenLane(msgspec.Struct, frozen=True):
    """Open a further lane while the run goes on."""

    spec: LaneSpec


class SetLimits(msgspec.Struct, frozen=True, gc=False):
    """New configured limits for a lane while the run goes on."""

    lane: str
    limits: LaneLimits


class SetBudget(msgspec.Struct, frozen=True, gc=False):
    """Another cap on the money of the run; 0: none."""

    max_cost_usd: float


class Share(msgspec.Struct, frozen=True, gc=False):
    """The part of a lane that this job may use, as other jobs begin or cease to use it. `owed`: see `job_share.owed_to`.

    `anew`: the job could not see the others for a while, and they may have used all that was left.
    """

    lane: str
    grant: Grant
    owed: dict[str, float] | None = None
    anew: bool = False


class Granted(msgspec.Struct, frozen=True, gc=False):
    """The parts of all lanes may be used until this instant. After it nothing starts until they are granted again."""

    until: float


class SetMaxInFlight(msgspec.Struct, frozen=True, gc=False):
    """This run may have so many requests in flight, of all lanes together; 0: not known.

    The number is what the process can open. If it is lower than what is in flight, that goes on.
    """

    limit: int


class HoldAccount(msgspec.Struct, frozen=True, gc=False):
    """Another process was refused: an account, or one model of it, is closed until an instant."""

    account: str
    model: str
    scope: str
    until: float
    reason: str


class HoldLane(msgspec.Struct, frozen=True, gc=False):
    """Another process was refused on this lane: it is closed until an instant."""

    lane: str
    until: float
    reason: str


class SetMemoryPlaces(msgspec.Struct, frozen=True, gc=False):
    """So many processes of a lane fit into memory: what one of them takes, and what all may take, in bytes."""

    lane: str
    places: int
    each: float
    budget: float


class SetClusterPlaces(msgspec.Struct, frozen=True, gc=False):
    """So many units of a lane can run on a cluster. `why` is a text for a notice, or ""."""

    lane: str
    places: int
    why: str = ""


class Units(msgspec.Struct, frozen=True):
    """Units of a lane, by priority, then in the order of the fetch: the answer to `Fetch`, or work that comes by itself.

    `more`: the source has further units of the lane, and a `Fetch` will bring them. `left` is how many; 0 with `more`: that is not
    known. Where the fetch was `sized`, `largest` has units that stand for them: the next one, where the longest were fetched, and
    otherwise the largest of each family, of those that are left or were there before. None stand for units whose order must not
    change.
    """

    lane: str
    units: Sequence[Unit]
    more: bool
    left: int = 0
    largest: Sequence[Unit] = ()


class ExtraUnits(msgspec.Struct, frozen=True):
    """Units that come out of turn, because another terminal asks for them. No fetch brings them again. Some may have ended before."""

    units: Sequence[Unit]


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
    """Cancel this unit."""

    index: int


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Start nothing until `Resume`; what is in flight goes on."""


class Resume(msgspec.Struct, frozen=True, gc=False):
    """Undo `Pause`."""


class Abort(msgspec.Struct, frozen=True, gc=False):
    """Start nothing more. `drain` lets what is in flight finish, `cancel` stops it."""

    mode: Literal["drain", "cancel"] = "drain"


Event = (
    Delayed
    | Written
    | RequestAccepted
    | Finished
    | AnswerRejected
    | Cancelled
    | ReopenLane
    | OpenLane
    | SetBudget
    | SetLimits
    | SetMaxInFlight
    | Granted
    | HoldAccount
    | HoldLane
    | SetMemoryPlaces
    | SetClusterPlaces
    | Share
    | Units
    | ExtraUnits
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
