"""Changes that are committed together. The engine fills a write batch, and a store records all of it or nothing.

A batch belongs to one job, and to one thread until it is handed over. It has the changes, not the reasons for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headway.errors import JobTaken, StoreError
from headway.stores.records import (
    USED,
    Attempt,
    JobEvent,
    NewUnit,
    Repair,
    State,
    TranscriptRow,
    UnitChange,
    UsageTotals,
    WorkerRecord,
    WorkerState,
)
from headway.stores.samples import RunSample

if TYPE_CHECKING:
    from headway.stores.store import Store

#: The units to add to a job now that these of its units (by index) have ended, with or without success. Called inside the
#: transaction that records their ends, or later for all of them. Also called with no units: at the beginning of a run, before its end, and
#: if another terminal asks for it. A unit whose id exists in the job is not added again; it is among the `known` units.
Grow = Callable[["Store", Sequence[int]], Sequence[NewUnit]]


class GrownUnits(NamedTuple):
    """The units that growth has returned: those that were added, with their indexes, and the indexes of those that the job had already."""

    added: list[tuple[int, NewUnit]]
    known: list[int]


class BatchMark(NamedTuple):
    """The parts of a batch that its commit changes."""

    counts: dict[str, float]
    followed: list[int]
    grown: list[tuple[int, NewUnit]]
    known: list[int]
    ungrown: list[int]
    #: The numbers of worker processes.
    numbers: list[tuple[WorkerRecord, int]]


class WriteBatch:
    """Changes that are committed in one transaction. A later change of a unit replaces an earlier one."""

    __slots__ = (
        "added",
        "after_commit",
        "again",
        "answers",
        "attempts",
        "caching",
        "claims",
        "counts",
        "done_commands",
        "ended_before",
        "events",
        "followed",
        "grow",
        "grown",
        "intents",
        "job",
        "known",
        "lanes",
        "look",
        "notes",
        "processes",
        "released",
        "rendered",
        "reopened",
        "repairs",
        "running",
        "samples",
        "seen_utc",
        "skipped",
        "state",
        "took_s",
        "transcripts",
        "ungrown",
        "units",
        "uses",
        "waits",
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
        #: Units that `grow` returned and that the job had already; the store fills it in when it commits.
        self.known: list[int] = []
        #: Whether `grow` is called even if no unit has ended.
        self.look = False
        #: Units that ended in an earlier batch, for which `grow` is called with this one.
        self.ended_before: list[int] = []
        #: Units that ended when they were added, for which `grow` is still to be called; the store fills it in when it commits.
        self.ungrown: list[int] = []
        #: The worker of its run. The commit fails if another run has taken the job. None: it belongs to no run.
        self.worker = worker
        #: (index, unit) of units that are added while the job runs; the first index is the next one of the job.
        self.added: list[tuple[int, NewUnit]] = []
        #: Whether its answers go into the cache, and followers end together with their leaders.
        self.caching = caching
        #: The followers that ended; the store fills it in when it commits.
        self.followed: list[int] = []
        #: index → lane: the intent to send.
        self.intents: dict[int, int] = {}
        #: index → the time of sending.
        self.running: dict[int, float] = {}
        self.released: list[int] = []
        #: index → the new request of the unit; None: the same as before. Applied before everything else except `added`.
        self.reopened: dict[int, bytes | None] = {}
        #: Units that run again although they have ended, with success or without. Applied after `reopened`.
        self.again: list[int] = []
        self.units: list[tuple[int, UnitChange]] = []
        #: (index, upstream) of units in `units` that were skipped because the unit `upstream` did not succeed: the store names
        #: that unit in the message.
        self.skipped: list[tuple[int, int]] = []
        self.attempts: list[Attempt] = []
        #: (index, status code, request id, body)
        self.answers: list[tuple[int, int | None, str | None, bytes]] = []
        #: In order: a later repair of a unit closes the earlier ones.
        self.repairs: list[Repair] = []
        #: (index, body, characters of input): the request of a unit with edges, as it is sent.
        self.rendered: list[tuple[int, bytes, int]] = []
        #: (index, the attempt's number, JSON)
        self.notes: list[tuple[int, int, bytes]] = []
        self.transcripts: list[TranscriptRow] = []
        self.counts: dict[str, float] = {}
        #: route → the totals of its attempts.
        self.uses: dict[int, UsageTotals] = {}
        self.events: list[JobEvent] = []
        #: lane → (record, view, when)
        self.lanes: dict[int, tuple[bytes, bytes, float]] = {}
        #: lane → the claim of the job as JSON; and when the claimant was here, if that is to be recorded.
        self.claims: dict[int, bytes] = {}
        self.seen_utc: float | None = None
        #: worker → (idle, busy, failed or terminated; the time of its end)
        self.workers: dict[int, tuple[str, float | None]] = {}
        #: Worker processes of the run: new ones, and those whose state has changed.
        self.processes: dict[WorkerRecord, WorkerState] = {}
        self.done_commands: list[tuple[int, float]] = []
        self.state: tuple[State, float | None] | None = None
        #: How long its commit took; the writer fills it in.
        self.took_s = 0.0
        #: Samples of the lanes, and (lane, reason, limit) → seconds waited. They wait for a commit that happens anyway.
        self.samples: list[RunSample] = []
        self.waits: dict[tuple[int, str, str], float] = {}
        #: Called by the engine after the commit.
        self.after_commit: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        """Whether it has anything to commit. Samples are committed together with something else."""
        return bool(
            self.added or self.reopened or self.again or self.intents or self.running or self.released or self.units or self.attempts or self.answers or self.counts
            or self.uses or self.events or self.lanes or self.claims or self.seen_utc is not None or self.workers or self.done_commands or self.state or self.repairs
            or self.rendered or self.notes or self.transcripts or self.processes or self.after_commit or self.look or self.ended_before
        )  # fmt: skip

    def mark(self) -> BatchMark:
        """What a commit adds to the batch, as it is now."""
        numbers = [(process, process.id) for process in self.processes]
        return BatchMark(
            dict(self.counts),
            list(self.followed),
            list(self.grown),
            list(self.known),
            list(self.ungrown),
            numbers,
        )

    def restore(self, mark: BatchMark) -> None:
        """Take back what a commit has added that was undone."""
        self.counts, self.followed = dict(mark.counts), list(mark.followed)
        self.grown, self.known, self.ungrown = list(mark.grown), list(mark.known), list(mark.ungrown)
        for process, number in mark.numbers:
            process.id = number

    def intend(self, index: int, lane: int) -> None:
        """Record the intent to send the unit."""
        self.intents[index] = lane

    def release(self, index: int) -> None:
        """Withdraw the intent: the unit is not sent."""
        if self.intents.pop(index, None) is None:
            self.released.append(index)

    def reopen(self, index: int, request: bytes | None = None) -> None:
        """Run a unit again that ended without success. The job no longer counts that end."""
        self.reopened[index] = request

    def use(self, route: int) -> UsageTotals:
        """The totals of a route, to add an attempt to."""
        totals = self.uses.get(route)
        if totals is None:
            totals = self.uses[route] = UsageTotals()
        return totals

    def totals(self) -> dict[str, float]:
        """The amounts that the batch adds to the job's counters."""
        totals = dict(self.counts)
        for use in self.uses.values():
            for name in USED:
                totals[name] = totals.get(name, 0) + getattr(use, name)
        return totals

    def count(self, what: str, amount: float = 1) -> None:
        """Add to one of the job's counters."""
        self.counts[what] = self.counts.get(what, 0) + amount

    def change(self, index: int, change: UnitChange) -> None:
        """Change the state of a unit. This replaces the intent and the start of its current attempt."""
        self.running.pop(index, None)
        self.intents.pop(index, None)
        self.units.append((index, change))
        if change.finished_utc is not None:
            self.count(change.status)

    def follow(self, index: int, change: UnitChange) -> None:
        """Count a follower that ended with its leader."""
        self.followed.append(index)
        self.count(change.status)


def counters_contradicted(job: int) -> StoreError:
    """The error of a batch that would make a counter negative, or count more ended units than the job has."""
    return StoreError(
        f"a change to job {job} does not fit its counters, and was not recorded",
        hint="this is a bug in headway: please report it; everything committed is safe",
    )


def job_taken(job: str, host: str | None, pid: int | None) -> JobTaken:
    """The error of a run that lost its job to the process `pid` on `host`. An empty `job`: the job was removed."""
    if not job:
        return JobTaken("another process has removed this job", hint="nothing more is sent from here")
    who = "another process" if pid is None else f"process {pid} on {host}"
    return JobTaken(
        f"another process has taken over this job: '{job}' is run by {who} now",
        hint=f"nothing more is sent from here; watch it with 'headway status {job}'",
    )
