"""The registry of kinds of job. A new kind is one entry here.

A kind whose modules are many is loaded when a job or a file of it comes: a batch does not wait for what flows need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Final, NamedTuple

from headway.batch.job_kind import BatchKind
from headway.errors import UsageError
from headway.jobs.base import FileJobKind, JobKind, RunKind
from headway.jobs.python_programs import MapKind, PoolKind
from headway.questions.job_kinds import AskKind, FrameKind
from headway.stores.records import Job


class LaterKind(NamedTuple):
    """A kind that is loaded when it is needed, and the ends of the names of its files."""

    load: Callable[[], JobKind]
    suffixes: tuple[str, ...]


class KindRegistry(MutableMapping[str, JobKind]):
    """The kinds, by the name in the store."""

    def __init__(self, kinds: Mapping[str, JobKind | LaterKind]) -> None:
        self._kinds = dict(kinds)

    def __getitem__(self, name: str) -> JobKind:
        kind = self._kinds[name]
        if isinstance(kind, LaterKind):
            kind = self._kinds[name] = kind.load()
        return kind

    def __setitem__(self, name: str, kind: JobKind) -> None:
        self._kinds[name] = kind

    def __delitem__(self, name: str) -> None:
        del self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def reader_of(self, path: str) -> FileJobKind:
        """The last kind that takes a file of this name."""
        for name in reversed(self._kinds):
            kind = self._kinds[name]
            if isinstance(kind, LaterKind) and not path.lower().endswith(kind.suffixes):
                continue
            kind = self[name]
            if isinstance(kind, FileJobKind) and kind.reads(path):
                return kind
        raise AssertionError("a batch reads every file")


def _flows() -> JobKind:
    from headway.flows.running.job_kind import FlowKind

    return FlowKind()


def _evals() -> JobKind:
    from headway.evals.running.job_kind import EvalKind

    return EvalKind()


def _reviews() -> JobKind:
    from headway.reviews.running.job_kind import ReviewKind

    return ReviewKind()


#: By the name in the store. `batch` is the first: it reads every file that no later kind reads.
KINDS: Final = KindRegistry(
    {
        **{kind.name: kind for kind in (BatchKind(), MapKind(), PoolKind(), AskKind(), FrameKind())},
        "flow": LaterKind(_flows, (".yaml", ".yml")),
        # These have commands of their own.
        "eval": LaterKind(_evals, ()),
        "review": LaterKind(_reviews, ()),
    }
)


def kind_of(job: Job) -> JobKind:
    """The kind of a job."""
    if job.kind not in KINDS:
        raise UsageError(
            f"job {job.name} is a {job.kind}, a kind that this version does not know",
            hint="use the version of Headway that made it",
        )
    return KINDS[job.kind]


def has_nodes(job: Job) -> bool:
    """Whether a job is a graph of steps."""
    kind = KINDS.get(job.kind)
    return isinstance(kind, RunKind) and kind.counts_nodes


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
    return KINDS.reader_of(path)
