"""What a store keeps, as plain records: jobs and routes, units as they come, wait and end, attempts, lanes, events.

They are what a store is given and what it returns. Nothing here reads or writes anything.

A unit is known by its job's number and its index.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from headway.core.model import Costs
from headway.core.reasons import EndReason
from headway.core.unit_states import Status

#: How a job stands. Everything from `complete` on is at rest and can be resumed.
State = Literal[
    "ingesting", "ready", "running", "paused", "complete", "failed", "stopped", "parked", "deadline", "budget",
    "interrupted", "cancelled",
]  # fmt: skip

#: The states in which some process should be working on the job.
LIVE: Final = frozenset({"running", "paused"})

#: The ends of a unit, as a job counts them.
COUNTED: Final = (
    Status.SUCCEEDED,
    Status.FAILED,
    Status.TIMED_OUT,
    Status.CACHED,
    Status.SKIPPED,
    Status.CANCELLED,
)


class StoredRoute(msgspec.Struct, frozen=True):
    """Where a unit is to be sent; `id` is the store's."""

    provider: str
    kind: str
    model: str
    id: int = 0
    priorities: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        """For people: the provider and its model. A lane of a Python program has none."""
        return f"{self.provider}/{self.model}" if self.model else self.provider


class Family(msgspec.Struct, frozen=True):
    """Units of a route that ask the same thing with other contents (`batch.prompt_families`); `number` is theirs within the route.

    `firm`: the shape alone tells them. `rows` is how many there are. `open_input`: more goes in than their own text.
    """

    route: int
    number: int
    shape: int
    firm: bool
    rows: int
    words: tuple[int, ...] = ()
    open_input: bool = False


class Edge(msgspec.Struct, frozen=True, gc=False):
    """A unit waits for another one of its job: `before` is the index of that unit, or its id.

    `role` says what the unit takes from that answer; the kind of job gives it a meaning. A unit has one edge for each role.
    """

    role: str
    before: int | str


class NewUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit as it is taken in. `route` is the number that `add_route` gave.

    A unit with edges is sent later: its kind of job makes its request from this one and from the answers that it waits for.
    """

    custom_id: str
    route: int
    path: str
    body: bytes
    chars: int = 0
    max_tokens: int = 0
    priority: int = 0
    serial: bool = False
    metadata: bytes | None = None
    #: The number of its family within the route; 0: none.
    family: int = 0
    after: tuple[Edge, ...] = ()


class NewJob(msgspec.Struct, frozen=True):
    """A job before it has units."""

    name: str
    kind: str
    input: str
    digest: str
    out: str
    created_utc: float
    #: The form of its answers and its table, as JSON values; a later run needs it.
    form: dict[str, Any] = {}


class Job(msgspec.Struct, frozen=True):
    """A job with its counters, as committed."""

    id: int
    name: str
    kind: str
    state: State
    input: str
    digest: str
    models: dict[str, tuple[str, str, str]]
    settings: dict[str, Any]
    #: By route number: why its units that the last run left could not finish.
    unfinished: dict[str, EndReason]
    out: str
    total: int
    serial: int
    counts: dict[str, int]
    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    created_utc: float
    started_utc: float | None = None
    finished_utc: float | None = None
    form: dict[str, Any] = {}
    #: As `UsageTotals` has them.
    unpriced: int = 0
    repeated: int = 0
    repeated_usd: float = 0.0
    repeated_tokens: int = 0
    unsure: int = 0
    unsure_usd: float = 0.0

    @property
    def known_usd(self) -> float | None:
        """What is known to have been spent; None where no price is."""
        return None if self.unpriced and not self.cost_usd else self.cost_usd

    @property
    def saved_tokens(self) -> int:
        """What the units that have their answer took: it is not spent again."""
        return self.input_tokens + self.output_tokens - self.repeated_tokens

    @property
    def saved_usd(self) -> float:
        """The same in money, as far as that is known."""
        return max(0.0, self.cost_usd - self.repeated_usd)

    @property
    def ended(self) -> int:
        """Units that have come to an end, good or bad."""
        return sum(self.counts.values())

    @property
    def good(self) -> int:
        """Units that have their answer."""
        return self.counts["succeeded"] + self.counts["cached"]


class PendingUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit that waits to be run, as a cursor gives it."""

    index: int
    chars: int
    max_tokens: int
    priority: int
    route: int
    #: Tries in earlier runs.
    attempts: int = 0
    family: int = 0
    #: The bytes of its request.
    size: int = 0


class StoredEdge(msgspec.Struct, frozen=True, gc=False):
    """An edge of the unit `index`, and the status of the unit that it waits for."""

    index: int
    role: str
    before: int
    status: str


#: What is known of a waiting unit's length: its index, its characters, `max_tokens`, the number of its family.
UnitSize = tuple[int, int, int, int]


class UnknownOutcome(msgspec.Struct, frozen=True):
    """A unit that a dead process may have sent; its outcome is not known."""

    index: int
    custom_id: str
    sent: bool
    lane: int | None
    started_utc: float | None
    chars: int
    max_tokens: int
    route: int = 0
    family: int = 0
    size: int = 0
    #: What it may cost at the most, where its price is known.
    most_usd: float | None = None


