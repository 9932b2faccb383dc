"""The commands that the scheduler issues. The engine records each of them, then acts on it."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.core.lanes.queueing.unit_lengths import LengthTable
from headway.core.model import Kind, Unit
from headway.core.reasons import NoticeReason
from headway.core.unit_states import Status


class Start(msgspec.Struct, frozen=True, gc=False):
    """Send this unit now. `attempt` counts from 1 over all tries, throttled ones included.

    `alone`: in a process that has run no other unit, because its worker died too often.
    """

    unit: Unit
    attempt: int
    alone: bool = False


class Requeue(msgspec.Struct, frozen=True, gc=False):
    """The unit is pending again; it may not start before `not_before`."""

    unit: Unit
    not_before: float
    kind: Kind | None
    reason: str


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The unit has ended. `code` is an error kind, or interrupted, deadline, budget, upstream_failed.

    `upstream` is the unit because of which it was skipped.
    """

    unit: Unit
    status: Status
    code: str = ""
    message: str = ""
    upstream: int | None = None


class CancelAttempt(msgspec.Struct, frozen=True, gc=False):
    """Stop the attempt that is in flight for this unit, and answer with `Cancelled`, or with `Finished` if it ended before."""

    unit: Unit


NoticeKind = Literal[
    "held",
    "released",
    "stopped",
    "reopened",
    "breaker_opened",
    "breaker_closed",
    "limit",
    "shared",
    "usage",
    "exhausted",
    "memory",
    "cluster",
]


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A change of a lane that users should know of. One for each change, never one for each unit."""

    lane: str
    what: NoticeKind
    reason: NoticeReason
    until: float | None = None


class Fetch(msgspec.Struct, frozen=True, gc=False):
    """Bring up to `n` further units of a lane, and answer with `Units`. One fetch of a lane is under way at a time.

    `longest`: bring the longest of all units that are left, by this table, not the first. `sized`: the answer says which of those
    that are left are the largest.
    """

    lane: str
    n: int
    longest: LengthTable | None = None
    sized: bool = False


class FetchSerial(msgspec.Struct, frozen=True, gc=False):
    """Bring up to `n` further units of the serial phase, of any lane, and answer with `SerialUnits`."""

    n: int


class FetchRest(msgspec.Struct, frozen=True, gc=False):
    """Bring up to `n` of the units that no fetch has brought yet, of any lane, and answer with `RestUnits`. They are not run."""

    n: int


class Render(msgspec.Struct, frozen=True, gc=False):
    """Make the request of a unit that is `late`, and answer with `Rendered`. The units that it waits for have succeeded."""

    unit: Unit


class Wake(msgspec.Struct, frozen=True, gc=False):
    """Call `handle` again at this instant even if nothing happens; replaces every earlier wake-up."""

    at: float


class Done(msgspec.Struct, frozen=True, gc=False):
    """Nothing more will start and nothing is in flight."""

    reason: Literal["complete", "stopped", "parked", "deadline", "budget", "aborted"]


AnyFetch = Fetch | FetchSerial | FetchRest
Command = Start | Requeue | Finish | CancelAttempt | Notice | AnyFetch | Render | Wake | Done
