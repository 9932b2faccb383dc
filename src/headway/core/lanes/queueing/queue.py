"""The units of one lane in memory: those that may start, in order, and those that wait for an instant.

A unit whose worker died twice while running it is a suspect. Suspects are kept apart and run one at a time, when the lane has no
other work or after a minute: if the worker dies again, the unit is the cause.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from headway.core.model import Costs, Estimate, RetryPolicy, Unit
from headway.core.unit_states import Status

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState
    from headway.core.lanes.meters.meter import Meter
    from headway.core.lanes.queueing.unit_lengths import LengthTable

NEVER: Final = float("inf")
ALWAYS: Final = float("-inf")


class Entry:
    """A unit inside the scheduler: its retries so far and, while it is in flight, the facts of the attempt."""

    __slots__ = (
        "accepted", "alone_by", "attempts", "cancel_reason", "charged", "costs", "crashes", "due_at", "epoch", "estimate", "failed_seq", "fits", "flight", "guess", "lane", "marks",
        "meters", "not_before", "probe", "ready_at", "refused_at", "seq", "since", "started_at", "status", "throttles", "tries", "unit", "unwritten", "waits_for", "why",
    )  # fmt: skip

    meters: tuple[Meter, ...]
    marks: list[float]
    #: What the meters hold for the attempt: the reservation at first, then the settled costs.
    charged: Costs
    epoch: int
    seq: int
    #: How many of the lane were in flight when it was sent, including itself.
    flight: int
    accepted: bool
    #: What else the attempt is for: "window", "canary", "breaker" or nothing.
    probe: str
    #: Why the attempt was cancelled: "unwanted", "deadline", "aborted" or nothing.
    cancel_reason: str
    #: Why it waits for an instant.
    why: str
    started_at: float
    #: When it met its first rate limit, once `throttles` counts any.
    refused_at: float
    #: The `basis` of the lane when this unit was last found to fit.
    fits: object

    def __init__(self, unit: Unit, lane: LaneState, estimate: Estimate, costs: Costs) -> None:
        self.unit = unit
        self.lane = lane
        self.estimate = estimate
        self.costs = costs
        self.status = Status.PENDING
        self.tries = 0
        self.attempts = 0
        self.throttles = 0
        self.crashes = 0
        #: Of a suspect: the latest instant at which it starts.
        self.alone_by = NEVER
        self.not_before = ALWAYS
        #: After a failed probe it lets other units probe first: when it would be due otherwise.
        self.due_at = NEVER
        #: The lane's last send when an attempt failed for the first time.
        self.failed_seq: float = NEVER
        #: When the last unit that it waits for had succeeded.
        self.ready_at = ALWAYS
        #: When it came into memory.
        self.since = ALWAYS
        self.waits_for = 0
        #: While the request of the attempt waits to be written: what it was charged.
        self.unwritten: Costs | None = None
        self.fits = None
        #: Whether this run had not seen enough such units to know their size when it started.
        self.guess = False

    @property
    def retry(self) -> RetryPolicy:
        """How it is retried: its own policy, or the lane's."""
        return self.unit.retry or self.lane.spec.retry

    @property
    def outvoted(self) -> bool:
        """Whether it failed and something that was sent afterwards succeeded: it is the unit that fails, not the lane."""
        return self.lane.good_seq > self.failed_seq

    @property
    def suspect(self) -> bool:
        """Whether it must run alone."""
        return self.alone_by != NEVER


