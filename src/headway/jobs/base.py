"""The contract of a kind of job.

Every kind describes its jobs in words: their input, their units, the next step for the user (`JobKind`). A kind whose units are
requests says how they are made and checked (`RunKind`). A kind that is read from files (`FileJobKind`) also turns a file into
units, and results into a file.

A kind does not run anything: `wiring` runs all jobs in the same way, with what their kind returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Final, Literal, Protocol, Self

import msgspec

from headway.config import Config
from headway.core.model import RetryPolicy
from headway.core.reasons import LaneBudgetSpent
from headway.engine.run_spec import Render, RouteAnswerCheck, UnitGroups
from headway.errors import UsageError
from headway.jobs.output_options import Order as Order
from headway.jobs.output_options import OutputOptions as OutputOptions
from headway.jobs.unit_report import UnitReport, UnitText
from headway.providers.adapter import Adapter
from headway.stores.records import Family, Job, NewAttachment, NewUnit, State, StoredRoute
from headway.stores.store import Store
from headway.stores.write_batch import Grow

#: Called from time to time with the number of rows read so far.
RowProgress = Callable[[int], None]
#: Called once for each provider and model of the units. Raises if units could not be sent there.
RouteCheck = Callable[[str, str], None]
#: Wraps the adapter of a provider kind in a check of its answers.
AnswerCheck = Callable[[Adapter, str], Adapter]


class IngestOptions(msgspec.Struct, frozen=True):
    """How an input is read. `fresh`: as a new job, even if it was run before. `skip_bad`: bad rows are left out.

    `warn` is called with each warning about the rows, in one line. `name`: the name of a new job; "": made from the input.
    """

    fresh: bool = False
    skip_bad: bool = False
    progress: RowProgress = lambda rows: None
    warn: Callable[[str], None] = lambda text: None
    name: str = ""

    def without_warnings(self) -> Self:
        """The same for an input whose warnings were shown before."""
        return msgspec.structs.replace(self, warn=lambda text: None)


_DEFAULT: Final = RetryPolicy()


class RoutePolicy(msgspec.Struct, frozen=True):
    """How the units of a route are retried, and the timeout of an attempt. None: as for all units of the lane or the run.

    `base_s` is the first wait, `cap_s` the longest; `linear`: waits grow by `base_s` each time instead of doubling. `replaces_default`: only if
    the settings of the lane have no waits of their own.
    """

    attempts: int | None = None
    base_s: float | None = None
    linear: bool | None = None
    timeout_s: float | None = None
    cap_s: float | None = None
    replaces_default: bool = False

    def retry(self, lane: RetryPolicy) -> RetryPolicy | None:
        """The policy for retries on a lane; None: the lane's."""
        if self.replaces_default and (lane.base_s, lane.cap_s) != (_DEFAULT.base_s, _DEFAULT.cap_s):
            return None
        own = {"max_attempts": self.attempts, "base_s": self.base_s, "linear": self.linear}
        changed = {name: value for name, value in own.items() if value is not None}
        if not changed:
            return None
        # A first wait above the cap is meant.
        return msgspec.structs.replace(
            lane, **changed, cap_s=max(self.cap_s or lane.cap_s, self.base_s or 0.0)
        )


class Sink(Protocol):
    """The part of a store that takes units in."""

    def add_route(self, job: int, route: StoredRoute) -> int: ...

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None: ...

    def add_attachments(self, job: int, files: Sequence[NewAttachment]) -> None: ...

    def add_families(self, job: int, families: Sequence[Family]) -> None: ...

    def add_values(self, job: int, name: str, first: int, values: Sequence[bytes]) -> None: ...

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None: ...


