"""What the parts of the scheduler share: the lanes, what is in flight, the budgets, and what one call decides.

Lanes never see each other. What they share is here: the global cap, the budget, the deadline, the serial phase, and the
units that wait for other units. Only the scheduler's own parts may change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from headway.core import commands
from headway.core.budget import Budget, HighestCost
from headway.core.commands import Command, NoticeKind
from headway.core.lanes.lane import Lane
from headway.core.lanes.queue import ALWAYS, Entry
from headway.core.model import Settings
from headway.core.reasons import NoticeReason
from headway.core.scheduling.dependencies import Dependencies
from headway.core.unit_states import Status


class RunState:
    """The state of a run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lanes: dict[str, Lane] = {}
        self.out: dict[int, Entry] = {}
        self.waiting = Dependencies()
        self.budget = Budget(settings.max_cost_usd)
        #: Where costs are told late: what they have been.
        self.costliest = HighestCost() if settings.costs_told_late else None
        #: The budgets of lanes, by name: several lanes may share one.
        self.lane_budgets: dict[str, Budget] = {}
        self.concurrency = settings.concurrency
        self.mode: Literal["run", "aborted", "deadline", "budget"] = "run"
        self.paused = False
        #: The serial unit whose turn it is.
        self.serial: Entry | None = None
        self.serial_phase = True
        self.fetching_serial = False
        #: Units whose requests are being made.
        self.rendering: dict[int, Entry] = {}
        self.input_open = settings.input_open
        #: Whether the end has been reported, and nothing has changed since.
        self.done = False
        #: Units that were cancelled before they were fetched.
        self.unwanted: set[int] = set()
        #: Lanes to look at in this call.
        self.dirty: dict[str, Lane] = {}
        #: Lanes whose next unit does not fit the budget.
        self.broke: dict[str, Lane] = {}
        self.next_start_at = ALWAYS
        #: What the present call has decided so far.
        self.commands: list[Command] = []

    def in_memory(self) -> Iterator[Entry]:
        """Every pending unit that has been fetched."""
        for lane in self.lanes.values():
            yield from lane.queue.entries()
        yield from self.waiting.entries()
        yield from (entry for entry in self.rendering.values() if entry.status is Status.PENDING)

    def free_all(self, now: float) -> None:
        """What kept every lane is over."""
        self.dirty.update(self.lanes)
        for lane in self.lanes.values():
            lane.work_time.free(now)

    def notice(self, lane: Lane, what: NoticeKind, reason: NoticeReason, until: float | None = None) -> None:
        """Say something of a lane."""
        self.commands.append(commands.Notice(lane.key, what, reason, until))

    @property
    def fetching(self) -> bool:
        """Whether units are on their way."""
        return self.fetching_serial or any(lane.stock.fetching for lane in self.lanes.values())
