"""The contract of a store: what may be asked of it. What it records is in `records`, and what it commits in `batch`.

Everything here is synchronous. A store object belongs to one thread; several may be open on the same records. The
engine reads through one and writes through another that a `Writer` owns, a `Batch` at a time: a batch is one
transaction, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from headway.stores.batch import Batch
from headway.stores.cache import Cache
from headway.stores.records import (
    Asked,
    Claimed,
    Event,
    Family,
    Job,
    Lane,
    Lesson,
    NewJob,
    NewUnit,
    Pending,
    Repair,
    Result,
    Route,
    Start,
    State,
    Told,
    Unknown,
    Use,
)


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

    def find_or_add(self, job: NewJob, is_same: Callable[[Job], bool]) -> tuple[Job, bool]:
        """The newest job that `is_same` accepts, or `job` as a new one; and whether it is new.

        One transaction: if several processes call this at once, one adds the job and the others find it. A database
        without a single writer has to serialize the calls, for example with an advisory lock. `is_same` is asked about
        every job, also about those that still take in units. A new job gets `job.name`, or the first of NAME-2, NAME-3 …
        that is free.
        """

    def add_route(self, job: int, route: Route) -> int:
        """A place that units of the job are sent to; its number, which stays the same when it is added again."""

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        """Further units, the first of them with index `first`, in one transaction. DuplicateId names a repeated id."""

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        """The families of the job's units."""

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

    def families(self, provider: str, model: str) -> list[tuple[int, Family]]:
        """The families of units that went there, each with its job's number, the newest job's first."""

    def lessons(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[Lesson]:
        """What units of any job that went there took, those of the newest job first, up to `most`; or only those of
        some of the routes there.
        """

    def workers(self, job: int) -> list[dict[str, Any]]:
        """Who has worked on the job."""

    # -- running ------------------------------------------------------------------------------------------

    def unknown(self, job: int) -> list[Unknown]:
        """Units whose outcome nobody knows, because a process died with them."""

    def begin(
        self, job: int, settings: dict[str, Any], out: str, utc: float, *, only_failed: bool = False
    ) -> int:
        """Make everything runnable that has not succeeded (or only what failed); returns the new worker's number.

        From here on the job is this worker's run. An earlier run that still goes on can record nothing more.
        """

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

    def keep_lane(self, lane: int, record: bytes, view: bytes, utc: float) -> None:
        """Replace what is on record of a lane that no run uses."""

    def starts_since(self, utc: float) -> list[Start]:
        """What was sent since then, oldest first."""

    def commit(self, batch: Batch) -> None:
        """Record a batch, whole or not at all. JobTaken: another run of the job has begun since `batch.worker` began its own."""

    def end_run(
        self, job: int, worker: int, state: State, utc: float, unfinished: dict[str, tuple[str, str]]
    ) -> None:
        """Nobody works on the job any more; what was only intended is pending again.

        `unfinished` says for each route (by its number) why its units that are left could not finish. JobTaken as in `commit`.
        """

    def claims(self, job: int, since_utc: float, until_utc: float) -> list[Claimed]:
        """What other jobs said within that time that they want of lanes."""

    # -- commands -------------------------------------------------------------------------------------------

    def ask(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        """Leave a command for whoever runs the job."""

    def asked(self, job: int) -> list[Asked]:
        """Commands that nobody has carried out yet."""


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The wanted name, or the first of NAME-2, NAME-3 … that is not taken."""
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


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
