"""The contract of a store's cache: answers by what was asked, across jobs.

A unit's key says which requests are the same; who makes it decides what that means. Bodies are not copied: an entry
points to the answer of the unit that asked first, and so does every unit that was answered from it, whatever becomes
of the entry or of that unit's job.

Within a job the first of several units that ask the same leads and the others follow: no cursor gives them, and they
end in the transaction in which their leader does.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from headway.core.status import Status
from headway.stores.records import Change, Pending


class Keyed(msgspec.Struct, frozen=True):
    """How far a job's keys are made, for what, and how many units have one."""

    basis: str = ""
    upto: int = -1
    able: int = 0


class Unkeyed(msgspec.Struct, frozen=True, gc=False):
    """A unit's request, to make its key from."""

    index: int
    route: int
    path: str
    body: bytes


class Saved(msgspec.Struct, frozen=True):
    """What was not spent: units that were answered without a call, and what the calls would have taken."""

    units: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: As far as prices were known when the calls were made.
    cost_usd: float = 0.0


class Source(msgspec.Struct, frozen=True):
    """The unit whose answer another one has. `job` and `custom_id` are None once that job is gone."""

    job: str | None
    index: int
    custom_id: str | None


class Shelf(msgspec.Struct, frozen=True):
    """What the cache has of one model."""

    provider: str
    model: str
    entries: int
    bytes: int
    oldest_utc: float
    newest_utc: float


class Cache(Protocol):
    """The cache of a store, as one thread sees it."""

    # -- before a run -----------------------------------------------------------------------------------

    def keyed(self, job: int) -> Keyed:
        """How far the job's keys are made."""

    def rekey(self, job: int, basis: str) -> None:
        """Forget the job's keys: they are made anew, on this basis."""

    def unkeyed(self, job: int, after: int, limit: int) -> list[Unkeyed]:
        """Units without an answer and with an index above `after`, by index."""

    def add_keys(self, job: int, keys: list[tuple[int, bytes]], upto: int) -> None:
        """Further units' keys; all units up to an index have been looked at."""

    def serve(
        self, job: int, after: int, limit: int, utc: float, only: frozenset[int] | None = None
    ) -> list[int]:
        """Answer up to `limit` waiting units above `after` (of `only` those) from the cache; their indices."""

    def adopt(self, job: int, elder: int, after: int, limit: int, utc: float) -> list[int]:
        """Give up to `limit` waiting units above `after` the answers that another job has at their place, where it asked
        exactly the same under the same id; their indices. No key is needed, and no entry is made.
        """

    def group(self, job: int, only: frozenset[int] | None = None) -> int:
        """Let waiting units that ask the same as another follow that one; how many do. Earlier groups are forgotten."""

    # -- cursors that leave followers out ---------------------------------------------------------------

    def pending(self, job: int) -> dict[int, int]:
        """As the store's own, and so are the next two."""

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]: ...

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]: ...

    # -- looking ------------------------------------------------------------------------------------------

    def saved(self, job: int | None = None) -> Saved:
        """What the cache saved a job, or all of them."""

    def source(self, job: int, index: int) -> Source | None:
        """Whose answer a unit has, where it is not its own."""

    def shelves(self, before_utc: float | None = None, model: str | None = None) -> list[Shelf]:
        """What there is, by model; only entries older than an instant, or only of a model (or PROVIDER/MODEL)."""

    def clear(self, before_utc: float | None = None, model: str | None = None) -> int:
        """Remove those entries; how many. Units keep the answers that they have."""


def fate(leader: int, change: Change) -> Change | None:
    """What the end of a unit is for one that follows it: the same answer, or the same failure.

    A unit that somebody did not want any more says nothing about the others: None, they stay pending for the next run.
    """
    if change.status == Status.SUCCEEDED:
        return msgspec.structs.replace(
            change, status=Status.CACHED, tries=0, lane=None, started_utc=None, cost_usd=0.0
        )
    if change.status not in (Status.FAILED, Status.TIMED_OUT):
        return None
    message = f"unit {leader} asked the same: {change.message or change.code}"
    return Change(change.status, code=change.code, message=message, finished_utc=change.finished_utc)
