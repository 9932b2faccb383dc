"""What is to be committed together: the engine fills a batch, and a store records it, whole or not at all.

A batch belongs to one job, and to one thread until it is handed over. It has the changes, not the reasons for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headway.errors import JobTaken, StoreError
from headway.stores.records import USED, Attempt, JobEvent, NewUnit, Repair, State, UnitChange, UsageTotals

if TYPE_CHECKING:
    from headway.stores.store import Store

#: The units to add to a job now that these of its units (by index) have ended. Called inside the transaction that records their
#: ends, or later for all of them: a unit whose id the job has already is not added again.
Grow = Callable[["Store", Sequence[int]], Sequence[NewUnit]]


class WriteBatch:
    """Changes that are to be committed together. Later ones of a unit replace earlier ones."""

    __slots__ = (
        "added",
        "after_commit",
        "answers",
        "attempts",
        "caching",
        "claims",
        "counts",
        "done_commands",
        "events",
        "followed",
        "grow",
        "grown",
        "intents",
        "job",
        "lanes",
        "notes",
        "released",
        "rendered",
        "reopened",
        "repairs",
        "running",
        "state",
        "units",
        "uses",
        "worker",
        "workers",
    )  # fmt: skip

    def __init__(
        self, job: int, worker: int | None = None, *, caching: bool = False, grow: Grow | None = None
    ) -> None:
        self.job = job
        self.grow = grow
        #: (index, unit) of units that `grow` added; the store fills it in when it commits.
        self.grown: list[tuple[int, NewUnit]] = []
        #: The worker whose run it belongs to; it is committed only while the job belongs to that run. None: to no run.
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
        #: index → what the unit is run with now, None: as before. Applied before all else but `added`.
        self.reopened: dict[int, bytes | None] = {}
        self.units: list[tuple[int, UnitChange]] = []
        self.attempts: list[Attempt] = []
        #: (index, status code, request id, body)
        self.answers: list[tuple[int, int | None, str | None, bytes]] = []
        #: In order: a later one of a unit closes those before it.
        self.repairs: list[Repair] = []
        #: (index, body, characters of input): the request of a unit with edges, as it is sent.
        self.rendered: list[tuple[int, bytes, int]] = []
        #: (index, the attempt's number, JSON)
        self.notes: list[tuple[int, int, bytes]] = []
        self.counts: dict[str, float] = {}
        #: route → the totals of its attempts.
        self.uses: dict[int, UsageTotals] = {}
        self.events: list[JobEvent] = []
        #: lane → (record, view, when)
        self.lanes: dict[int, tuple[bytes, bytes, float]] = {}
        #: lane → (what the job wants of it, JSON; when)
        self.claims: dict[int, tuple[bytes, float]] = {}
        #: worker → (idle, busy, failed or terminated; when it ended)
        self.workers: dict[int, tuple[str, float | None]] = {}
        self.done_commands: list[tuple[int, float]] = []
        self.state: tuple[State, float | None] | None = None
        #: What the engine does once it is committed.
        self.after_commit: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(
            self.added or self.reopened or self.intents or self.running or self.released or self.units or self.attempts or self.answers or self.counts
            or self.uses or self.events or self.lanes or self.claims or self.workers or self.done_commands or self.state or self.repairs
            or self.rendered or self.after_commit
        )  # fmt: skip

    def intend(self, index: int, lane: int) -> None:
        """The unit is about to be sent."""
        self.intents[index] = lane

    def release(self, index: int) -> None:
        """It is not sent after all."""
        if self.intents.pop(index, None) is None:
            self.released.append(index)

    def reopen(self, index: int, request: bytes | None = None) -> None:
        """The unit runs again after an end other than success; the job no longer counts that end."""
        self.reopened[index] = request

    def use(self, route: int) -> UsageTotals:
        """The totals of a route, to add an attempt to."""
        found = self.uses.get(route)
        if found is None:
            found = self.uses[route] = UsageTotals()
        return found

    def totals(self) -> dict[str, float]:
        """What the batch adds to the job's counters."""
        totals = dict(self.counts)
        for use in self.uses.values():
            for name in USED:
                totals[name] = totals.get(name, 0) + getattr(use, name)
        return totals

    def count(self, what: str, amount: float = 1) -> None:
        """Add to one of the job's counters."""
        self.counts[what] = self.counts.get(what, 0) + amount

    def change(self, index: int, change: UnitChange) -> None:
        """The unit's state changes; this replaces the intent and the start of its present attempt."""
        self.running.pop(index, None)
        self.intents.pop(index, None)
        self.units.append((index, change))
        if change.finished_utc is not None:
            self.count(change.status)

    def follow(self, index: int, change: UnitChange) -> None:
        """A unit ended with the one that it follows."""
        self.followed.append(index)
        self.count(change.status)


def counters_contradicted(job: int) -> StoreError:
    """The error of a batch after which more units of a job would have ended than it has, or fewer than none."""
    return StoreError(
        f"a change to job {job} does not fit its counters, and was not recorded",
        hint="this is a bug in headway: please report it; what was committed is safe",
    )


def job_taken(job: str, host: str | None, pid: int | None) -> JobTaken:
    """The error of a run that lost its job to the process `pid` on `host`; no job: it was removed."""
    if not job:
        return JobTaken("another process has removed this job", hint="nothing more is sent from here")
    who = "another one" if pid is None else f"process {pid} on {host}"
    return JobTaken(
        f"another process has taken over this job: '{job}' is run by {who} now",
        hint=f"nothing more is sent from here; watch it with 'headway status {job}'",
    )
