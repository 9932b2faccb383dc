"""The usage of earlier units with the same prompt template, schema and parameters. Reads the records.

`batch.prompt_families` defines which requests are of one family. This file finds similar families in the records and reads the usage of
their units.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from headway.batch.prompt_families import alike, has_template
from headway.core.lanes.queueing.unit_lengths import Size, size_of
from headway.engine.units.unit_cursors import family_name
from headway.stores.records import Family, Job, StoredRoute, UsageSample
from headway.stores.store import Store

#: The most units of a model that are read.
READ: Final = 20_000
#: The same where only the order of units depends on it.
READ_FOR_ORDER: Final = 2_000
#: Families of earlier jobs that are compared with a job's own, and as many of those.
MOST_ALIKE: Final = 64


class UsageHistory:
    """The recorded usage of one model of a provider."""

    def __init__(self, store: Store, provider: str, model: str) -> None:
        self._store, self._provider, self._model = store, provider, model
        self._families = store.families(provider, model)
        self._all: list[UsageSample] | None = None
        self._of_job: dict[int, dict[tuple[int, int], Family]] = {}

    def all(self) -> list[UsageSample]:
        """The usage of all units."""
        if self._all is None:
            self._all = self._store.usage_samples(self._provider, self._model, READ)
        return self._all

    def like(self, family: Family | None, jobs: Collection[int] = ()) -> list[UsageSample]:
        """The usage of similar units, the newest job's first. `jobs` are those of the same rows: there the same shape is enough,
        unless the answered rows have a template of their own."""
        if family is None:
            return []
        return self._of(
            one
            for job, one in self._families
            if alike(family, one) or (job in jobs and one.shape == family.shape and not has_template(one))
        )

    def of_same_rows(self, family: Family | None, jobs: Collection[int]) -> list[UsageSample]:
        """The usage in these jobs, which have the same rows; their requests may differ from the rest."""
        if family is None:
            return []
        return self._of(one for job, one in self._families if job in jobs and one.shape == family.shape)

    def _of(self, families: Iterable[Family]) -> list[UsageSample]:
        same = {(one.route, one.number) for one in families}
        routes = {route for route, _ in same}
        if not routes:
            return []
        lessons = self._store.usage_samples(self._provider, self._model, READ, routes)
        return [lesson for lesson in lessons if (lesson.route, lesson.family) in same]

    def names_like(self, job: int, route: int, most: int) -> dict[tuple[int, int], str]:
        """The families whose units are like those of a job's route, by route and number, and the name of the job's own that each is
        like. The newest `most` of either are looked at."""
        own = {number: one for (place, number), one in self.of_job(job).items() if place == route}
        names = {(route, number): family_name(route, number) for number in (0, *own)}
        for _, other in self._families[:most]:
            for number, one in [*own.items()][:most]:
                if (other.route, other.number) not in names and alike(one, other):
                    names[other.route, other.number] = family_name(route, number)
        return names

    def of_job(self, job: int) -> dict[tuple[int, int], Family]:
        """The families of a job's units, by route and number."""
        if job not in self._of_job:
            own = {(one.route, one.number): one for number, one in self._families if number == job}
            self._of_job[job] = own
        return self._of_job[job]


class UsageHistories:
    """The recorded usage of the models of a job. Each is read once, however many routes lead to it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], UsageHistory] = {}

    def of(self, route: StoredRoute) -> UsageHistory:
        """The usage of the model of a route."""
        model = (route.provider, route.model)
        if model not in self._known:
            self._known[model] = UsageHistory(self._store, *model)
        return self._known[model]


def lengths_seen(store: Store, job: Job) -> dict[str, list[tuple[Size, float]]]:
    """The size and duration of units like those of this job, from its earlier runs and from other jobs, by the name of the family."""
    seen: dict[str, list[tuple[Size, float]]] = {}
    histories = UsageHistories(store)
    #: For each model: the names of families, by the route and number of a family that is like them.
    names: dict[tuple[str, str], dict[tuple[int, int], list[str]]] = {}
    for route in store.routes(job.id):
        alike_by_place = names.setdefault((route.provider, route.model), {})
        for place, name in histories.of(route).names_like(job.id, route.id, MOST_ALIKE).items():
            alike_by_place.setdefault(place, []).append(name)
    for (provider, model), alike_by_place in names.items():
        routes = {number for number, _ in alike_by_place}
        for one in store.usage_samples(provider, model, READ_FOR_ORDER, routes):
            for name in alike_by_place.get((one.route, one.family), ()):
                seen.setdefault(name, []).append((size_of(one.chars, one.max_tokens), one.took_s))
    return seen
