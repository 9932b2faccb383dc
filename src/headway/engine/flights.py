"""An attempt while it is out: who sends it, what it may cost, and what goes on record once it is over.

Nothing here sends, commits or decides. The engine makes a flight where the scheduler says `Start`, and asks for its record
where it says that the attempt has ended.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from headway.core.lanes.queue import Entry
from headway.core.model import Kind, Price
from headway.core.retry import unpaid
from headway.engine.plan import LanePlan
from headway.engine.recording import outcome_of, tokens_of
from headway.engine.source import roughly_the_most
from headway.providers.adapter import Answer, Request
from headway.stores import records
from headway.stores.batch import Batch
from headway.stores.records import Attempt


class Rate:
    """A route's number in the store, and the price of its tokens, which may become known later."""

    __slots__ = ("price", "route")

    def __init__(self, route: int, price: Price | None) -> None:
        self.route = route
        self.price = price


class Desk:
    """What the engine keeps for a lane: its plan, its number in the store, the intents recorded ahead."""

    __slots__ = ("ahead", "id", "key", "name", "orders", "record", "send")

    def __init__(self, key: str, plan: LanePlan, known: records.StoredLane) -> None:
        self.key = key
        self.id = known.id
        self.record = known.record
        self.name = plan.name
        self.send = plan.adapter.send
        #: Units whose intent is recorded ahead, with what each sends; None: that is being read.
        self.ahead: dict[int, Request | None] = {}
        #: The order of the lane's queue that they were chosen in (`Queue.orders`).
        self.orders = 0


class Flight:
    """One attempt while it is out."""

    __slots__ = (
        "alone",
        "answer",
        "charged",
        "estimate",
        "index",
        "lane",
        "number",
        "rate",
        "sent",
        "started_at",
        "task",
    )

    def __init__(self, index: int, number: int, lane: Desk, entry: Entry, rate: Rate) -> None:
        self.index = index
        self.number = number
        self.lane = lane
        self.charged = entry.charged
        self.estimate = entry.estimate
        self.rate = rate
        self.started_at = 0.0
        #: Whether it is to run in a process that has run no other unit.
        self.alone = False
        #: Whether anything of it may have left, where no answer tells.
        self.sent = False
        self.answer: Answer | None = None
        self.task: asyncio.Task[None] | None = None


# -- what it costs ------------------------------------------------------------------------------------------------


def priced(answer: Answer, price: Price) -> Answer:
    """The same answer with what it cost."""
    usage = answer.outcome.usage
    if usage is None:
        return answer
    usage = msgspec.structs.replace(usage, cost_usd=price.cost(usage))
    return msgspec.structs.replace(answer, outcome=msgspec.structs.replace(answer.outcome, usage=usage))


def _untold(flight: Flight, batch: Batch) -> float | None:
    """The cost of an attempt that does not say what it took: nothing where it was never sent or was refused."""
    price = flight.rate.price
    if not flight.sent if flight.answer is None else unpaid(flight.answer.outcome):
        return None if price is None else 0.0
    batch.use(flight.rate.route).untold(None if price is None else _most_usd(flight))
    return None


def _most_usd(flight: Flight) -> float:
    """What an attempt may have cost. One that was read before its price was known has no estimate of that."""
    price, estimate = flight.rate.price, flight.estimate
    return estimate.cost_usd or (0.0 if price is None else roughly_the_most(price, estimate))


# -- its record ---------------------------------------------------------------------------------------------------


def record_of(flight: Flight, batch: Batch) -> Attempt:
    """An attempt that has ended, for the record; `batch` hears of what it may have cost where it does not say."""
    answer, utc = flight.answer, time.time()
    if answer is None:
        how, kind, message = "cancelled", None, "called off by Headway"
    elif answer.complaint is not None:
        how, kind, message = "failed", str(Kind.INVALID), answer.complaint.message
    elif answer.outcome.kind is None:
        how, kind, message = "succeeded", None, None
    else:
        kind = str(answer.outcome.kind)
        how, message = outcome_of(answer.outcome.kind), answer.outcome.message
    limit = None if answer is None else answer.rate_limit
    usage = None if answer is None else answer.outcome.usage
    cost_usd = _untold(flight, batch) if usage is None else usage.cost_usd
    if usage is not None and usage.partial and usage.cost_usd is not None:
        batch.use(flight.rate.route).untold(max(0.0, _most_usd(flight) - usage.cost_usd))
    started_utc = utc - (time.monotonic() - flight.started_at)
    return Attempt(
        flight.index, flight.number, flight.lane.id, how, kind, message, answer.status if answer else None,
        (answer.request_id or None) if answer else None, started_utc, utc, *tokens_of(usage), cost_usd,
        flight.charged, None if limit is None else msgspec.json.encode(limit),
    )  # fmt: skip
