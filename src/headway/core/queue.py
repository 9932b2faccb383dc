"""The units of one lane that are in memory: those that may go, in order, and those that wait for an instant."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from headway.core.model import Costs, Estimate, Unit
from headway.core.status import Status

if TYPE_CHECKING:
    from headway.core.lane import Lane
    from headway.core.meter import Meter

NEVER: Final = float("inf")
ALWAYS: Final = float("-inf")


class Entry:
    """A unit inside the scheduler: its budget so far and, while it is out, the attempt's facts."""

    __slots__ = (
        "accepted", "attempts", "charged", "costs", "crashes", "epoch", "estimate", "fate", "fits", "flight", "lane", "marks", "meters", "not_before",
        "probe", "refused_at", "seq", "started_at", "status", "throttles", "tries", "unit", "waits_for", "why",
    )  # fmt: skip

    meters: tuple[Meter, ...]
    marks: list[float]
    #: What the meters hold for the attempt: the reservation at first, then what of it has been settled.
    charged: Costs
    epoch: int
    seq: int
    #: How many of the lane were in flight when it was sent, itself included.
    flight: int
    accepted: bool
    #: What else the attempt is for: "depth", "canary", "breaker" or nothing.
    probe: str
    #: Why we stopped the attempt, while it is out: "unwanted", "deadline", "aborted" or nothing.
    fate: str
    #: Why it waits, while it waits for an instant.
    why: str
    started_at: float
    #: When it met its first rate limit, once `throttles` counts any.
    refused_at: float
    #: What the lane went by when this unit was last found to fit it.
    fits: object

    def __init__(self, unit: Unit, lane: Lane, estimate: Estimate, costs: Costs) -> None:
        self.unit = unit
        self.lane = lane
        self.estimate = estimate
        self.costs = costs
        self.status = Status.PENDING
        self.tries = 0
        self.attempts = 0
        self.throttles = 0
        self.crashes = 0
        self.not_before = ALWAYS
        self.waits_for = 0
        self.fits = None


class Queue:
    """A lane's entries in memory, ordered by priority, then the longest or the first."""

    __slots__ = ("delayed", "longest", "ready")

    def __init__(self, *, longest: bool) -> None:
        self.longest = longest
        self.ready: list[tuple[int, float, int, Entry]] = []
        self.delayed: list[tuple[float, int, Entry]] = []

    def __len__(self) -> int:
        return len(self.ready) + len(self.delayed)

    def push(self, entry: Entry) -> None:
        """Add one that may go now. Indices differ, so entries themselves are never compared."""
        unit = entry.unit
        expected = 0.0
        if self.longest:
            expected = unit.expected_s or entry.estimate.output_tokens
        heappush(self.ready, (-unit.priority, -expected, unit.index, entry))

    def delay(self, entry: Entry) -> None:
        """Add one that waits for its `not_before`. It holds nothing meanwhile."""
        heappush(self.delayed, (entry.not_before, entry.unit.index, entry))

    def ripen(self, now: float) -> None:
        """Move those whose instant has come."""
        delayed = self.delayed
        while delayed and (delayed[0][0] <= now or delayed[0][2].status is not Status.PENDING):
            entry = heappop(delayed)[2]
            if entry.status is Status.PENDING:
                self.push(entry)

    def head(self) -> Entry | None:
        """The next to go; those cancelled meanwhile are dropped on the way."""
        ready = self.ready
        while ready:
            entry = ready[0][3]
            if entry.status is Status.PENDING:
                return entry
            heappop(ready)
        return None

    def peek(self) -> Entry | None:
        """The same without touching anything, for those who only look."""
        alive = (item for item in self.ready if item[3].status is Status.PENDING)
        first = (
            next(alive, None)
            if self.ready and self.ready[0][3].status is Status.PENDING
            else min(alive, default=None)
        )
        return None if first is None else first[3]

    def pop(self) -> None:
        """Take the head off."""
        heappop(self.ready)

    def next_at(self) -> float:
        """When the first delayed one is due."""
        return self.delayed[0][0] if self.delayed else NEVER

    def counts(self) -> tuple[int, int]:
        """How many may go, and how many wait for an instant."""
        ready = sum(item[3].status is Status.PENDING for item in self.ready)
        return ready, sum(item[2].status is Status.PENDING for item in self.delayed)

    def entries(self) -> Iterator[Entry]:
        """Everything that is still pending, in no order."""
        for item in self.ready:
            if item[3].status is Status.PENDING:
                yield item[3]
        for waiting in self.delayed:
            if waiting[2].status is Status.PENDING:
                yield waiting[2]
