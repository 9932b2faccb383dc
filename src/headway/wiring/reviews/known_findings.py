"""`--baseline FILE|JOB`: findings that a report or an earlier review has are left out of reports, of the terminal and of --fail-on."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headway.config import Config
from headway.errors import UsageError
from headway.reviews.findings.known_findings import KnownFindings, known_of_report, known_of_view, only_new
from headway.reviews.records import ReviewView
from headway.reviews.running.review_form import REVIEW
from headway.reviews.running.view import review_view
from headway.stores.store import Store
from headway.wiring.store_access import open_store_or_empty

#: Reports of larger trees are read by job.
_MOST_BYTES: Final = 200_000_000


def must_be_known(config: Config, named: str) -> None:
    """Raise unless this is a report or an earlier review. For before anything is sent."""
    with open_store_or_empty(config) as store:
        _known(store, named)


def without_known(store: Store, named: str, view: ReviewView) -> ReviewView:
    """The view without the findings of a report or a job; "": with all findings."""
    return only_new(view, _known(store, named)) if named else view


def _known(store: Store, named: str) -> KnownFindings:
    path = Path(named)
    if path.is_file():
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"--baseline {named}: larger than {_MOST_BYTES / 1e6:g} MB", hint="name a job")
        return known_of_report(path.read_bytes(), named)
    job = store.job(named)
    if job is None or job.kind != REVIEW:
        raise UsageError(
            f"--baseline {named}: there is no such file, and no review of that name",
            hint="see 'headway jobs'",
        )
    return known_of_view(review_view(store, job))
