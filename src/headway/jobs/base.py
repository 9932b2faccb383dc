"""The contract of a kind of job.

Every kind says what its jobs are in words: their input, their units, the next step for the user (`JobKind`). A kind that is
read from files (`FileJobKind`) also turns a file into units, and results into a file.

A kind does not run anything: `wiring` runs every job alike, with what its kind returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, Protocol, Self

import msgspec

from headway.config import Config
from headway.core.reasons import LaneBudgetSpent
from headway.engine.run_spec import Render
from headway.errors import UsageError
from headway.jobs.unit_report import UnitReport, UnitText
from headway.providers.adapter import Adapter
from headway.stores.records import Family, Job, NewUnit, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow

#: Called now and then with the number of rows that have been read.
RowProgress = Callable[[int], None]
#: Called once for each provider and model that units go to. Raises where they could not be sent.
RouteCheck = Callable[[str, str], None]
#: The order of rows in an output file.
Order = Literal["input", "completion"]
#: Puts an adapter of a provider kind behind a check of its answers.
Judge = Callable[[Adapter, str], Adapter]


class IngestOptions(msgspec.Struct, frozen=True):
    """How an input is read: as a new job even if it was run before (`fresh`), without its bad rows (`skip_bad`)."""

    fresh: bool = False
    skip_bad: bool = False
    progress: RowProgress = lambda rows: None


class OutputOptions(msgspec.Struct, frozen=True):
    """Where results go, and how. `force` replaces a file of another job."""

    path: Path
    order: Order = "input"
    force: bool = False
    #: Whether a spreadsheet must not take any cell for a formula.
    safe_cells: bool = False


class Sink(Protocol):
    """The part of a store that takes units in."""

    def add_route(self, job: int, route: StoredRoute) -> int: ...

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None: ...

    def add_families(self, job: int, families: Sequence[Family]) -> None: ...

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None: ...


class JobSource(Protocol):
    """An input that was opened. Its digest and what its models resolve to say which job it is."""

    @property
    def kind(self) -> str:
        """The name of its kind."""

    @property
    def name(self) -> str:
        """The input in messages."""

    @property
    def path(self) -> str:
        """Where it is; "-": standard input."""

    @property
    def stem(self) -> str:
        """What a new job is named after."""

    @property
    def digest(self) -> str:
        """Of its content and of everything that was asked about it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def form(self) -> dict[str, Any]:
        """What a job keeps of it for later runs."""

    def is_sibling(self, job: Job) -> bool:
        """Whether a job is of the same rows but of another number of them: its answers can be taken over."""

    def ids(self, config: Config) -> Iterator[str]:
        """The id of every unit that it makes, in order."""

    def ingest(
        self,
        sink: Sink,
        config: Config,
        job: int,
        *,
        options: IngestOptions,
        check: RouteCheck,
        ready: Callable[[], None] = lambda: None,
    ) -> int:
        """Give every unit to `sink` and seal the job; returns how many bad rows were left out.

        `ready` is called when all units are there, before the job is sealed.
        """


class JobOutput(Protocol):
    """The results of a job as a file, written while it runs. One call at a time; `look` before anything is sent."""

    def look(self) -> None:
        """See how far the records go before this run changes them."""

    def open(self) -> None:
        """Keep the part of the file that is still right."""

    def ended(self, indexes: Iterable[int]) -> None:
        """These units have ended, and that is committed."""

    def advance(self) -> None:
        """Write what can be written now."""

    def finish(self) -> None:
        """Make the file whole: a row for every unit."""

    def close(self) -> None:
        """Close the file and its store."""


class JobKind(ABC):
    """What every kind says of its jobs."""

    #: As the store has it.
    name: ClassVar[str]
    #: Whether attempts are requests to servers; otherwise they are calls of functions, without HTTP.
    sends_requests: ClassVar[bool] = True

    @abstractmethod
    def input_name(self, job: Job) -> str:
        """The input of a job, in a column of `headway jobs`."""

    @abstractmethod
    def origin(self, job: Job) -> str:
        """Where a job comes from and where its results go, in one line."""

    @abstractmethod
    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """One unit in words."""

    @abstractmethod
    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """What the user can do now, in one line. `command` returns the command that resumes the job."""

    @abstractmethod
    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """The results of these units as they are now, one line each: what `headway export` prints."""

    @abstractmethod
    def check_export(self, path: Path) -> None:
        """Raise where results cannot be written to a file of this name."""

    @abstractmethod
    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        """Write all results as they are now, in the format that the file's name asks for."""

    def command_refusal(self, job: Job) -> UsageError | None:
        """The error of a command for the process that runs the job (`headway pause`); None where it takes commands."""
        return None

    def resume_refusal(self, job: Job) -> UsageError | None:
        """The error of `headway resume`; None where a command can run the job."""
        return None


class FileJobKind(JobKind):
    """A kind that a command reads from a file and runs, now or later."""

    @abstractmethod
    def reads(self, path: str) -> bool:
        """Whether `headway run` takes a file of this name as this kind."""

    @abstractmethod
    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Open an input. `flags` are the command's own; nothing is sent or stored."""

    @abstractmethod
    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """Where results go if --out names no file."""

    @abstractmethod
    def check_output(self, options: OutputOptions) -> None:
        """Raise where results cannot be written like this. Touches no file."""

    @abstractmethod
    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Raise where the file is not this job's to write. `store` may know who wrote it; `make` is whether its folder is made."""

    @abstractmethod
    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """What writes the results of a run."""

    def judge(self, job: Job) -> Judge | None:
        """What checks a job's answers; None where every answer is good."""
        return None

    def renderer(self, job: Job) -> Render | None:
        """What makes the requests of units that wait for others, when their turn comes; None where units send their own."""
        return None

    def growth(self, job: Job) -> Grow | None:
        """What adds units to a job while it runs, when units of it have ended; None where a job has all units from the start.

        The new units are recorded in the same transaction as those ends. They go to routes that the job has, are not serial,
        and may wait for any unit, by its id. A unit whose id is there already is not added again.
        """
        return None

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """By how the run ended."""
        resume = command()
        if state == "failed" and job.ended == job.total:
            return f"to try the failed ones again: {resume}"
        if state == "stopped":
            return f"when that is mended: {resume}"
        if state == "parked":
            return (
                f"when the hold is over: {resume}, or wait for it: {resume} --max-hold unlimited; "
                "if it is wrong: headway lanes --reopen LANE"
            )
        if budgets := spent_budgets(job):
            return f"raise {' and '.join(budgets)}, then: {resume}"
        return f"go on with: {resume}"


def spent_budgets(job: Job) -> list[str]:
    """The lane budgets that are used up, each as a setting of headway.toml."""
    spent = {reason.budget for reason in job.unfinished.values() if isinstance(reason, LaneBudgetSpent)}
    return [_setting_of(name) for name in sorted(spent)]


def _setting_of(budget: str) -> str:
    provider, _, model = budget.partition("/")
    table = f'[providers.{provider}.models."{model}"]' if model else f"[providers.{provider}]"
    return f"max_cost in {table}"
