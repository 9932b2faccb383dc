"""Units whose answer arrived and did not fit: the request that they send next instead of their own.

The adapter decides whether an answer fits (`providers.adapter.Complaint`). The next request goes into the same batch as the
record of the attempt, so that a crash loses neither or both. The unit's size grows with its request.
"""

from __future__ import annotations

from msgspec import structs

from headway.core import events
from headway.core.lanes.estimate import MOST_TOKENS
from headway.core.model import Price, Unit
from headway.core.unit_states import GOOD, Status
from headway.engine.units.unit_cursors import StoreSource
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.records import Repair
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch


class Repairs:
    """The open repairs of a run, by unit."""

    def __init__(self) -> None:
        self.requests: dict[int, Request] = {}

    def restore(self, store: Store, job: int, source: StoreSource) -> None:
        """Restore the open repairs of earlier runs: their units continue their conversations."""
        for repair in store.open_repairs(job):
            assert repair.request is not None
            path, _ = store.request(job, repair.index)
            self.requests[repair.index] = Request(path, repair.request, repairs=1)
            source.longer[repair.index] = repair.more_chars

    def keep(self, batch: WriteBatch, index: int, number: int, answer: Answer, *, goes_on: bool) -> None:
        """Record an answer that does not fit and, if the unit goes on, its next request."""
        complaint = answer.complaint
        assert complaint is not None
        again = complaint.again if goes_on else None
        body = None if again is None else again.body
        batch.repairs.append(Repair(index, number, answer.body, body, complaint.more_chars))
        if again is not None:
            self.requests[index] = again

    def ended(self, batch: WriteBatch, index: int, status: Status) -> None:
        """Forget the repair of a unit that has ended. If it failed, a later run starts over with its own request."""
        if self.requests.pop(index, None) is not None and status not in GOOD:
            batch.repairs.append(Repair(index, 0))


def unfit(unit: Unit, answer: Answer, complaint: Complaint, price: Price | None) -> events.AnswerRejected:
    """The event for the scheduler, with the unit as it goes on: larger, and perhaps more expensive."""
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
    return events.AnswerRejected(unit.index, answer.outcome, complaint.message, again, complaint.is_free)