class JobSource(Protocol):
    """An opened input. Its digest and the targets of its models identify the job."""

    @property
    def kind(self) -> str:
        """The name of its kind."""

    @property
    def name(self) -> str:
        """The input in messages."""

    @property
    def path(self) -> str:
        """Its path; "-" for standard input."""

    @property
    def stem(self) -> str:
        """The first part of the name of a new job."""

    @property
    def digest(self) -> str:
        """The digest of its content and of the options that change its requests."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def form(self) -> dict[str, Any]:
        """The data of the input that later runs need, as JSON values."""

    def continues(self, store: Store, job: Job) -> bool:
        """Whether a job with the same digest is the one that is meant."""

    def is_sibling(self, job: Job) -> bool:
        """Whether a job has the same rows with another `--limit`: its answers can be used."""

    def is_predecessor(self, job: Job) -> bool:
        """Whether a job asked the same about an earlier content of this input: rows that have not changed can use its answers."""

    @property
    def row_numbers(self) -> str:
        """A LIKE pattern of the ids that are only numbers of rows, so that they say nothing about what a row is."""

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
        """Add every unit to `sink` and seal the job; returns how many bad rows were left out.

        `ready` is called when all units are added, before the job is sealed.
        """


class JobOutput(Protocol):
    """The output file of a job, written while it runs. One call at a time; `look` is called before anything is sent."""

    def look(self) -> None:
        """Note how far the records are complete, before this run changes them."""

    def open(self) -> None:
        """Open the file, and keep the part that is still right."""

    def ended(self, indexes: Iterable[int]) -> None:
        """These units have ended, and their ends are committed."""

    def advance(self) -> None:
        """Write what can be written now."""

    def finish(self) -> None:
        """Complete the file: one row for every unit."""

    def close(self) -> None:
        """Close the file and its store."""


class JobKind(ABC):
    """How a kind describes its jobs."""

    #: Its name in the store.
    name: ClassVar[str]
    #: Whether attempts are requests to servers; otherwise they are calls of functions, without HTTP.
    sends_requests: ClassVar[bool] = True
    #: Whether a command without the name of a job may choose a job of this kind.
    chosen_by_default: ClassVar[bool] = True

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
        """Raise if results cannot be written to a file of this name."""

    @abstractmethod
    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        """Write all results as they are now, in the format of the file's name."""

    def command_refusal(self, job: Job) -> UsageError | None:
        """The error of commands to the running process (`headway pause`); None if the process takes commands."""
        return None

    def resume_refusal(self, job: Job) -> UsageError | None:
        """The error of `headway resume`; None if a command can run the job."""
        return None


class RunKind(JobKind):
    """A kind whose units are requests that an engine runs."""

    #: Whether a job may be complete although units have failed: its kind tolerates them.
    tolerates_failures: ClassVar[bool] = False
    #: Whether --concurrency counts nodes of the job, and not requests in flight.
    counts_nodes: ClassVar[bool] = False
    #: Whether the units that `growth` adds bring their keys of the cache and their cached answers (`NewUnit.key`, `NewUnit.source`).
    #: Requests of other kinds are looked up before a run, if the user wants that.
    makes_keys: ClassVar[bool] = False

    def answer_check(self, job: Job) -> AnswerCheck | None:
        """Checks the answers of a job; None if every answer is accepted."""
        return None

    def route_check(self, job: Job, routes: Sequence[StoredRoute]) -> RouteAnswerCheck | None:
        """Checks answers by the number of their route; None if routes do not differ in this. `routes` are those of the job."""
        return None

    def renderer(self, job: Job) -> Render | None:
        """Makes the requests of units that wait for others, after those have ended; None if units have no edges."""
        return None

    def growth(self, job: Job) -> Grow | None:
        """Adds units to a running job when units have ended, with or without success; None if a job has all its units from the
        start. The command `grow` of another terminal makes a running job look for units to add, e.g. because of a new value.

        The new units are recorded in the same transaction as those ends. They use existing routes of the job, are not serial,
        and may wait for any unit, by its id. A unit whose id exists in the job is not added again. A unit that is added with the
        answer of another one (`NewUnit.source`) has ended, and may add others. If the object has an attribute `parts`, it is called
        for the parts of the job in views (`RunSpec.parts`); if it has an attribute `stops`, it is asked after each commit whether anything
        more may start (`RunSpec.stops`); if `hands_out` is true, a unit of an earlier run waits until it is returned (`RunSpec.grow_hands_out`).
        """
        return None

    def unit_groups(self, store: Store, job: Job) -> UnitGroups | None:
        """The groups of units of which only some are in flight at once; None: units have no groups."""
        return None

    def route_policies(self, job: Job) -> Mapping[str, RoutePolicy]:
        """How the units of labelled routes are retried, by label."""
        return {}

    def with_providers(self, config: Config, job: Job) -> Config:
        """The settings with the providers that a job brings itself, and with what its file says about a whole run."""
        return config

    def delay_s(self, job: Job) -> float:
        """How long a run waits between requests that it sends one at a time, if its flags do not say it; 0: it does not."""
        return 0.0

    def stays_ended(self, store: Store, job: Job) -> Collection[int]:
        """The units (by index) that ended without success and do not run again when the job is resumed."""
        return ()

    def check_retry(self, store: Store, job: Job, units: Sequence[int]) -> None:
        """Check whether units that the user names may run again in their job. Raises UsageError."""

    def end_state(self, store: Store, job: Job, state: State) -> State:
        """The state of a job whose run has ended. `state` is the one that its units give. "parked": it waits for the user; then
        `parked_step` or `next_step` says for what.
        """
        return state

    def parked_step(self, store: Store, job: Job, place: str, resume: str) -> str:
        """What a job that waits for the user needs, in one line; "": `next_step` says it. `place` has the flags with which a command finds
        the job (" --db x"), `resume` is the command that resumes it.
        """
        return ""

    def failed_step(self, store: Store, job: Job, place: str, resume: str) -> str:
        """What can be done for a job that failed, in one line; "": `next_step` says it. The arguments are those of `parked_step`."""
        return ""

    def is_enough(self, store: Store, job: Job) -> bool:
        """Whether the last run did all that it was asked to do, although the job is not complete: then its exit code is 0."""
        return False


