"""The plain records that a store takes and returns: jobs, routes, units, attempts, lanes, events.

A unit is identified by the number of its job and its index. Nothing here reads or writes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from headway.core.model import Costs
from headway.core.reasons import EndReason
from headway.core.unit_states import Status

#: The state of a job. From `complete` on, no process runs the job, and it can be resumed.
State = Literal[
    "ingesting", "ready", "running", "paused", "complete", "failed", "stopped", "parked", "deadline", "budget",
    "interrupted", "cancelled",
]  # fmt: skip

#: The states in which a process should be running the job.
LIVE: Final = frozenset({"running", "paused"})

#: The final states of a unit. A job has a counter for each.
COUNTED: Final = (
    Status.SUCCEEDED,
    Status.FAILED,
    Status.TIMED_OUT,
    Status.CACHED,
    Status.SKIPPED,
    Status.CANCELLED,
)


class StoredRoute(msgspec.Struct, frozen=True):
    """Where units are sent. `id` is the number of the route in the store.

    `label` is chosen by the kind of job: a job may have several routes with one provider and model.
    """

    provider: str
    kind: str
    model: str
    id: int = 0
    priorities: tuple[int, ...] = (0,)
    label: str = ""

    @property
    def name(self) -> str:
        """For people: the provider and its model. A lane of a Python program has no model."""
        return f"{self.provider}/{self.model}" if self.model else self.provider


class Family(msgspec.Struct, frozen=True):
    """Units of a route that ask the same thing with different contents (`batch.prompt_families`). `number` counts within the route.

    `firm`: the shape alone identifies the family. `rows` is the number of units. `open_input`: they have more input than their
    own text.
    """

    route: int
    number: int
    shape: int
    firm: bool
    rows: int
    words: tuple[int, ...] = ()
    open_input: bool = False


class Edge(msgspec.Struct, frozen=True, gc=False):
    """A unit waits for another unit of its job: `before` is the index or the id of that unit.

    `role` says what the unit uses that answer for; the kind of job defines it. A unit has at most one edge for each role.
    """

    role: str
    before: int | str


class NewUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit to add. `route` is the number that `add_route` returned.

    The request of a unit with edges is made later, by its kind of job, from this request and the answers that it waits for.
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
    #: Its key in the cache: its answer becomes an entry, if the run caches. Empty: it has none, or a lookup makes it. It has up to 16 bytes; a longer
    #: one is recorded, but makes no entry.
    key: bytes = b""
    #: The unit (its key in the store, `AnswerCache.find`) whose answer it has: it ends when it is added. Only while its job runs.
    source: int | None = None


class StoredAttachment(msgspec.Struct, frozen=True, gc=False):
    """A file that goes with requests. An image has `width` and `height`, a document has `pages`."""

    digest: str
    type: str
    width: int
    height: int
    pages: int
    size: int


#: A file, and how its content is read.
NewAttachment = tuple[StoredAttachment, Callable[[], bytes]]


class NewJob(msgspec.Struct, frozen=True):
    """A job before it has units."""

    name: str
    kind: str
    input: str
    digest: str
    out: str
    created_utc: float
    #: The schema of its answers and the columns of its table, as JSON values; later runs need them.
    form: dict[str, Any] = {}


class Job(msgspec.Struct, frozen=True):
    """A job with its committed counters."""

    id: int
    name: str
    kind: str
    state: State
    input: str
    digest: str
    models: dict[str, tuple[str, str, str]]
    settings: dict[str, Any]
    #: By route number: why the last run could not finish its units.
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
    #: The same as in `UsageTotals`.
    unpriced: int = 0
    repeated: int = 0
    repeated_usd: float = 0.0
    repeated_tokens: int = 0
    unsure: int = 0
    unsure_usd: float = 0.0

    @property
    def known_usd(self) -> float | None:
        """The known cost; None if no price is known."""
        return None if self.unpriced and not self.cost_usd else self.cost_usd

    @property
    def saved_tokens(self) -> int:
        """The tokens of units with an answer: they are not spent again."""
        return self.input_tokens + self.output_tokens - self.repeated_tokens

    @property
    def saved_usd(self) -> float:
        """The known cost of units with an answer."""
        return max(0.0, self.cost_usd - self.repeated_usd)

    @property
    def ended(self) -> int:
        """The number of units that have ended, with or without success."""
        return sum(self.counts.values())

    @property
    def has_failures(self) -> bool:
        """Whether any unit failed or timed out."""
        return self.counts["failed"] + self.counts["timed_out"] > 0

    @property
    def good(self) -> int:
        """The number of units with an answer."""
        return self.counts["succeeded"] + self.counts["cached"]


class PendingUnit(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A unit that waits to be run, as a cursor returns it."""

    index: int
    chars: int
    max_tokens: int
    priority: int
    route: int
    #: Attempts in earlier runs.
    attempts: int = 0
    family: int = 0
    #: The length of its request in bytes.
    size: int = 0


