"""Attempts in flight, and the lanes of a run as its records know them. The engine, Python calls and the recorder share both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.lane import LaneState
from headway.core.model import Costs, Estimate, Outcome, Usage
from headway.providers.adapter import Answer, RateLimit
from headway.stores.records import StoredLane, WorkerRecord

if TYPE_CHECKING:
    from headway.engine.recording.attempt_log import FlightLog

NO_COSTS: Final[Costs] = (0.0, 0.0, 0.0, 0.0)
NO_ESTIMATE: Final = Estimate()


class LaneHandle:
    """A lane of a run: its number in the store, what the store knew of it before, and its intents recorded ahead."""

    __slots__ = ("ahead", "id", "key", "lane", "name", "orders", "record", "wanted_ahead")

    def __init__(self, key: str, name: str, stored: StoredLane) -> None:
        self.key = key
        self.name = name
        self.id = stored.id
        self.record = stored.record
        #: The scheduler's lane, once it is open.
        self.lane: LaneState | None = None
        #: Units whose intent is recorded, or on its way to the disk, and that have not started; and how many there should be.
        self.ahead: set[int] = set()
        self.wanted_ahead = 0
        #: The order of the lane's queue in which they were chosen (`Queue.orders`).
        self.orders = 0


class Flight(msgspec.Struct, eq=False):
    """One attempt while it is out, and what it left when it ended: `SubmittedCall` of a program, `RequestFlight` of a job."""

    #: The unit's index in the scheduler, and the key of its lane.
    index: int
    lane: str
    #: The number of this attempt; 0 before the first.
    attempts: int = 0
    #: Whether it needs a worker process that has run no other unit.
    alone: bool = False
    #: When it began (time.monotonic), and what the meters of its lane reserved for it.
    started_at: float = 0.0
    charged: Costs = NO_COSTS
    task: asyncio.Task[None] | None = None
    #: Its outcome and its reported usage; None while it runs, and if it was cancelled.
    outcome: Outcome | None = None
    usage: Usage | None = None
    #: The rate limit that it met, where more is known than the outcome says.
    rate_limit: RateLimit | None = None
    #: Further details for the records, as `executors.attempt_details` writes them.
    details: bytes = b""
    #: The worker process that runs it, or ran it.
    worker: WorkerRecord | None = None
    #: The provider's answer, of a job's request.
    answer: Answer | None = None


class RequestFlight(Flight, eq=False):
    """One attempt at a request of a job."""

    #: The number of its route in the store.
    route: int = 0
    estimate: Estimate = NO_ESTIMATE
    #: Whether it could not be sent at once: its intent was not durable, or its request not read.
    delayed: bool = False
    #: Whether any byte of the request may have been sent, where no answer says so.
    sent: bool = False
    #: Records it while it runs, if its adapter takes a log.
    log: FlightLog | None = None
