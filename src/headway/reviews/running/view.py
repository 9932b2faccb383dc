"""The results of a whole review, for reports: read file by file, so the memory does not grow with the tree."""

from __future__ import annotations

from typing import Final

from headway.reviews.records import FileStatus, ReviewTotals, ReviewView
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import form_of, left_out_of
from headway.stores.records import Job
from headway.stores.store import Store

_FAILED: Final[frozenset[FileStatus]] = frozenset({"ERROR", "TIMEOUT"})
_OPEN: Final[frozenset[FileStatus]] = frozenset({"PENDING", "IN_PROGRESS"})


def review_view(store: Store, job: Job) -> ReviewView:
    """A review with its results as they are now."""
    form = form_of(job)
    results = FileResults(store, job)
    left_out = left_out_of(store, job.id)
    return ReviewView(
        job=job.name,
        state=job.state,
        root=form.root,
        created_utc=job.created_utc,
        finished_utc=job.finished_utc,
        axes=form.axes,
        model=form.model,
        files=results.all,
        left_out=left_out,
        totals=_totals(results, job, len(left_out)),
        settings=form.settings,
    )


def _totals(results: FileResults, job: Job, left_out: int) -> ReviewTotals:
    """Counts files by their ends."""
    reviewed = cached = failed = skipped = 0
    for file in results.all():
        reviewed += file.status == "DONE"
        cached += file.status == "CACHED"
        failed += file.status in _FAILED
        skipped += file.status in _OPEN
    return ReviewTotals(
        files=len(results.files),
        reviewed=reviewed,
        cached=cached,
        failed=failed,
        skipped=skipped,
        left_out=left_out,
        cost_usd=job.known_usd,
        tokens=job.input_tokens + job.output_tokens,
    )
