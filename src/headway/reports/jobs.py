"""A job: totals, usage, holds and failures; whether a process runs it; finding a job by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headway.errors import UsageError
from headway.jobs.kinds import KINDS
from headway.questions.job_kinds import ASK, FRAME
from headway.reports.holds import HoldReport, holds_of
from headway.reports.prediction import Comparison, comparison
from headway.reports.usage import (
    CacheSavings,
    RepeatedUse,
    UnsureUse,
    UseReport,
    cached_units,
    use_report,
    uses_by_name,
)
from headway.stores.job_lock import JobPlaces
from headway.stores.records import LIVE, Job, State
from headway.stores.store import Store


class Failure(msgspec.Struct, frozen=True):
    """Units that ended with the same code: how many, and the index and message of the first."""

    code: str
    units: int
    first: int
    message: str


class JobReport(msgspec.Struct, frozen=True):
    """What the commands print about a job as JSON."""

    job: str
    state: State
    input: str
    out: str
    models: Sequence[str]
    prompt: str | None
    total: int
    succeeded: int
    failed: int
    timed_out: int
    cached: int
    skipped: int
    cancelled: int
    pending: int
    attempts: int
    refused: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced_attempts: int
    repeated: RepeatedUse
    unsure: UnsureUse
    saved_by_cache: CacheSavings
    lanes: dict[str, UseReport]
    created_utc: float
    started_utc: float | None
    finished_utc: float | None
    holds: dict[str, HoldReport]
    prediction: Comparison | None
    failures: Sequence[Failure]

    @property
    def good(self) -> int:
        """Units that have an answer."""
        return self.succeeded + self.cached

    @property
    def use(self) -> UseReport:
        """The usage of all attempts."""
        return UseReport(
            self.attempts, self.refused, self.input_tokens, self.output_tokens, self.cost_usd, self.unpriced_attempts,
            self.repeated, self.unsure,
        )  # fmt: skip


def prompt_of(job: Job) -> str | None:
    """The prompt that all units share; of a question and a data frame its beginning. None if each row has its own."""
    prompt: str | None = job.form.get("prompt")
    return job.input if prompt is None and job.kind in (ASK, FRAME) else prompt


def job_report(store: Store, job: Job, state: State) -> JobReport:
    """The report of a job. `state` is the job's own, or that of a run that just ended."""
    use, saved = use_report(job), cached_units(store, job)
    return JobReport(
        job=job.name,
        state=state,
        input=job.input,
        out=job.out,
        models=models_text(job),
        prompt=prompt_of(job),
        total=job.total,
        succeeded=job.counts["succeeded"],
        failed=job.counts["failed"],
        timed_out=job.counts["timed_out"],
        cached=job.counts["cached"],
        skipped=job.counts["skipped"],
        cancelled=job.counts["cancelled"],
        pending=job.total - job.ended,
        **msgspec.structs.asdict(use),
        saved_by_cache=CacheSavings(saved.input_tokens, saved.output_tokens, saved.cost_usd),
        lanes=uses_by_name(store, job),
        created_utc=job.created_utc,
        started_utc=job.started_utc,
        finished_utc=job.finished_utc,
        holds=holds_of(store, job),
        prediction=comparison(store, job),
        failures=failures_of(store, job),
    )


def models_text(job: Job) -> list[str]:
    """The models that the job's rows go to, as provider/model, each once."""
    return list(
        dict.fromkeys(
            f"{provider}/{model}" if model else provider for provider, _, model in job.models.values()
        )
    )


def failures_of(store: Store, job: Job) -> list[Failure]:
    """The failures of a job, by code."""
    return [] if job.ended == job.good else [Failure(*failure) for failure in store.failures(job.id)]


def state_of(places: JobPlaces, job: Job) -> State:
    """The job's state; "interrupted" if it is recorded as running but its process died."""
    if job.state in LIVE and not places.is_live(job.name):
        return "interrupted"
    return job.state


class ChosenJob(NamedTuple):
    """A job, and how many jobs it was chosen from as the latest."""

    job: Job
    among: int = 1


def find_job(store: Store, name: str | None) -> ChosenJob:
    """A job by its name or the beginning of it. The name of a file means its latest job, None the latest of all.

    The latest is the job whose run was started last, whether or not it still runs.
    """
    jobs = [job for job in store.jobs() if job.state != "ingesting"]
    if not jobs:
        raise UsageError("there are no jobs yet", hint="'headway run FILE' starts one")
    if name is None:
        if not (runs := [job for job in jobs if _by_default(job)]):
            raise UsageError("there are no jobs yet, only questions", hint="'headway run FILE' starts one")
        return _latest(store, runs)
    exact = [job for job in jobs if job.name == name]
    versions = [job for job in jobs if re.fullmatch(re.escape(name) + r"-[0-9a-f]{6}(-\d+)?", job.name)]
    close = exact or versions or [job for job in jobs if job.name.startswith(name)]
    if len(close) == 1 or (close and not exact and close == versions):
        return _latest(store, close)
    if close:
        raise UsageError(
            f"'{name}' matches several jobs: {', '.join(job.name for job in close[:5])}",
            hint="type more of its name",
        )
    raise UsageError(f"there is no job '{name}'", hint="'headway jobs' lists them")


def _by_default(job: Job) -> bool:
    """Whether a command without a name may choose the job. A kind that this version does not know is like any other."""
    return job.kind not in KINDS or KINDS[job.kind].chosen_by_default


def _latest(store: Store, jobs: list[Job]) -> ChosenJob:
    starts = store.run_starts()
    return ChosenJob(max(jobs, key=lambda job: (starts.get(job.id, 0.0), job.id)), len(jobs))
