"""Answers of an earlier version of an eval: a cell, a transform or a grade is not asked again if its request is the same.

Requests that wait for nothing are compared by the store, as those of batches (`stores.unchanged_rows`). Here are the late ones: as soon as
everything that such a unit waits for has an answer, its request is made, and compared with those that were sent. So a changed threshold
costs nothing, and a changed rubric costs its grades alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from headway.errors import HeadwayError
from headway.evals.running.cell_requests import LateCellRequests
from headway.stores.records import Job
from headway.stores.store import Store
from headway.stores.unchanged_rows import request_key

#: Earlier versions that are searched, the newest first.
MOST_EARLIER: Final = 5
#: Answers that are taken over in one transaction.
_PAGE: Final = 500


def take_over(store: Store, job: int, is_earlier: Callable[[Job], bool]) -> None:
    """Give late units of a new job the answers that they have in earlier ones."""
    jobs = sorted(store.jobs(), key=lambda one: -one.id)
    earlier = list(
        islice((one for one in jobs if one.id < job and one.good and is_earlier(one)), MOST_EARLIER)
    )
    if not earlier or not store.has_edges(job):
        return
    sent = _sent_requests(store, earlier)
    [new] = [one for one in jobs if one.id == job]
    render = LateCellRequests(new)
    after = -1
    while page := store.unchanged.waiting_late(job, after, _PAGE):
        for index, provider, model in page:
            if not store.unchanged.may_start(job, index):
                continue
            try:
                request = render(store, index)
            except HeadwayError:
                continue  # It fails when it is run.
            units = sent.get(request_key(provider, model, request.path, request.body))
            if units:
                first = next(iter(units))
                del units[first]  # No answer is taken twice.
                store.unchanged.take(job, index, first, time.time())
        after = page[-1][0]


def _sent_requests(store: Store, jobs: Sequence[Job]) -> dict[bytes, dict[int, None]]:
    """The late requests of jobs, by their digests: the units that have their answers, in order."""
    sent: dict[bytes, dict[int, None]] = {}
    for job in jobs:
        for unit, provider, model, path, body in store.unchanged.sent_requests(job.id):
            sent.setdefault(request_key(provider, model, path, body), {})[unit] = None
    return sent
