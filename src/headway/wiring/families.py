"""What earlier jobs taught about units like these: of the same prompt template, schema and parameters. Reads the records.

`batch.family` says which requests are of one family. Here the families of the records are looked through for those that
are alike, and what their units took is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from headway.batch.family import alike, has_template
from headway.config import Config, kind_of
from headway.core.lanes.estimate import ENOUGH, FIRST_RESERVE, KEPT, Estimator
from headway.core.model import Price
from headway.display.formatting import count, money
from headway.engine.source import at_the_most, family_name
from headway.stores.records import Family, Job, Pending, StoredRoute, UsageSample
from headway.stores.store import Store

#: Units that are read of what a model answered.
READ: Final = 20_000
#: Waiting units that are looked at for whether anything limits their answers.
LOOKED_AT: Final = 2_000


class Teachings:
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


# -- what a budget sets aside --------------------------------------------------------------------------------------


def reserves(
    config: Config, store: Store, job: Job, prices: Mapping[int, Price | None]
) -> tuple[dict[str, list[float]], list[str]]:
    """For a run with a cap: how long answers of each family were that nothing limits, and a line about each route with such
    units: what is set aside for them, and what would help. Nothing where no unit that waits is such a one.
    """
    routes = {route.id: route for route in store.routes(job.id) if _capped(config, route)}
    if not routes:
        return {}, []
    waiting = store.next_serial(job.id, -1, LOOKED_AT, every=True)
    open_ended = [unit for unit in waiting if unit.max_tokens == 0 and unit.route in routes]
    outputs: dict[str, list[float]] = {}
    lines: list[str] = []
    for number in dict.fromkeys(unit.route for unit in open_ended):
        price, route = prices.get(number), routes[number]
        if price is None:
            continue
        own = [unit for unit in open_ended if unit.route == number]
        seen = _seen(Teachings(store, route.provider, route.model), job.id, own)
        outputs |= seen
        lines.append(_line(route, price, own, seen))
    return outputs, lines


def open_inputs(config: Config, store: Store, job: Job) -> dict[int, frozenset[int]]:
    """For a run with a cap: of each route the families whose input is more than their text. 0 are units of no family, of which
    nothing is known.
    """
    found: dict[int, frozenset[int]] = {}
    for route in store.routes(job.id):
        if _capped(config, route):
            own = Teachings(store, route.provider, route.model).of_job(job.id)
            numbers = {number for (place, number), one in own.items() if place == route.id and one.open_input}
            found[route.id] = frozenset(numbers | {0}) if own else frozenset()
    return found


def _capped(config: Config, route: StoredRoute) -> bool:
    provider = config.providers[route.provider]
    caps = (config.run.max_cost_usd, provider.max_cost_usd, provider.max_costs.get(route.model))
    return any(caps) and not kind_of(provider).reports_cost


def _seen(teachings: Teachings, job: int, units: list[Pending]) -> dict[str, list[float]]:
    known, found = teachings.of_job(job), {}
    for route, number in dict.fromkeys((unit.route, unit.family) for unit in units):
        lessons = teachings.like(known.get((route, number)), [job])
        if lessons:
            latest = lessons[:KEPT]
            found[family_name(route, number)] = [float(one.output_tokens) for one in reversed(latest)]
    return found


def _line(route: StoredRoute, price: Price, units: list[Pending], seen: Mapping[str, list[float]]) -> str:
    """What is set aside for answers that nothing limits."""
    estimator = Estimator()
    for family, outputs in seen.items():
        estimator.saw(family, outputs)
    names = {family_name(unit.route, unit.family): unit for unit in units}
    largest = max(names, key=estimator.reserve)
    tokens = estimator.reserve(largest)
    usd = at_the_most(price, names[largest], tokens)
    if all(map(estimator.knows, names)):
        why = f", by {count(sum(map(len, seen.values())), 'answer')} to such prompts"
    else:
        why = f" until {ENOUGH} answers are seen"
    return (
        f"{route.name}: no max_tokens, so {tokens:,.0f} output tokens are set aside for each request{why}: "
        f"{money(usd)}. --max-tokens N limits it"
    )


def open_output(lessons: list[UsageSample]) -> float:
    """The output tokens that are set aside for an answer that nothing limits, by what was seen."""
    estimator = Estimator()
    estimator.saw("", [float(one.output_tokens) for one in reversed(lessons[:KEPT])])
    return estimator.reserve("") if lessons else FIRST_RESERVE
