"""The contract of a store: what it records, and what may be asked of it.

Everything here is synchronous. A store object belongs to one thread; several may be open on the same records. The
engine reads through one and writes through another that a `Writer` owns, a `Batch` at a time: a batch is one
transaction, whole or not at all.

A unit is known by its job's number and its index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

import msgspec

from headway.core.model import Costs
from headway.core.status import Status

if TYPE_CHECKING:
    from headway.stores.cache import Cache

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


class Route(msgspec.Struct, frozen=True):
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


class NewUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit as it is taken in. `route` is the number that `add_route` gave."""

    custom_id: str
    route: int
    path: str
    body: bytes
    chars: int = 0
    max_tokens: int = 0
    priority: int = 0
    serial: bool = False
    metadata: bytes | None = None


class NewJob(msgspec.Struct, frozen=True):
    """A job before it has units."""

    name: str
    kind: str
    input: str
    digest: str
    out: str
    created_utc: float
    #: What its answers and its table have to look like, as JSON values; for whoever goes on with it.
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
    unfinished: dict[str, tuple[str, str]]
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
    #: As `Use` has them.
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


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A unit that waits to be run, as a cursor gives it."""

    index: int
    chars: int
    max_tokens: int
    priority: int
    route: int
    #: Tries in earlier runs.
    attempts: int = 0


class Unknown(msgspec.Struct, frozen=True):
    """A unit that a process which died may have sent: nobody knows how that ended."""

    index: int
    custom_id: str
    sent: bool
    lane: int | None
    started_utc: float | None
    chars: int
    max_tokens: int
    route: int = 0


class Result(msgspec.Struct, frozen=True, gc=False):
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
    #: None: nobody knows.
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


class Told(msgspec.Struct, frozen=True):
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


class Change(msgspec.Struct, gc=False):
    """Where a unit stands after something happened to it. `tries` is how many attempts that was (0 or 1)."""

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


class Use(msgspec.Struct, gc=False):
    """What attempts came to. `cost_usd` is as much as is known: `unpriced` attempts have usage and no price.

    `repeated` ones were paid for and gave no answer. Of `unsure` ones nobody knows what they cost: an answer that did not
    come, or does not say what it took; `unsure_usd` is the most that they may have.
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

    def add(self, more: Use) -> None:
        """Sum up."""
        for name in USED:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.lane = self.lane if more.lane is None else more.lane

    def told(self, tokens_in: int, tokens_out: int, cost_usd: float | None, *, used: bool) -> None:
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

    def untold(self, most_usd: float | None) -> None:
        """Of an attempt that does not say; `most_usd` is what it may have cost, None where there is no price."""
        if most_usd is None:
            self.unpriced += 1
        else:
            self.unsure += 1
            self.unsure_usd += most_usd


#: What a job sums up of all its routes.
USED: Final = tuple(name for name in Use.__struct_fields__ if name != "lane")


class Event(msgspec.Struct, frozen=True):
    """Something about a job or one of its lanes that a person may want to know."""

    at_utc: float
    lane: str | None
    what: str
    text: str
    until_utc: float | None = None
    id: int = 0


class Lane(msgspec.Struct, frozen=True):
    """What is known of a lane: `record` is what it learned, `view` how it looked last (both JSON)."""

    id: int
    key: str
    name: str
    record: bytes | None
    view: bytes | None
    updated_utc: float | None


class Lesson(msgspec.Struct, frozen=True, gc=False):
    """What one unit that succeeded took: for whoever wants to know what the next ones will take."""

    chars: int
    max_tokens: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    took_s: float


class Start(msgspec.Struct, frozen=True, gc=False):
    """A recorded start, to restore a meter's level from."""

    lane: int
    at_utc: float
    costs: Costs


class Asked(msgspec.Struct, frozen=True):
    """What another terminal wants of a running job."""

    id: int
    what: str
    args: dict[str, Any]


