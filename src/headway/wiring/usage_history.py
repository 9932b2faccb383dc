"""What earlier jobs taught about units like these: of the same prompt template, schema and parameters. Reads the records.

`batch.family` says which requests are of one family. Here the families of the records are looked through for those that
are alike, and what their units took is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headway.batch.family import alike, has_template
from headway.stores.records import Family, UsageSample
from headway.stores.store import Store

#: Units that are read of what a model answered.
READ: Final = 20_000


class UsageHistory:
    """What was learned of one model of a provider."""

    def __init__(self, store: Store, provider: str, model: str) -> None:
        self._store, self._provider, self._model = store, provider, model
        self._families = store.families(provider, model)
        self._all: list[UsageSample] | None = None

    def all(self) -> list[UsageSample]:
        """Of whatever was asked there."""
        if self._all is None:
            self._all = self._store.lessons(self._provider, self._model, READ)
        return self._all

    def like(self, family: Family | None, jobs: Collection[int] = ()) -> list[UsageSample]:
        """Of units like these, the newest job's first. `jobs` are those of the same rows: there the shape is enough, unless the
        rows that were answered have a template of their own."""
        if family is None:
            return []
        return self._of(
            one
            for job, one in self._families
            if alike(family, one) or (job in jobs and one.shape == family.shape and not has_template(one))
        )

    def of_same_rows(self, family: Family | None, jobs: Collection[int]) -> list[UsageSample]:
        """Of these jobs, which are of the same rows: they may ask something else than the rest does."""
        if family is None:
            return []
        return self._of(one for job, one in self._families if job in jobs and one.shape == family.shape)

    def _of(self, families: Iterable[Family]) -> list[UsageSample]:
        same = {(one.route, one.number) for one in families}
        routes = {route for route, _ in same}
        if not routes:
            return []
        lessons = self._store.lessons(self._provider, self._model, READ, routes)
        return [lesson for lesson in lessons if (lesson.route, lesson.family) in same]

    def of_job(self, job: int) -> dict[tuple[int, int], Family]:
        """The families of a job's units, by route and number."""
        return {(one.route, one.number): one for number, one in self._families if number == job}
