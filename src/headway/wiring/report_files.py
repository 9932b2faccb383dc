"""The results of a run: reports of a job whose results are a view (written at the end of every run, also of one that was interrupted),
files that the job's kind writes, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from headway.batch.outputs.ownership import note_written, wrote
from headway.jobs.base import FileJobKind, JobOutput, OutputOptions, ReportKind
from headway.stores.records import Job
from headway.stores.store import Store


class ReportFiles:
    """The reports of one job, one for each output."""

    def __init__(
        self, kind: ReportKind, open_store: Callable[[], Store], job: Job, options: OutputOptions
    ) -> None:
        self._kind, self._open_store, self._job, self._options = kind, open_store, job, options

    def look(self) -> None:
        """The end is soon enough."""

    def open(self) -> None:
        """The same."""

    def ended(self, indexes: Iterable[int]) -> None:
        """The same."""

    def advance(self) -> None:
        """The same."""

    def finish(self) -> None:
        with self._open_store() as store:
            job = store.job(self._job.name) or self._job
            for path in (self._options.path, *self._options.more):
                if wrote(store, str(path)) is None:
                    note_written(store, job, path)
            write_reports(self._kind, store, job, self._options)

    def close(self) -> None:
        """Nothing is open."""


class NoFiles:
    """The results of a job stay in the database."""

    def look(self) -> None:
        """There is nothing to look at."""

    def open(self) -> None:
        """There is nothing to open."""

    def ended(self, indexes: Iterable[int]) -> None:
        """They are in the database."""

    def advance(self) -> None:
        """There is nothing to write."""

    def finish(self) -> None:
        """There is nothing to write."""

    def close(self) -> None:
        """Nothing is open."""


def output_of_kind(
    kind: FileJobKind, open_store: Callable[[], Store], job: Job, options: OutputOptions
) -> JobOutput:
    """The writer of the results of a run."""
    if options.form == "none":
        return NoFiles()
    if isinstance(kind, ReportKind) and options.form == "folder":
        from headway.wiring.reviews.review_folder import (
            ReviewFolder,
        )  # A batch does not load what reviews need.

        return ReviewFolder(open_store, job, options)
    if isinstance(kind, ReportKind):
        return ReportFiles(kind, open_store, job, options)
    return kind.output(open_store, job, options)


def write_reports(kind: ReportKind, store: Store, job: Job, options: OutputOptions) -> None:
    """Write the results of a job to all files of these options."""
    view = kind.view(store, job)
    if kind.reports == "reviews":
        from headway.display.reviews.review_writers import write_report

        for path in (options.path, *options.more):
            write_report(path, view)
        return
    from headway.display.evals import writers as evals  # A batch does not load what evals need.

    for path in (options.path, *options.more):
        evals.write(path, view, safe_cells=options.safe_cells)


def must_be_reports(kind: ReportKind, paths: Iterable[Path]) -> None:
    """Raise if a report cannot be written to one of these files."""
    if kind.reports == "reviews":
        from headway.display.reviews.review_writers import must_be_report as must_be_writable
    else:
        from headway.display.evals.writers import must_be_writable
    for path in paths:
        must_be_writable(path)
