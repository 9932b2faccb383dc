"""Attempts in flight, and the lanes of a run as its records know them. The engine, Python calls and the recorder share both."""

from __future__ import annotations

import asyncio
from typing import Final

from headway.core.lanes.lane import Lane
from headway.core.model import Costs, Estimate, Outcome, Usage
from headway.providers.adapter import Answer, RateLimit
from headway.stores.records import StoredLane

NO_COSTS: Final[Costs] = (0.0, 0.0, 0.0, 0.0)


class LaneHandle:
    """A lane of a run: its number in the store, what the store knew of it before, and its intents recorded ahead."""

    __slots__ = ("ahead", "id", "key", "lane", "name", "orders", "record", "wanted_ahead")

    def __init__(self, key: str, name: str, stored: StoredLane) -> None:
        self.key = key
        self.name = name
        self.id = stored.id
        self.record = stored.record
        #: The scheduler's lane, once it is open.
        self.lane: Lane | None = None
        #: Units whose intent is recorded, or on its way to the disk, and that have not started; and how many there should be.
        self.ahead: set[int] = set()
        self.wanted_ahead = 0
        #: The order of the lane's queue in which they were chosen (`Queue.orders`).
        self.orders = 0


class Flight:
    """One attempt while it is out, and what it left when it ended: `SubmittedCall` of a program, `RequestFlight` of a job."""

    __slots__ = (
        "alone", "attempts", "charged", "details", "index", "lane", "outcome", "rate_limit", "started_at", "task", "usage",
    )  # fmt: skip

    #: The provider's answer, of a job's request.
    answer: Answer | None = None

    def __init__(self, index: int, lane: str) -> None:
        #: The unit's index in the scheduler, and the key of its lane.
        self.index = index
        self.lane = lane
        #: The number of this attempt; 0 before the first.
        self.attempts = 0
        #: Whether it needs a worker process that has run no other unit.
        self.alone = False
        #: When it began (time.monotonic), and what the meters of its lane reserved for it.
        self.started_at = 0.0
        self.charged: Costs = NO_COSTS
        self.task: asyncio.Task[None] | None = None
        #: Its outcome and its reported usage; None while it runs, and if it was cancelled.
        self.outcome: Outcome | None = None
        self.usage: Usage | None = None
        #: The rate limit that it met, where more is known than the outcome says.
        self.rate_limit: RateLimit | None = None
        #: Further details for the records, as `executors.attempt_details` writes them.
        self.details = b""


class RequestFlight(Flight):
    """One attempt at a request of a job."""

    __slots__ = ("answer", "estimate", "route", "sent")

    def __init__(self, index: int, lane: str, route: int, estimate: Estimate) -> None:
        super().__init__(index, lane)
        self.answer: Answer | None = None
        #: The number of its route in the store.
        self.route = route
        self.estimate = estimate
        #: Whether any byte of the request may have been sent, where no answer says so.
        self.sent = False
