"""The contract of observers, which show or record how a run goes. They cannot change or disturb it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from headway.core.snapshot import Snapshot
from headway.stores.records import Attempt, Job, JobEvent, UnknownOutcome


class PartProgress(msgspec.Struct, frozen=True):
    """One part of a job at an instant: a node of a flow. `total` is the number of its units as far as it is known; `note` is for people:
    why it failed or was skipped.

    `status`: pending, ready, running, waiting (for the user), success, failed or skipped. A part that has not changed since the
    last view should be the same object. `kind` is the kind of node, `waiting` are the first units
    that wait for the user.
    """

    name: str
    status: str
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    running: int = 0
    cost_usd: float = 0.0
    note: str = ""
    kind: str = ""
    waiting: tuple[str, ...] = ()


class View(msgspec.Struct, frozen=True):
    """A run at an instant. `counts` are committed ends, of this run and earlier ones."""

    job: str
    total: int
    counts: dict[str, int]
    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    #: None: no price is known.
    cost_usd: float | None
    elapsed_s: float
    updated_utc: float
    started_utc: float
    snapshot: Snapshot
    #: Lane keys → names for people.
    names: dict[str, str]
    #: Instants on the engine's clock plus this are UTC.
    utc_offset_s: float
    paused: bool = False
    #: The parts of the job, if its kind has any.
    parts: tuple[PartProgress, ...] = ()
    #: The names of parts → the keys of the lanes that their units go to.
    part_lanes: Mapping[str, str] = {}
    #: How many parts of each status are not among `parts`, where a view has only some of them.
    more_parts: Mapping[str, int] = {}

    @property
    def ended(self) -> int:
        """Units that have ended."""
        return sum(self.counts.values())


class AgentActivity(msgspec.Struct, frozen=True, gc=False):
    """What an agent does now. `uid` is the key of its unit, `unit` its id in the input, `lane` the lane's name for people.

    `tool` is the tool that it called last. `tokens` and `cost_usd` are those of this attempt so far, 0 if they are not reported.
    `is_over`: the attempt has ended; this is its last activity.
    """

    uid: int
    unit: str
    lane: str
    turn: int
    tool: str
    tokens: int
    cost_usd: float
    started_utc: float
    is_over: bool = False


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """What one transaction recorded: attempts that have ended, and (lane, reason, limit) → seconds that lanes waited. `lanes` has the names
    of lanes by their number in the store, and `took_s` is the duration of the commit.
    """

    attempts: Sequence[Attempt]
    waits: Mapping[tuple[int, str, str], float]
    lanes: Mapping[int, str]
    took_s: float


class Observer(Protocol):
    """The contract of a listener. Every method is called on the engine's loop and must return quickly."""

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """The run begins; `unknown` units may have been sent by a process that died."""

    def noted(self, event: JobEvent) -> None:
        """An event of a lane or of the job."""

    def sent(self, indexes: list[int]) -> None:
        """Attempts at these units are on their way, and that is committed. Nothing by default."""
        return

    def ended(self, indexes: list[int]) -> None:
        """These units have ended, and that is committed."""

    def recorded(self, recorded: Recorded) -> None:
        """A transaction is committed. Nothing by default."""
        return

    def moved(self, view: View) -> None:
        """The present view: twice a second, and once at the end."""

    def activity(self, activity: AgentActivity) -> None:
        """What an agent does now: at most a few times a second for each unit. Nothing by default."""
        return


class Display(Observer, Protocol):
    """An observer that people or programs read."""

    def say(self, text: str) -> None:
        """Show one line of text."""

    def close(self) -> None:
        """The run is over: restore the terminal."""
