"""`--verify`: when all axes of a file have an answer and something was found, one more unit asks a second model to refute the findings.

The unit is added in the transaction that records the last of those answers, so a crash loses nothing. If an earlier review asked the
same, its verdict is taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from headway.config.routing import Target
from headway.reviews.findings.source_text import SourceText
from headway.reviews.findings.verification import must_be_verified, verify_question
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import REVIEW, kept_text
from headway.reviews.running.review_requests import QuestionRequests
from headway.reviews.running.unit_names import VERIFY, verify_unit
from headway.stores.records import Job, NewUnit, StoredRoute
from headway.stores.store import Store

#: Earlier reviews whose verdicts are searched, the newest first.
_MOST_EARLIER: Final = 5


class VerificationUnits:
    """Adds the units of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._results: FileResults | None = None

    def _results_of(self, store: Store) -> FileResults:
        if self._results is None or self._results.store is not store:
            self._results = FileResults(store, self._job)
        return self._results

    def __call__(self, store: Store, ended: Sequence[int]) -> Sequence[NewUnit]:
        """See `stores.write_batch.Grow`."""
        if not ended:
            return ()
        results = self._results_of(store)
        files = results.files
        units = files.of_units
        numbers = sorted({units.number_of(index) for index in ended if index < units.units})
        made = (self._unit(store, results, number) for number in numbers)
        return [unit for unit in made if unit is not None]

    def _unit(self, store: Store, results: FileResults, number: int) -> NewUnit | None:
        """The unit of a file; None if an axis has no answer, or nothing was found."""
        found = results.findings(number)
        if found is None or not must_be_verified(found):
            return None
        path = results.files[number].path
        source = SourceText(path, kept_text(store, self._job.id, number))
        route = _route_of(store, self._job.id)
        requests = QuestionRequests(Target(route.provider, route.kind, route.model))
        row = requests.row(verify_unit(path), verify_question(found, source))
        new = NewUnit(row.custom_id, route.id, row.path, row.body, row.chars, int(row.max_tokens))
        return self._with_answer(store, new, route)

    def _with_answer(self, store: Store, new: NewUnit, route: StoredRoute) -> NewUnit:
        """With the answer of an earlier review to the same request."""
        if self._job.form.get("fresh"):
            return new
        jobs = sorted(store.jobs(), key=lambda job: -job.id)
        earlier = (job for job in jobs if job.id < self._job.id and job.kind == REVIEW and job.good)
        request = (route.provider, route.model, new.path, bytes(new.body))
        for job in islice(earlier, _MOST_EARLIER):
            source = store.unchanged.same_request(job.id, new.custom_id, request)
            if source is not None:
                return NewUnit(
                    new.custom_id, new.route, new.path, new.body, new.chars, new.max_tokens, source=source
                )
        return new


def _route_of(store: Store, job: int) -> StoredRoute:
    """The route of the units that verify."""
    return next(route for route in store.routes(job) if route.label == VERIFY)
