"""The kinds of job without an input file: `ask` (one question to one or more models) and `frame` (`headway.frame`).

Their units are requests as in a batch, and are shown and exported in its format. No command can resume them: a question is
asked again, and a frame is continued by its program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from headway.batch.job_kind import BatchKind
from headway.errors import UsageError
from headway.jobs.base import AnswerCheck, RunKind
from headway.jobs.unit_report import UnitReport, UnitText
from headway.stores.records import Job
from headway.stores.store import Store

#: The name of the kind of `headway ask` in the store.
ASK: Final = "ask"
#: The same for `headway.frame`.
FRAME: Final = "frame"
_BATCH: Final = BatchKind()


class _RowsKind(RunKind):
    """What both kinds share with a batch."""

    def answer_check(self, job: Job) -> AnswerCheck | None:
        """As for a batch: against the job's schema, if it has one."""
        return _BATCH.answer_check(job)

    def describe(self, job: Job, unit: UnitReport) -> UnitText:
        """As for a batch."""
        return _BATCH.describe(job, unit)

    def rows(self, store: Store, job: Job, first: int, last: int) -> Iterator[bytes]:
        """As for a batch."""
        return _BATCH.rows(store, job, first, last)

    def check_export(self, path: Path) -> None:
        """As for a batch."""
        _BATCH.check_export(path)

    def export(self, file: BinaryIO, name: str, store: Store, job: Job, *, safe_cells: bool) -> None:
        """As for a batch."""
        _BATCH.export(file, name, store, job, safe_cells=safe_cells)


class AskKind(_RowsKind):
    """One question to one or more models."""

    name = ASK
    chosen_by_default = False

    def input_name(self, job: Job) -> str:
        """It has no file."""
        return "(question)"

    def origin(self, job: Job) -> str:
        """The question."""
        return f"headway ask: {job.input}"

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """A question is short: it is asked again as a whole."""
        return "to ask again, repeat the command"

    def resume_refusal(self, job: Job) -> UsageError:
        """The command that printed the answer has ended."""
        return UsageError(f"job {job.name} is one question", hint="ask it again with 'headway ask'")


class FrameKind(_RowsKind):
    """The rows of a data frame."""

    name = FRAME

    def input_name(self, job: Job) -> str:
        """It has no file."""
        return "(data frame)"

    def origin(self, job: Job) -> str:
        """The prompt."""
        return f"headway.frame: {job.input}"

    def next_step(self, job: Job, state: str, command: Callable[[], str]) -> str:
        """Its program has the frame."""
        return "to resume, run its program again: finished rows are not sent again"

    def resume_refusal(self, job: Job) -> UsageError:
        """The store has the requests, but not the frame that gets the answers, and not the class of its schema."""
        return UsageError(
            f"job {job.name} belongs to a Python program (headway.frame)",
            hint="run that program again: finished rows are not sent again",
        )
