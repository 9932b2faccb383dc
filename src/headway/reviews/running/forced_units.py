"""`--file GLOB`: the units of the files that are reviewed again, although nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headway.reviews.running.review_form import KeptFiles
from headway.reviews.running.unit_names import verify_unit
from headway.stores.records import Job
from headway.stores.store import Store


def forced_units(store: Store, job: Job, is_meant: Callable[[str], bool]) -> Iterator[int]:
    """The units (by index) of the files whose path is meant."""
    files = KeptFiles(store, job)
    for file in files:
        if is_meant(file.path):
            yield from range(file.first, file.first + files.count(file))
            verifying = store.index_of(job.id, verify_unit(file.path))
            if verifying is not None:
                yield verifying