class FileJobKind(RunKind):
    """A kind whose jobs are read from a file and run by a command."""

    #: Whether a job can be made from several files.
    takes_several: ClassVar[bool] = False

    @abstractmethod
    def reads(self, path: str) -> bool:
        """Whether `headway run` takes a file of this name as this kind."""

    @abstractmethod
    def open(self, path: str, stdin: BinaryIO | None, flags: Mapping[str, Any]) -> JobSource:
        """Open an input. `flags` are those of the command. Nothing is sent or stored.

        `flags["more_files"]` has the arguments after the first, if `takes_several`. `flags["out"]` is the output that was named.
        """

    def check_flags(self, flags: Mapping[str, Any]) -> None:
        """Raise UsageError for flags of `headway run`, `resume` and `retry` that make no sense for this kind."""

    def with_named_providers(self, config: Config, source: JobSource) -> Config:
        """The settings with the providers that an input names and that need no table."""
        return config

    @abstractmethod
    def default_output(self, path: str, flags: Mapping[str, Any]) -> Path:
        """The output file without --out."""

    def output_owner(self, output: OutputOptions, store: Store) -> str | None:
        """The job whose results are in this file; None if there is none."""
        return None

    def output_for_job(self, path: Path, job: str) -> Path:
        """The name of a file for one job, where the default file belongs to another."""
        return path.with_name(f"{path.stem}.{job}{path.suffix}")

    def locked_folder(self, job: Job) -> Path | None:
        """The folder in which one job of this kind may run at a time; None if any number may."""
        return None

    @abstractmethod
    def check_output(self, options: OutputOptions) -> None:
        """Raise if results cannot be written with these options. Touches no file."""

    @abstractmethod
    def claim_output(
        self, options: OutputOptions, job: str, *, store: Store | None = None, make: bool = True
    ) -> None:
        """Raise if the file belongs to another job. `store` may know its writer. `make`: make its folder."""

    def outdated_outputs(self, options: OutputOptions, store: Store, job: Job, earlier: Job) -> int:
        """How many files of `earlier`, a job of the same input before it changed, stay that are not of this job."""
        return 0

    @abstractmethod
    def output(self, open_store: Callable[[], Store], job: Job, options: OutputOptions) -> JobOutput:
        """The writer of the results of a run."""

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """By the state in which the run ended."""
        resume = command()
        if state == "failed" and job.ended == job.total and job.has_failures:
            return f"to retry the failed units: {resume}"
        if state == "failed" and job.ended == job.total and job.counts["cancelled"]:
            return f"to retry the cancelled units: {resume}"
        if state == "stopped":
            return f"to resume once fixed: {resume}"
        if state == "parked":
            return (
                f"to resume after the hold: {resume}; to wait for it: {resume} --max-hold unlimited; "
                "to ignore the hold: headway lanes --reopen LANE"
            )
        if budgets := spent_budgets(job):
            return f"to resume, raise {' and '.join(budgets)}, then: {resume}"
        return f"to resume: {resume}"


class ReportKind(FileJobKind):
    """A kind whose results are a view of its job, which `wiring` writes as reports: the suffix of a file names its format."""

    #: Which formats.
    reports: ClassVar[Literal["evals", "reviews"]]

    @abstractmethod
    def view(self, store: Store, job: Job) -> Any:
        """The results as they are now. Reading them takes no more memory for a larger job."""


def spent_budgets(job: Job) -> list[str]:
    """The spent lane budgets, each as a setting of headway.toml."""
    spent = {reason.budget for reason in job.unfinished.values() if isinstance(reason, LaneBudgetSpent)}
    return [_setting_of(name) for name in sorted(spent)]


def _setting_of(budget: str) -> str:
    provider, _, model = budget.partition("/")
    table = f'[providers.{provider}.models."{model}"]' if model else f"[providers.{provider}]"
    return f"max_cost in {table}"
