"""The registry of kinds of job. A new kind is one entry here."""

from __future__ import annotations

from typing import Final

from headway.batch.job_kind import BatchKind
from headway.errors import UsageError
from headway.flows.running.job_kind import FlowKind
from headway.jobs.base import FileJobKind, JobKind, RunKind
from headway.jobs.python_programs import MapKind, PoolKind
from headway.questions.job_kinds import AskKind, FrameKind
from headway.stores.records import Job

#: By the name in the store. `batch` is the first: it reads every file that no later kind reads.
KINDS: Final[dict[str, JobKind]] = {
    kind.name: kind for kind in (BatchKind(), MapKind(), PoolKind(), AskKind(), FrameKind(), FlowKind())
}


def kind_of(job: Job) -> JobKind:
    """The kind of a job."""
    if job.kind not in KINDS:
        raise UsageError(
            f"job {job.name} is a {job.kind}, a kind that this version does not know",
            hint="use the version of Headway that made it",
        )
    return KINDS[job.kind]


def run_kind_of(job: Job) -> RunKind:
    """The kind of a job that an engine runs. Raises if its units are calls of a Python program."""
    kind = kind_of(job)
    if isinstance(kind, RunKind):
        return kind
    refusal = kind.resume_refusal(job)
    assert refusal is not None
    raise refusal


def file_kind_of(job: Job) -> FileJobKind:
    """The kind of a job, if a command can run it. Raises if only its Python program can run it."""
    kind = kind_of(job)
    if (refusal := kind.resume_refusal(job)) is not None:
        raise refusal
    assert isinstance(kind, FileJobKind)
    return kind


def must_take_commands(job: Job) -> None:
    """Raise if the process that runs the job takes no commands from another terminal."""
    if (refusal := kind_of(job).command_refusal(job)) is not None:
        raise refusal


def kind_for(path: str) -> FileJobKind:
    """The kind of job that `headway run` makes from a file."""
    kinds = (kind for kind in reversed(KINDS.values()) if isinstance(kind, FileJobKind))
    return next(kind for kind in kinds if kind.reads(path))