class Batch:
    """Changes that are to be committed together. Later ones of a unit replace earlier ones."""

    __slots__ = (
        "added", "answers", "attempts", "caching", "counts", "done_commands", "events", "followed", "intents", "job", "lanes",
        "notes", "released", "repairs", "running", "state", "units", "uses", "worker", "workers",
    )  # fmt: skip

    def __init__(self, job: int, worker: int | None = None, *, caching: bool = False) -> None:
        self.job = job
        self.worker = worker
        #: (index, unit) of units that come while the job runs; the first of them is the next index of the job.
        self.added: list[tuple[int, NewUnit]] = []
        #: Whether its answers go into the cache, and units that follow others end with them.
        self.caching = caching
        #: Those of them that did; the store fills it in when it commits.
        self.followed: list[int] = []
        #: index → lane: the intent to send.
        self.intents: dict[int, int] = {}
        #: index → when it was sent.
        self.running: dict[int, float] = {}
        self.released: list[int] = []
        self.units: list[tuple[int, Change]] = []
        self.attempts: list[Attempt] = []
        #: (index, status code, request id, body)
        self.answers: list[tuple[int, int | None, str | None, bytes]] = []
        #: In order: a later one of a unit closes those before it.
        self.repairs: list[Repair] = []
        #: (index, the attempt's number, JSON)
        self.notes: list[tuple[int, int, bytes]] = []
        self.counts: dict[str, float] = {}
        #: route → what its attempts came to.
        self.uses: dict[int, Use] = {}
        self.events: list[Event] = []
        #: lane → (record, view, when)
        self.lanes: dict[int, tuple[bytes, bytes, float]] = {}
        #: worker → (idle, busy, failed or terminated; when it ended)
        self.workers: dict[int, tuple[str, float | None]] = {}
        self.done_commands: list[tuple[int, float]] = []
        self.state: tuple[State, float | None] | None = None

    def __bool__(self) -> bool:
        return bool(
            self.added or self.intents or self.running or self.released or self.units or self.attempts or self.answers or self.counts
            or self.uses or self.events or self.lanes or self.workers or self.done_commands or self.state or self.repairs
        )  # fmt: skip

    def intend(self, index: int, lane: int) -> None:
        """The unit is about to be sent."""
        self.intents[index] = lane

    def release(self, index: int) -> None:
        """It is not sent after all."""
        if self.intents.pop(index, None) is None:
            self.released.append(index)

    def use(self, route: int) -> Use:
        """Where to add what an attempt came to."""
        found = self.uses.get(route)
        if found is None:
            found = self.uses[route] = Use()
        return found

    def totals(self) -> dict[str, float]:
        """What all of it adds to the job's counters."""
        totals = dict(self.counts)
        for use in self.uses.values():
            for name in USED:
                totals[name] = totals.get(name, 0) + getattr(use, name)
        return totals

    def count(self, what: str, amount: float = 1) -> None:
        """Add to one of the job's counters."""
        self.counts[what] = self.counts.get(what, 0) + amount

    def change(self, index: int, change: Change) -> None:
        """The unit stands elsewhere; whatever was said of its present attempt is settled by that."""
        self.running.pop(index, None)
        self.intents.pop(index, None)
        self.units.append((index, change))
        if change.finished_utc is not None:
            self.count(change.status)

    def follow(self, index: int, change: Change) -> None:
        """A unit ended with the one that it follows."""
        self.followed.append(index)
        self.count(change.status)