class UnitResult(msgspec.Struct, frozen=True, gc=False):
    """Everything about a unit that its output row shows."""

    index: int
    custom_id: str
    status: str
    lane: str | None
    attempts: int
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    started_utc: float | None
    finished_utc: float | None
    code: str | None
    message: str | None
    metadata: bytes | None
    status_code: int | None
    request_id: str | None
    body: bytes | None
    provider: str
    model: str


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One try at a unit, for the record."""

    index: int
    number: int
    lane: int
    outcome: str
    kind: str | None = None
    message: str | None = None
    status_code: int | None = None
    request_id: str | None = None
    started_utc: float | None = None
    finished_utc: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    #: None: not known.
    cost_usd: float | None = 0.0
    charged: Costs = (1.0, 0.0, 0.0, 0.0)
    rate_limit: bytes | None = None
    #: Where it is not the batch's.
    worker: int | None = None


class Repair(msgspec.Struct, frozen=True, gc=False):
    """An answer that came well and did not fit, and what is asked next: the whole conversation.

    Without a request the unit starts over if it ever runs again; without an answer only that is said.
    """

    index: int
    number: int
    answer: bytes | None = None
    request: bytes | None = None
    more_chars: int = 0


class AttemptView(msgspec.Struct, frozen=True):
    """An attempt as it is shown."""

    number: int
    worker: int | None
    lane: str | None
    outcome: str
    kind: str | None
    message: str | None
    status_code: int | None
    request_id: str | None
    started_utc: float | None
    finished_utc: float | None
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_usd: float | None
    rate_limit: dict[str, Any] | None


class UnitChange(msgspec.Struct, gc=False):
    """A change of a unit's state. `tries` is how many attempts it counts (0 or 1)."""

    status: str
    tries: int = 0
    lane: int | None = None
    code: str | None = None
    message: str | None = None
    not_before_utc: float | None = None
    started_utc: float | None = None
    finished_utc: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    #: What this adds to the unit's cost; None adds nothing, and a unit that nothing was ever added to has none.
    cost_usd: float | None = None


class UsageTotals(msgspec.Struct, gc=False):
    """Totals of attempts. `cost_usd` is the known cost: `unpriced` attempts have usage and no price.

    `repeated` ones were paid for and gave no answer. The cost of `unsure` ones is not known: the answer did not come, or does not
    say what it used; `unsure_usd` is the most that they may have cost.
    """

    attempts: int = 0
    refused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    repeated: int = 0
    repeated_usd: float = 0.0
    repeated_tokens: int = 0
    unsure: int = 0
    unsure_usd: float = 0.0
    #: Where it went last.
    lane: int | None = None

    @property
    def known_usd(self) -> float | None:
        """What is known to have been spent; None where no price is."""
        return None if self.unpriced and not self.cost_usd else self.cost_usd

    def add(self, more: UsageTotals) -> None:
        """Sum up."""
        for name in USED:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.lane = self.lane if more.lane is None else more.lane

    def add_reported(self, tokens_in: int, tokens_out: int, cost_usd: float | None, *, used: bool) -> None:
        """Of an attempt that says what it took. `used`: its answer is the unit's."""
        self.input_tokens += tokens_in
        self.output_tokens += tokens_out
        if cost_usd is None:
            self.unpriced += 1
        else:
            self.cost_usd += cost_usd
        if not used:
            self.repeated += 1
            self.repeated_usd += cost_usd or 0.0
            self.repeated_tokens += tokens_in + tokens_out

    def add_unreported(self, most_usd: float | None) -> None:
        """Of an attempt that does not say; `most_usd` is what it may have cost, None where there is no price."""
        if most_usd is None:
            self.unpriced += 1
        else:
            self.unsure += 1
            self.unsure_usd += most_usd


#: What a job sums up of all its routes.
USED: Final = tuple(name for name in UsageTotals.__struct_fields__ if name != "lane")


class JobEvent(msgspec.Struct, frozen=True):
    """Something about a job or one of its lanes that a person may want to know."""

    at_utc: float
    lane: str | None
    what: str
    text: str
    until_utc: float | None = None
    id: int = 0


class StoredLane(msgspec.Struct, frozen=True):
    """What is known of a lane: `record` is what it learned, `view` how it looked last (both JSON)."""

    id: int
    key: str
    name: str
    record: bytes | None
    view: bytes | None
    updated_utc: float | None


class UsageSample(msgspec.Struct, frozen=True, gc=False):
    """What one unit that succeeded took. Predictions are made from these."""

    chars: int
    max_tokens: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    took_s: float
    #: Of its family: the route and the number within it.
    route: int = 0
    family: int = 0


class RecordedStart(msgspec.Struct, frozen=True, gc=False):
    """A recorded start, to restore a meter's level from."""

    lane: int
    at_utc: float
    costs: Costs


class StoredClaim(msgspec.Struct, frozen=True):
    """What another job that runs now wants of a lane: JSON."""

    lane: int
    name: str
    claim: bytes


class ControlRequest(msgspec.Struct, frozen=True):
    """What another terminal wants of a running job."""

    id: int
    what: str
    args: dict[str, Any]
