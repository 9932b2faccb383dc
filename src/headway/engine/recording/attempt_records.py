"""What goes on record for an attempt, the same for a job's requests and for Python calls.

Nothing here commits: everything goes into a `WriteBatch`.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from headway.core.model import Kind, Outcome, Usage
from headway.core.retry import THROTTLES
from headway.core.unit_states import Status
from headway.engine.flights import Flight, LaneHandle
from headway.stores.records import Attempt, UnitChange
from headway.stores.write_batch import WriteBatch

#: Input, output and cached input tokens; None where the attempt did not report them.
Tokens = tuple[int | None, int | None, int | None]

_THROTTLED: Final = "throttled"
_OUTCOMES: Final[dict[Kind | None, str]] = {
    None: "succeeded",
    Kind.TIMEOUT: "timed_out",
    **dict.fromkeys(THROTTLES, _THROTTLED),
}
_SUCCEEDED: Final = str(Status.SUCCEEDED)
_PENDING: Final = str(Status.PENDING)
_UNREPORTED: Final[Tokens] = (None, None, None)


def attempt_record(
    flight: Flight,
    index: int,
    number: int,
    lane: LaneHandle,
    cost_usd: float | None,
    worker: int | None = None,
) -> Attempt:
    """An attempt that has ended. `index` is the unit's in the store, `number` counts its attempts over all runs."""
    outcome, limit, answer, utc = flight.outcome, flight.rate_limit, flight.answer, time.time()
    kind = message = None
    if outcome is None:
        how, message = "cancelled", "cancelled"
    else:
        how = _OUTCOMES.get(outcome.kind, "failed")
        if outcome.kind is not None:
            kind, message = str(outcome.kind), outcome.message
    started_utc = utc - (time.monotonic() - flight.started_at)
    return Attempt(
        index, number, lane.id, how, kind, message, answer.status if answer else None,
        (answer.request_id or None) if answer else None, started_utc, utc, *_tokens_of(flight.usage), cost_usd,
        flight.charged, None if limit is None else msgspec.json.encode(limit), worker or flight.worker,
    )  # fmt: skip


def uncounted(outcome: Outcome | None, change: UnitChange) -> bool:
    """Whether an attempt does not count, because this process could not send it: no record is made of it."""
    unsent = outcome is not None and outcome.exhausted and not outcome.sent
    return unsent and change.status == _PENDING and change.code is None


def _tokens_of(usage: Usage | None) -> Tokens:
    if usage is None:
        return _UNREPORTED
    return int(usage.input_tokens), int(usage.output_tokens), int(usage.cached_input_tokens)


def add_attempt(batch: WriteBatch, route: int, attempt: Attempt, change: UnitChange) -> None:
    """Put an attempt into the batch, with its unit's new state and the totals of its route.

    `change` has the new state; what the attempt adds to it is filled in here.
    """
    use = batch.use(route)
    use.attempts += 1
    use.lane = attempt.lane
    if attempt.outcome == _THROTTLED:
        use.refused += 1
    if change.not_before_utc is not None:
        attempt.again_utc = change.not_before_utc
    change.tries = 1
    change.lane = attempt.lane
    change.started_utc = attempt.started_utc
    change.cost_usd = attempt.cost_usd
    if attempt.input_tokens is not None:
        change.input_tokens, change.output_tokens = attempt.input_tokens, attempt.output_tokens
        change.cached_tokens = attempt.cached_tokens
        used = change.status == _SUCCEEDED
        use.add_reported(attempt.input_tokens, attempt.output_tokens or 0, attempt.cost_usd, used=used)
    batch.attempts.append(attempt)
    batch.change(attempt.index, change)
