"""What goes on record of an attempt and of a lane, and how a lane is made out of it again.

The engine keeps a job's records, `api.ledger` those of calls; both use these words, so that whoever reads the store need
not know which of them wrote. Nothing here commits: everything goes into a `Batch`, or comes from a `Store`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headway.core.lanes.lane import Lane
from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_lane, rebuild_levels
from headway.core.model import DAY_S, MINUTE_S, Costs, Kind, Usage
from headway.core.retry import THROTTLES
from headway.core.snapshot import LaneView
from headway.core.unit_states import Status
from headway.stores import records
from headway.stores.batch import Batch
from headway.stores.records import Attempt, UnitChange
from headway.stores.store import Store

#: Intents are recorded ahead for what is due within this time.
AHEAD_S: Final = 0.25
#: How long a change that nobody waits for may wait for others to share its fsync.
LINGER_S: Final = 0.02
#: How often what lanes have learned is written down.
LEARN_S: Final = 5.0

#: In, out, and how many of those that went in were cached; None where nobody told.
Tokens = tuple[int | None, int | None, int | None]

_THROTTLED: Final = "throttled"
_OUTCOMES: Final[dict[Kind | None, str]] = {
    None: "succeeded",
    Kind.TIMEOUT: "timed_out",
    **dict.fromkeys(THROTTLES, _THROTTLED),
}
_SUCCEEDED: Final = str(Status.SUCCEEDED)
_UNTOLD: Final[Tokens] = (None, None, None)


# -- attempts -----------------------------------------------------------------------------------------------------


def outcome_of(kind: Kind | None) -> str:
    """How an attempt ended, in the word that the records have for it."""
    return _OUTCOMES.get(kind, "failed")


def tokens_of(usage: Usage | None) -> Tokens:
    """What an attempt says that it took."""
    if usage is None:
        return _UNTOLD
    return int(usage.input_tokens), int(usage.output_tokens), int(usage.cached_input_tokens)


def keep_attempt(batch: Batch, route: int, attempt: Attempt, change: UnitChange) -> None:
    """An attempt has ended: its record, what it came to, and where its unit stands now, in one batch.

    `change` says where that is; what the attempt adds to it is filled in here.
    """
    use = batch.use(route)
    use.attempts += 1
    use.lane = attempt.lane
    if attempt.outcome == _THROTTLED:
        use.refused += 1
    change.tries = 1
    change.lane = attempt.lane
    change.started_utc = attempt.started_utc
    change.cost_usd = attempt.cost_usd
    if attempt.input_tokens is not None:
        change.input_tokens, change.output_tokens = attempt.input_tokens, attempt.output_tokens
        change.cached_tokens = attempt.cached_tokens
        used = change.status == _SUCCEEDED
        use.told(attempt.input_tokens, attempt.output_tokens or 0, attempt.cost_usd, used=used)
    batch.attempts.append(attempt)
    batch.change(attempt.index, change)


# -- lanes --------------------------------------------------------------------------------------------------------


class Recalled:
    """A lane that knows again what it knew; the levels of its meters are still to come (`refill`)."""

    __slots__ = ("lane", "now", "recorded_at", "starts", "utc")

    def __init__(self, lane: Lane, known: bytes | None, now: float, utc: float) -> None:
        self.lane, self.now, self.utc = lane, now, utc
        self.recorded_at = float("inf")
        self.starts: list[tuple[float, Costs]] = []
        if known is not None:
            record = msgspec.json.decode(known, type=LaneRecord)
            # A clock that was set back since then cannot tell how long ago that was: no time has passed.
            self.utc = max(utc, record.recorded_utc)
            import_lane(lane, record, now, self.utc)
            self.recorded_at = now - (self.utc - record.recorded_utc)

    def started(self, utc: float | None, costs: Costs) -> None:
        """Something was sent then; None: nobody knows when, so just now."""
        at = self.now if utc is None else min(self.now, self.now - (self.utc - utc))
        self.starts.append((at, costs))


def refill(
    store: Store, lanes: dict[int, Recalled], utc: float, unknown: Iterable[records.Unknown] = ()
) -> None:
    """What is left in the buckets of lanes (by their number), from the starts on record and from what was perhaps sent."""
    longest_s = max((meter.period_s for each in lanes.values() for meter in each.lane.meters), default=0.0)
    for start in store.starts_since(utc - min(DAY_S, max(MINUTE_S, longest_s))):
        if start.lane in lanes:
            lanes[start.lane].started(start.at_utc, start.costs)
    for unit in unknown:
        if unit.lane is not None and unit.lane in lanes:
            tokens_in = unit.chars / 4.0
            costs = (1.0, tokens_in + max(0, unit.max_tokens), tokens_in, 0.0)
            lanes[unit.lane].started(unit.started_utc, costs)
    for each in lanes.values():
        rebuild_levels(each.lane, sorted(each.starts), each.recorded_at)


def lane_row(
    lane: Lane, known: bytes | None, view: LaneView, now: float, utc: float
) -> tuple[bytes, bytes, float]:
    """What a lane has learned, how it looks, and when that was. `known` is what was on record before."""
    record = known
    if record is None or lane.seq or lane.hold.until > now:
        # Where nothing was sent nothing was learned, and what is on record is better.
        record = msgspec.json.encode(export_lane(lane, now, utc))
    return record, msgspec.json.encode(_with_utc(view, utc - now)), utc


def _with_utc(view: LaneView, offset_s: float) -> LaneView:
    """A view whose instants mean something to another process."""
    if view.wait is None or view.wait.until is None:
        return view
    wait = msgspec.structs.replace(view.wait, until=view.wait.until + offset_s)
    return msgspec.structs.replace(view, wait=wait)


def due_soon(lane: Lane, now: float) -> int:
    """How many units of a lane may start within the time that intents are recorded ahead for: by its present pace, and
    one at least where it is open."""
    if lane.stopped or lane.hold.open_at > now + AHEAD_S:
        return 0
    if lane.wake_at > now + AHEAD_S and lane.in_flight < lane.window.size:
        return 0
    if lane.breaker.open:
        return 1  # A probe.
    return 1 + int(1.5 * lane.rate_at(now) * AHEAD_S)
