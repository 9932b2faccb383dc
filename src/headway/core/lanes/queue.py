"""The units of one lane that are in memory: those that may go, in order, and those that wait for an instant.

A unit that was running when its worker died twice is a suspect. It is kept apart and goes one at a time, when the lane
has nothing else to do or after a minute: the next death then shows whether the unit is the cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from headway.core.model import Costs, Estimate, Unit
from headway.core.unit_states import Status

if TYPE_CHECKING:
    from headway.core.lanes.lane import Lane
    from headway.core.lanes.meter import Meter
    from headway.core.lanes.unit_lengths import LengthTable

NEVER: Final = float("inf")
ALWAYS: Final = float("-inf")


class Entry:
    """A unit inside the scheduler: its budget so far and, while it is out, the attempt's facts."""

    __slots__ = (
        "accepted", "alone_by", "attempts", "cancel_reason", "charged", "costs", "crashes", "epoch", "estimate", "fits", "flight", "guess", "lane", "marks",
        "meters", "not_before", "probe", "refused_at", "seq", "started_at", "status", "throttles", "tries", "unit", "waits_for", "why",
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
    #: What else the attempt is for: "window", "canary", "breaker" or nothing.
    probe: str
    #: Why we stopped the attempt, while it is out: "unwanted", "deadline", "aborted" or nothing.
    cancel_reason: str
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
        #: Of a suspect: when it goes at the latest.
        self.alone_by = NEVER
        self.not_before = ALWAYS
        self.waits_for = 0
        self.fits = None
        #: Whether it was started before this run had seen how large such units are.
        self.guess = False

    @property
    def suspect(self) -> bool:
        """Whether it is to run alone."""
        return self.alone_by != NEVER


class Queue:
    """A lane's entries in memory, ordered by priority, then the longest or the first."""

    __slots__ = ("_lengths", "_on_trial", "delayed", "orders", "ready", "suspects")

    def __init__(self) -> None:
        self._lengths: LengthTable | None = None
        #: How often its order has changed.
        self.orders = 0
        self.ready: list[tuple[int, float, int, Entry]] = []
        self.delayed: list[tuple[float, int, Entry]] = []
        #: Those that are to run alone, by when each goes at the latest.
        self.suspects: list[tuple[float, int, Entry]] = []
        #: The suspect whose turn it is, until its attempt has ended.
        self._on_trial: Entry | None = None

    def __len__(self) -> int:
        return len(self.ready) + len(self.delayed) + len(self.suspects)

    def push(self, entry: Entry) -> None:
        """Add one that may go now. Indices differ, so entries themselves are never compared."""
        unit = entry.unit
        expected_s = 0.0 if self._lengths is None else self._lengths.of(unit)
        heappush(self.ready, (-unit.priority, -expected_s, unit.index, entry))

    def order_by(self, lengths: LengthTable) -> None:
        """The longest go first from now on."""
        self._lengths = lengths
        self.orders += 1
        self.ready = [
            (item[0], -lengths.of(item[3].unit), item[2], item[3])
            for item in self.ready
            if item[3].status is Status.PENDING
        ]
        heapify(self.ready)

    def shorter_than(self, expected_s: float) -> int:
        """How many of those that may go are expected to take less than this, where the longest go first."""
        return sum(-item[1] < expected_s for item in self.ready)

    def delay(self, entry: Entry) -> None:
        """Add one that waits for its `not_before`. It holds nothing meanwhile."""
        heappush(self.delayed, (entry.not_before, entry.unit.index, entry))

    def ripen(self, now: float) -> None:
        """Move those whose instant has come."""
        delayed = self.delayed
        while delayed and (delayed[0][0] <= now or delayed[0][2].status is not Status.PENDING):
            entry = heappop(delayed)[2]
            if entry.status is not Status.PENDING:
                continue
            if entry.suspect:
                heappush(self.suspects, (entry.alone_by, entry.unit.index, entry))
            else:
                self.push(entry)

    def try_suspect(self, now: float, *, lane_idle: bool) -> None:
        """Let the next suspect go if its time has come, or if nothing else of the lane runs or waits."""
        if self._trial_goes_on():
            return
        if self.suspects[0][0] > now and not (lane_idle and self._only_suspects()):
            return
        entry = heappop(self.suspects)[2]
        if entry.status is Status.PENDING:
            self._on_trial = entry
            entry.not_before = now  # The lane's limits did not keep it waiting.
            self.push(entry)

    def ended(self, entry: Entry) -> None:
        """Its attempt is over: the next suspect may go."""
        if entry is self._on_trial:
            self._on_trial = None

    def _trial_goes_on(self) -> bool:
        entry = self._on_trial
        return entry is not None and entry.status in (Status.PENDING, Status.RUNNING)

    def _only_suspects(self) -> bool:
        return self.head() is None and not any(item[2].status is Status.PENDING for item in self.delayed)

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
        """When the first of those that wait is due."""
        delayed_at = self.delayed[0][0] if self.delayed else NEVER
        if not self.suspects or self._trial_goes_on():
            return delayed_at
        return min(delayed_at, self.suspects[0][0])

    def waiting(self) -> Iterator[Entry]:
        """Those that wait: for an instant, or to run alone."""
        for item in (*self.delayed, *self.suspects):
            if item[2].status is Status.PENDING:
                yield item[2]

    def counts(self) -> tuple[int, int]:
        """How many may go, and how many wait for an instant."""
        ready = sum(item[3].status is Status.PENDING for item in self.ready)
        return ready, sum(1 for _ in self.waiting())

    def entries(self) -> Iterator[Entry]:
        """Everything that is still pending, in no order."""
        for item in self.ready:
            if item[3].status is Status.PENDING:
                yield item[3]
        yield from self.waiting()