class Store(Protocol):
    """The records, as one thread sees them."""

    @property
    def cache(self) -> Cache:
        """Answers by what was asked."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None:
        """Let go of the records."""

    def salt(self) -> bytes:
        """A secret of this store: account hashes made with it tell nobody else anything."""

    # -- taking in -------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        """A job that takes in units; its number. A name that is taken is a StoreError."""

    def add_route(self, job: int, route: Route) -> int:
        """A place that units of the job are sent to; its number, which stays the same when it is added again."""

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        """Further units, the first of them with index `first`, in one transaction. DuplicateId names a repeated id."""

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """The job is complete and may run."""

    def forget(self, job: int) -> None:
        """Remove a job and everything of it."""

    # -- looking ----------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """All jobs, the newest first."""

    def job(self, name: str) -> Job | None:
        """One job by its name."""

    def routes(self, job: int) -> list[Route]:
        """Where the job's units are sent to."""

    def index_of(self, job: int, custom_id: str) -> int | None:
        """Which unit has this id."""

    def found(self, job: int, custom_ids: list[str]) -> list[Result]:
        """The units with these ids, as far as there are any, in no order."""

    def results(self, job: int, after: int, limit: int) -> list[Result]:
        """Units with an index above `after` (-1: from the first), by index."""

    def first_unended(self, job: int) -> int | None:
        """The lowest index whose unit has not come to an end."""

    def attempts(self, job: int, index: int) -> list[Told]:
        """Every try at a unit."""

    def request(self, job: int, index: int) -> tuple[str, bytes]:
        """What a unit sends: path and body."""

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        """(index, path, body) of several units, in no order."""

    def repairs_of(self, job: int, index: int) -> list[Repair]:
        """A unit's answers that did not fit, oldest first."""

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        """What a unit's attempts left behind, by their number."""

    def failures(self, job: int) -> list[tuple[str, int, int, str]]:
        """(code, how many, the first index, its message) of the units that did not succeed."""

    def per_lane(self, job: int) -> dict[str, dict[str, int]]:
        """Counts by status, for each provider/model."""

    def use_by_route(self, job: int) -> dict[int, Use]:
        """What the job's attempts came to, by the route's number."""

    def use_by_lane(self) -> dict[int, Use]:
        """What all jobs' attempts came to, by the number of the lane that their route went through last."""

    def failed(self, job: int) -> list[int]:
        """The indices of the units that failed or timed out."""

    def events(self, job: int, after: int = 0) -> list[Event]:
        """What was noted, oldest first."""

    def lanes(self) -> list[Lane]:
        """Every lane that any job ever used."""

    def lessons(self, provider: str, model: str, most: int) -> list[Lesson]:
        """What units of any job that went there took, those of the newest job first, up to `most`."""

    def workers(self, job: int) -> list[dict[str, Any]]:
        """Who has worked on the job."""

    # -- running ------------------------------------------------------------------------------------------

    def unknown(self, job: int) -> list[Unknown]:
        """Units whose outcome nobody knows, because a process died with them."""

    def begin(
        self, job: int, settings: dict[str, Any], out: str, utc: float, *, only_failed: bool = False
    ) -> int:
        """Make everything runnable that has not succeeded (or only what failed); returns the new worker's number."""

    def add_worker(self, job: int, name: str, utc: float) -> int:
        """One more that works on the job, idle for now; its number."""

    def open_repairs(self, job: int) -> list[Repair]:
        """What units that have not succeeded go on with instead of their own request."""

    def pending(self, job: int) -> dict[int, int]:
        """How many units wait, by route."""

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        """Waiting units of a route and priority with an index above `after`."""

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        """Waiting units by index, of any route: the serial ones, or all."""

    def lane(self, key: str, name: str) -> Lane:
        """The lane with this key, made if it is new."""

    def starts_since(self, utc: float) -> list[Start]:
        """What was sent since then, oldest first."""

    def commit(self, batch: Batch) -> None:
        """Record a batch, whole or not at all."""

    def end_run(
        self, job: int, worker: int, state: State, utc: float, unfinished: dict[str, tuple[str, str]]
    ) -> None:
        """Nobody works on the job any more; what was only intended is pending again.

        `unfinished` says for each route (by its number) why its units that are left could not finish.
        """

    # -- commands -------------------------------------------------------------------------------------------

    def ask(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        """Leave a command for whoever runs the job."""

    def asked(self, job: int) -> list[Asked]:
        """Commands that nobody has carried out yet."""


def chunks(rows: Iterable[NewUnit], size: int) -> Iterator[list[NewUnit]]:
    """Rows in lists of a size that makes a good transaction."""
    chunk: list[NewUnit] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
