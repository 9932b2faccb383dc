"""The state that the parts of the scheduler share: lanes, attempts in flight, budgets, and the commands of the present call.

Lanes never see each other. What they share is here: the global cap, the budget, the deadline, the serial phase, and the
units that wait for other units. Only the parts of the scheduler may change it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from headway.core import commands
from headway.core.budget import Budget, HighestCost
from headway.core.commands import Command, NoticeKind
from headway.core.lanes.account import AccountWindows
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry
from headway.core.model import Settings
from headway.core.reasons import NoticeReason
from headway.core.scheduling.dependencies import Dependencies
from headway.core.scheduling.exclusion import Exclusion
from headway.core.scheduling.group_cap import GroupCap
from headway.core.unit_states import Status


class RunState:
    """The state of a run."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.settings = settings
        #: When the run began, and the time of the present call.
        self.began_at = self.now = now
        #: Whether a unit waited longer for its first start than it may.
        self.waited_out = False
        self.lanes: dict[str, LaneState] = {}
        #: The windows of accounts that several lanes may belong to.
        self.accounts: dict[str, AccountWindows] = {}
        self.out: dict[int, Entry] = {}
        self.waiting = Dependencies()
        self.exclusion = Exclusion()
        self.group_cap = GroupCap(settings.max_groups)
        self.budget = Budget(settings.max_cost_usd)
        #: If costs are known only at the end of a call: the highest cost of each lane.
        self.costliest = HighestCost() if settings.costs_known_late else None
        #: The budgets of lanes, by name: several lanes may share one.
        self.lane_budgets: dict[str, Budget] = {}
        self.concurrency = settings.concurrency
        #: How many the process may have in flight at all; 0: not known.
        self.max_in_flight = settings.max_in_flight
        #: Whether a notice said that the process is exhausted.
        self.exhausted = False
        self.mode: Literal["run", "aborted", "deadline", "budget"] = "run"
        self.paused = False
        #: Until when this run may use its parts of lanes that other processes use, too (`events.Granted`).
        self.granted_until = NEVER
        #: The serial unit that is next.
        self.serial: Entry | None = None
        self.serial_phase = True
        self.fetching_serial = False
        #: Units whose requests are being made.
        self.rendering: dict[int, Entry] = {}
        self.input_open = settings.input_open
        #: Whether the end has been reported and nothing has changed since.
        self.done = False
        #: Units that were cancelled before they were fetched.
        self.unwanted: set[int] = set()
        #: Lanes to look at in this call.
        self.dirty: dict[str, LaneState] = {}
        #: Lanes whose next unit does not fit the budget.
        self.broke: dict[str, LaneState] = {}
        self.next_start_at = ALWAYS
        #: The commands of the present call so far.
        self.commands: list[Command] = []

    def in_memory(self) -> Iterator[Entry]:
        """Every pending unit that has been fetched."""
        for lane in self.lanes.values():
            yield from lane.queue.entries()
        yield from self.waiting.entries()
        yield from self.exclusion.entries()
        yield from (entry for entry in self.rendering.values() if entry.status is Status.PENDING)

    def free_all(self, now: float) -> None:
        """Nothing keeps all lanes from starting any more."""
        self.dirty.update(self.lanes)
        for lane in self.lanes.values():
            lane.work_time.free(now)

    def notice(
        self, lane: LaneState, what: NoticeKind, reason: NoticeReason, until: float | None = None
    ) -> None:
        """Issue a notice about a lane."""
        self.commands.append(commands.Notice(lane.key, what, reason, until))

    @property
    def fetching(self) -> bool:
        """Whether units are being fetched."""
        return self.fetching_serial or any(lane.stock.fetching for lane in self.lanes.values())