class StoredEdge(msgspec.Struct, frozen=True, gc=False):
    """An edge of the unit `index`, with the status of the unit that it waits for."""

    index: int
    role: str
    before: int
    status: str


#: The size of a waiting unit: its index, its characters, `max_tokens`, the number of its family.
UnitSize = tuple[int, int, int, int]


class UnknownOutcome(msgspec.Struct, frozen=True):
    """A unit that a process may have sent before it died: its outcome is unknown."""

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
    #: The most that it may cost, if its price is known.
    most_usd: float | None = None
    #: A unit of a program: its prompt says nothing about its cost.
    program: bool = False


class UnitResult(msgspec.Struct, frozen=True, gc=False):
    """The data of a unit's output row."""

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


class UnitEndRow(msgspec.Struct, frozen=True, gc=False):
    """How a unit ended, without its answer."""

    index: int
    custom_id: str
    status: str
    code: str | None
    message: str | None
    cost_usd: float | None


class Attempt(msgspec.Struct, gc=False):
    """One attempt at a unit, to be recorded."""

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
    #: If it is not the worker of the batch.
    worker: int | WorkerRecord | None = None
    #: When its unit may be tried again, if it has to wait.
    again_utc: float | None = None


class Repair(msgspec.Struct, frozen=True, gc=False):
    """A successful answer that did not fit its schema, and the next request: the whole conversation.

    Without a request, the unit starts over if it runs again. Without an answer, the record only closes earlier repairs.
    """

    index: int
    number: int
    answer: bytes | None = None
    request: bytes | None = None
    more_chars: int = 0


class WorkerRecord:
    """A worker process. The store gives it its number `id` with the first commit; until then that is 0. `index` is the unit that it
    runs, or ran last.
    """

    __slots__ = ("id", "index", "name", "pid", "started_utc")

    def __init__(self, name: str, pid: int, started_utc: float) -> None:
        self.name, self.pid, self.started_utc = name, pid, started_utc
        self.id = 0
        self.index: int | None = None


class WorkerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a worker process, to be recorded: `index` is the unit that it runs, or ran when it ended."""

    status: Literal["idle", "busy", "failed", "terminated"]
    ended_utc: float | None = None
    index: int | None = None


class TranscriptRow(msgspec.Struct, frozen=True, gc=False):
    """A line that the program of an attempt printed, to be recorded. `seq` counts within the attempt; `messages` is JSON."""

    index: int
    number: int
    seq: int
    at_utc: float
    line: bytes
    messages: bytes


class TranscriptLine(msgspec.Struct, frozen=True):
    """A recorded line, with the messages that it stands for. The line is empty if Headway added the row itself."""

    id: int
    attempt: int
    at_utc: float
    line: bytes
    messages: list[dict[str, Any]]


class StoredSession(msgspec.Struct, frozen=True):
    """The session of an attempt, and the directory in which it worked. `outcome` is "" if the attempt has not ended."""

    attempt: int
    session_id: str
    directory: str
    outcome: str
    #: Whether the agent said anything in an attempt at this unit.
    spoke: bool


class AttemptView(msgspec.Struct, frozen=True):
    """A recorded attempt, for display."""

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
    #: When the unit could be tried again, if it had to wait.
    again_utc: float | None = None


class PastAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt in the history of a job. `id` is its number in the store, `status` the present one of its unit; `is_last`: no later
    attempt at the unit is recorded.
    """

    id: int
    index: int
    custom_id: str
    number: int
    lane: str | None
    outcome: str
    kind: str | None
    message: str | None
    started_utc: float | None
    finished_utc: float | None
    cost_usd: float | None
    status: str
    is_last: bool
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: JSON: what was detected.
    rate_limit: str | None = None


class EndedUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit that ended, and not by the end of an attempt: without success, or with an answer from the cache."""

    index: int
    custom_id: str
    status: str
    code: str | None
    message: str | None
    finished_utc: float


class RunningAttempt(msgspec.Struct, frozen=True, gc=False):
    """An attempt that is in flight."""

    index: int
    custom_id: str
    number: int
    lane: str | None
    started_utc: float


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
    #: Added to the cost of the unit; None adds nothing. A unit to which nothing was added has no cost.
    cost_usd: float | None = None


class UsageTotals(msgspec.Struct, gc=False):
    """Totals of attempts. `cost_usd` is the known cost. `unpriced` attempts have usage but no price.

    `repeated` attempts were paid for and gave no answer. The cost of `unsure` attempts is unknown, because the answer did not
    arrive or has no usage; `unsure_usd` is the most that they may have cost.
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
    #: The lane of the last attempt.
    lane: int | None = None

    @property
    def known_usd(self) -> float | None:
        """The known cost; None if no price is known."""
        return None if self.unpriced and not self.cost_usd else self.cost_usd

    def add(self, more: UsageTotals) -> None:
        """Add other totals."""
        for name in USED:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.lane = self.lane if more.lane is None else more.lane

    def add_reported(self, tokens_in: int, tokens_out: int, cost_usd: float | None, *, used: bool) -> None:
        """Add an attempt that reports its usage. `used`: its answer became the answer of the unit."""
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
        """Add an attempt that does not report its usage. `most_usd` is the most that it may have cost; None without a price."""
        if most_usd is None:
            self.unpriced += 1
        else:
            self.unsure += 1
            self.unsure_usd += most_usd


#: The totals that a job also counts, over all routes.
USED: Final = tuple(name for name in UsageTotals.__struct_fields__ if name != "lane")


class JobEvent(msgspec.Struct, frozen=True):
    """An event of a job or one of its lanes, to be shown to people."""

    at_utc: float
    lane: str | None
    what: str
    text: str
    until_utc: float | None = None
    id: int = 0


class NodeEvent(msgspec.Struct, frozen=True, gc=False):
    """What happened to a node of a flow, to its run ("" for `node`) or to its state. `data` is a JSON object."""

    at_utc: float
    type: str
    node: str = ""
    unit: str = ""
    data: bytes = b"{}"
    id: int = 0


class NodeExecutions(msgspec.Struct, frozen=True, gc=False):
    """Executions of a node with the same type of last event: how many, and the unit and the data of the first of them."""

    node: str
    type: str
    count: int
    unit: str
    data: str


class LabelledUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit of a node."""

    index: int
    custom_id: str
    status: str
    attempts: int
    message: str
    cost_usd: float | None
    started_utc: float | None
    finished_utc: float | None


class RouteUnits(msgspec.Struct, frozen=True, gc=False):
    """Units of a route with the same status: how many, their first start and their last end."""

    route: int
    status: str
    count: int
    started_utc: float | None
    ended_utc: float | None


class RouteTimes(msgspec.Struct, frozen=True, gc=False):
    """When the first attempt at any unit of a route began and the last one ended, and how many attempts there were."""

    route: int
    started_utc: float | None
    ended_utc: float | None
    attempts: int
    throttled: int
    cost_usd: float


class StoredLane(msgspec.Struct, frozen=True):
    """A recorded lane. `record` is what it has learned, `view` its last state for display (both JSON)."""

    id: int
    key: str
    name: str
    record: bytes | None
    view: bytes | None
    updated_utc: float | None


class UsageSample(msgspec.Struct, frozen=True, gc=False):
    """The usage of one unit that succeeded. Predictions are made from these samples."""

    chars: int
    max_tokens: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    took_s: float
    #: The family: its route, and its number within the route.
    route: int = 0
    family: int = 0


class TurnTotals(msgspec.Struct, frozen=True):
    """What answers took together. The cost is 0 if it is not known."""

    input_tokens: float = 0.0
    output_tokens: float = 0.0
    took_s: float = 0.0
    cost_usd: float = 0.0

    def __add__(self, other: TurnTotals) -> TurnTotals:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return TurnTotals(*(one + another for one, another in pairs))


class ProgramRun(msgspec.Struct, frozen=True, gc=False):
    """A unit of a program that succeeded: the seconds of its attempts together, and its cost (None: not reported)."""

    took_s: float
    cost_usd: float | None


class LatencyFigures(msgspec.Struct, frozen=True):
    """How long the last attempts of units took, in seconds."""

    units: int
    mean_s: float
    median_s: float
    p95_s: float


class RecordedStart(msgspec.Struct, frozen=True, gc=False):
    """A recorded start, from which the level of a meter is restored."""

    lane: int
    at_utc: float
    costs: Costs


class StoredClaim(msgspec.Struct, frozen=True):
    """The claim of another claimant on a lane, as JSON. `name` is that of the job; "": a client of a Python program."""

    claimant: int
    lane: int
    name: str
    claim: bytes
    lane_name: str = ""
    #: Whether a Python program has given the lane its name. A lane of a provider has an address in its key.
    of_program: bool = False


class ControlRequest(msgspec.Struct, frozen=True):
    """A command from another terminal to a running job."""

    id: int
    what: str
    args: dict[str, Any]
