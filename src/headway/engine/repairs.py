"""Units whose answer came well and did not fit: what they send instead of their own request, until they end.

Whether an answer fits is for whoever made the adapter to say (`providers.adapter.Complaint`). Here is only what follows
from it for a run: the next request goes into the batch that has the attempt's record, so that a crash between the two
loses neither, and the unit that goes on is as much longer as what it sends.
"""

from __future__ import annotations

from msgspec import structs

from headway.core import events
from headway.core.lanes.lane import MOST_TOKENS
from headway.core.model import Price, Unit
from headway.core.unit_states import GOOD, Status
from headway.engine.source import StoreSource
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.batch import Batch
from headway.stores.records import Repair
from headway.stores.store import Store


class Repairs:
    """The open ones of a run, by unit."""

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}

    def restore(self, store: Store, job: int, source: StoreSource) -> None:
        """Units of earlier runs go on in their conversations."""
        for repair in store.open_repairs(job):
            assert repair.request is not None
            path, _ = store.request(job, repair.index)
            self.requests[repair.index] = Request(path, repair.request, repairs=1)
            source.longer[repair.index] = repair.more_chars

    def keep(self, batch: Batch, index: int, number: int, answer: Answer, *, goes_on: bool) -> None:
        """Record an answer that does not fit and, where the unit goes on, what it asks next."""
        complaint = answer.complaint
        assert complaint is not None
        again = complaint.again if goes_on else None
        body = None if again is None else again.body
        batch.repairs.append(Repair(index, number, answer.body, body, complaint.more_chars))
        if again is not None:
            self.requests[index] = again

    def ended(self, batch: Batch, index: int, status: Status) -> None:
        """A unit that ended without an answer starts over if it ever runs again."""
        if self.requests.pop(index, None) is not None and status not in GOOD:
            batch.repairs.append(Repair(index, 0))


def unfit(unit: Unit, answer: Answer, complaint: Complaint, price: Price | None) -> events.AnswerRejected:
    """What the scheduler is told, with the unit as it goes on: longer, and perhaps dearer."""
    again = None
    if complaint.again is not None:
        longer = max(0.0, len(complaint.again.body) - unit.input_most)
        more = min(longer, MOST_TOKENS * complaint.more_chars)
        more_usd = 0.0 if price is None else more * price.most_of_one(unit.input_most + more)[0]
        estimate = structs.replace(unit.estimate, cost_usd=unit.estimate.cost_usd + more_usd)
        again = structs.replace(
            unit,
            chars=unit.chars + complaint.more_chars,
            estimate=estimate,
            input_most=unit.input_most + more if unit.input_usd else 0.0,
        )
    return events.AnswerRejected(unit.index, answer.outcome, complaint.message, again)
