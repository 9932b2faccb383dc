"""The results of a whole review, for reports: read file by file, so the memory does not grow with the tree.

Reports read all files several times, and each reading parses every answer. So the first reading keeps the results in a temporary file without a
name, and the others read that: they all see the same.
"""

from __future__ import annotations

import tempfile
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Final

import msgspec

from headway.reviews.records import FileReview, ReviewTotals, ReviewView
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import form_of, left_out_of
from headway.stores.records import Job
from headway.stores.store import Store

#: Results up to this size stay in memory.
_IN_MEMORY: Final = 8_000_000
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(FileReview).decode


class _KeptReviews:
    """The results of files, as they were when they were read."""

    def __init__(self, reviews: Iterable[FileReview]) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - it lives as long as the view.
        weakref.finalize(self, self._file.close)
        self.statuses: Counter[str] = Counter()
        for review in reviews:
            self.statuses[review.status] += 1
            self._file.write(_encode(review) + b"\n")

    def read(self) -> Iterator[FileReview]:
        """Every file, in order. Several readings may go on at once."""
        place = 0
        while True:
            self._file.seek(place)
            line = self._file.readline()
            if not line:
                return
            place = self._file.tell()
            yield _decode(line)


def review_view(store: Store, job: Job) -> ReviewView:
    """A review with its results as they are now."""
    form = form_of(job)
    kept = _KeptReviews(FileResults(store, job).all())
    left_out = left_out_of(store, job.id)
    return ReviewView(
        job=job.name,
        state=job.state,
        root=form.root,
        created_utc=job.created_utc,
        finished_utc=job.finished_utc,
        axes=form.axes,
        model=form.model,
        files=kept.read,
        left_out=left_out,
        totals=_totals(kept.statuses, job, len(left_out)),
        settings=form.settings,
    )


def _totals(statuses: Counter[str], job: Job, left_out: int) -> ReviewTotals:
    """Counts files by their ends."""
    return ReviewTotals(
        files=statuses.total(),
        reviewed=statuses["DONE"],
        cached=statuses["CACHED"],
        failed=statuses["ERROR"] + statuses["TIMEOUT"],
        skipped=statuses["PENDING"] + statuses["IN_PROGRESS"],
        left_out=left_out,
        cost_usd=job.known_usd,
        tokens=job.input_tokens + job.output_tokens,
    )
