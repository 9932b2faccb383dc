"""What `headway review` writes if a change has no file to review: reports without findings.

A step of CI that uploads a report must find one, and an earlier report must not be taken for this one.
"""

from __future__ import annotations

import time
from typing import Final

from headway.config import Config
from headway.display.reviews.review_writers import write_report
from headway.jobs.base import OutputOptions
from headway.reviews.records import ReviewTotals, ReviewView
from headway.reviews.running.job_kind import ReviewKind
from headway.reviews.running.review_source import ReviewPlan
from headway.wiring.store_access import open_store_or_empty

#: Where reports have the name of a job.
_NO_JOB: Final = "nothing-to-review"


def write_empty_reports(settings: Config, plan: ReviewPlan, output: OutputOptions) -> None:
    """Write the reports of --out. Raises if one would replace a file that is no report."""
    with open_store_or_empty(settings) as store:
        ReviewKind().claim_output(output, "", store=store, make=False)
    for path in output.more:
        write_report(path, _empty_view(plan))


def _empty_view(plan: ReviewPlan) -> ReviewView:
    now = time.time()
    return ReviewView(
        job=_NO_JOB,
        state="complete",
        root=str(plan.root),
        created_utc=now,
        finished_utc=now,
        axes=tuple(axis.name for axis in plan.axes),
        model=plan.model or "",
        files=lambda: iter(()),
        left_out=plan.left_out,
        totals=ReviewTotals(left_out=len(plan.left_out)),
        settings=dict(plan.settings),
    )