class Queue:
    """A lane's entries in memory, ordered by priority, then the longest or the first."""

    __slots__ = ("_lengths", "_on_trial", "delayed", "orders", "ready", "suspects")

    def __init__(self) -> None:
        self._lengths: LengthTable | None = None
        #: How often the order has changed.
        self.orders = 0
        self.ready: list[tuple[int, float, int, Entry]] = []
        self.delayed: list[tuple[float, int, Entry]] = []
        #: Units that must run alone, by the latest instant at which each starts.
        self.suspects: list[tuple[float, int, Entry]] = []
        #: The suspect that is next or in flight.
        self._on_trial: Entry | None = None

    def __len__(self) -> int:
        return len(self.ready) + len(self.delayed) + len(self.suspects)

    def push(self, entry: Entry) -> None:
        """Add a unit that may start now. Indices differ, so entries themselves are never compared."""
        unit = entry.unit
        expected_s = 0.0 if self._lengths is None else self._lengths.of(unit)
        heappush(self.ready, (-unit.priority, -expected_s, unit.index, entry))

    def order_by(self, lengths: LengthTable) -> None:
        """From now on the longest units start first."""
        self._lengths = lengths
        self.orders += 1
        self.ready = [
            (item[0], -lengths.of(item[3].unit), item[2], item[3])
            for item in self.ready
            if item[3].status is Status.PENDING
        ]
        heapify(self.ready)

    def purge(self) -> None:
        """Drop units that have ended: one of them may come again, with the same index."""
        self.ready = [item for item in self.ready if item[3].status is Status.PENDING]
        self.delayed = [item for item in self.delayed if item[2].status is Status.PENDING]
        self.suspects = [item for item in self.suspects if item[2].status is Status.PENDING]
        heapify(self.ready)
        heapify(self.delayed)
        heapify(self.suspects)

    def shorter_than(self, expected_s: float) -> int:
        """How many of the units that may start are expected to take less than this."""
        return sum(-item[1] < expected_s for item in self.ready)

    def delay(self, entry: Entry) -> None:
        """Add a unit that waits for its `not_before`. It holds no permit meanwhile."""
        heappush(self.delayed, (entry.not_before, entry.unit.index, entry))

    def ripen(self, now: float) -> None:
        """Move the units whose instant has come."""
        delayed = self.delayed
        while delayed and (delayed[0][0] <= now or delayed[0][2].status is not Status.PENDING):
            entry = heappop(delayed)[2]
            if entry.status is not Status.PENDING:
                continue
            entry.due_at = NEVER
            if entry.suspect:
                heappush(self.suspects, (entry.alone_by, entry.unit.index, entry))
            else:
                self.push(entry)

    def hasten(self, until: float, codes: Container[str], now: float) -> None:
        """The lane was reopened: units that waited for this instant or longer, or because of these codes, wait no longer."""
        for place, (at, index, entry) in enumerate(self.delayed):
            if at > now and (at >= until or entry.why in codes):
                entry.not_before = now
                self.delayed[place] = (now, index, entry)
        heapify(self.delayed)

    def end_rotation(self, now: float) -> None:
        """The breaker has closed: units that let others probe first wait only for their own instant."""
        for place, (at, index, entry) in enumerate(self.delayed):
            if entry.due_at < at:
                entry.not_before = max(now, entry.due_at)
                self.delayed[place] = (entry.not_before, index, entry)
        heapify(self.delayed)

    def try_suspect(self, now: float, *, lane_idle: bool) -> None:
        """Let the next suspect start if its time has come, or if the lane has no other work."""
        if self._trial_goes_on():
            return
        if self.suspects[0][0] > now and not (lane_idle and self._only_suspects()):
            return
        entry = heappop(self.suspects)[2]
        if entry.status is Status.PENDING:
            self._on_trial = entry
            entry.not_before = now  # Until now it did not wait for the limits of the lane.
            self.push(entry)

    def ended(self, entry: Entry) -> None:
        """Its attempt has ended: the next suspect may start."""
        if entry is self._on_trial:
            self._on_trial = None

    def _trial_goes_on(self) -> bool:
        entry = self._on_trial
        return entry is not None and entry.status in (Status.PENDING, Status.RUNNING)

    def _only_suspects(self) -> bool:
        return self.head() is None and not any(item[2].status is Status.PENDING for item in self.delayed)

    def head(self) -> Entry | None:
        """The next unit to start; cancelled ones are dropped."""
        ready = self.ready
        while ready:
            entry = ready[0][3]
            if entry.status is Status.PENDING:
                return entry
            heappop(ready)
        return None

    def peek(self) -> Entry | None:
        """The next unit to start, without changing the queue."""
        alive = (item for item in self.ready if item[3].status is Status.PENDING)
        first = (
            next(alive, None)
            if self.ready and self.ready[0][3].status is Status.PENDING
            else min(alive, default=None)
        )
        return None if first is None else first[3]

    def pop(self) -> None:
        """Remove the head."""
        heappop(self.ready)

    def next_at(self) -> float:
        """When the first waiting unit is due."""
        delayed_at = self.delayed[0][0] if self.delayed else NEVER
        if not self.suspects or self._trial_goes_on():
            return delayed_at
        return min(delayed_at, self.suspects[0][0])

    def waiting(self) -> Iterator[Entry]:
        """The units that wait for an instant, or to run alone."""
        for item in (*self.delayed, *self.suspects):
            if item[2].status is Status.PENDING:
                yield item[2]

    def oldest_wait_s(self, now: float) -> float:
        """How long a unit has been ready to start: the one that waits the longest. 0: none is."""
        since = (
            max(entry.since, entry.ready_at, entry.not_before)
            for *_, entry in self.ready
            if entry.status is Status.PENDING
        )
        return max(0.0, now - min(since, default=now))

    def counts(self) -> tuple[int, int]:
        """How many may start, and how many wait."""
        ready = sum(item[3].status is Status.PENDING for item in self.ready)
        return ready, sum(1 for _ in self.waiting())

    def entries(self) -> Iterator[Entry]:
        """All pending units, in no order."""
        for item in self.ready:
            if item[3].status is Status.PENDING:
                yield item[3]
        yield from self.waiting()
