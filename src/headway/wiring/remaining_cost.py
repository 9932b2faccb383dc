"""The likely cost of the rest of a job that ran out of money, from its units and earlier answers. Reads the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.config import Config
from headway.core.lanes.estimate import ENOUGH, INPUT_MARGIN
from headway.core.model import Price
from headway.engine.units.unit_cursors import at_the_most
from headway.forecast.answer_model import (
    NEW_INPUT_DOUBT,
    NEW_TOOK_DOUBT,
    AnswerModel,
    model_of,
    model_of_new_prompts,
)
from headway.stores.records import Job, PendingUnit, UsageSample
from headway.stores.store import Store
from headway.wiring.budget_reserves import open_output
from headway.wiring.model_prices import prices_of
from headway.wiring.usage_history import UsageHistories

#: Units are read in 100 evenly spaced stretches of 1,000: all of them up to 100,000.
STRETCHES: Final = 100
STRETCH: Final = 1_000
#: Some failed attempts are paid for, too.
MARGIN: Final = 1.1
#: How long answers to new prompts may be, compared with answers to other prompts.
OTHERS_DOUBT: Final = (0.5, 2.0)


def sufficient_cap_usd(config: Config, store: Store, job: Job) -> float:
    """A cap that probably lets the job finish: what is spent, what the rest costs if its answers are long, and what must be
    set aside for the last request.
    """
    prices = _prices(config, store, job)
    learned = _Learned(store, job)
    mean_usd = (
        job.cost_usd / job.good if job.good else 0.0
    )  # For functions, which report their cost afterwards.
    seen, rest_usd, largest_usd = 0, 0.0, 0.0
    for unit in _rest(store, job):
        price = prices.get(unit.route)
        seen += 1
        if price is None:
            rest_usd += mean_usd
            continue
        model, open_tokens, seen_input = learned.of(unit)
        most_usd = at_the_most(price, unit, open_tokens)
        seen_usd = price.most(seen_input, 0.0)
        rest_usd += max(seen_usd, min(most_usd, _likely_usd(price, model, unit)))
        largest_usd = max(largest_usd, most_usd + INPUT_MARGIN * seen_usd)
    share = (job.total - job.good) / seen if seen else 1.0  # Failed units run again, too.
    return job.cost_usd + job.unsure_usd + MARGIN * rest_usd * share + largest_usd


class _Learned:
    """For each family of a job: the model of its answers, what is set aside for an answer without max_tokens, and the average
    input if that is more than the text."""

    def __init__(self, store: Store, job: Job) -> None:
        self._job = job.id
        histories = UsageHistories(store)
        self._teachings = {route.id: histories.of(route) for route in store.routes(job.id)}
        self._known: dict[tuple[int, int], tuple[AnswerModel, float, float]] = {}

    def of(self, unit: PendingUnit) -> tuple[AnswerModel, float, float]:
        place = (unit.route, unit.family)
        if place not in self._known:
            teachings = self._teachings[unit.route]
            family = teachings.of_job(self._job).get(place)
            own = teachings.like(family, [self._job])
            model = model_of(own) if len(own) >= ENOUGH else _model_of_others(teachings.all())
            seen_input = 0.0
            if own and family is not None and family.open_input:
                seen_input = sum(one.input_tokens for one in own) / len(own)
            self._known[place] = (model, open_output(own), seen_input)
        return self._known[place]


def _model_of_others(lessons: list[UsageSample]) -> AnswerModel:
    """A model from answers to other prompts of the LLM: answers may be twice as long. With few of them nothing is known."""
    known = model_of(lessons)
    if not known.answers:
        return model_of_new_prompts(lessons)
    return msgspec.structs.replace(known, doubts=(NEW_INPUT_DOUBT, OTHERS_DOUBT, NEW_TOOK_DOUBT))


def _prices(config: Config, store: Store, job: Job) -> dict[int, Price | None]:
    routes = [route for route in store.routes(job.id) if route.provider in config.providers]
    known = prices_of(config, [(route.provider, route.model) for route in routes])
    return {route.id: known[route.provider, route.model] for route in routes}


def _likely_usd(price: Price, model: AnswerModel, unit: PendingUnit) -> float:
    """The cost of a unit if its answer is long."""
    more_in, more_out, _ = model.variants["high"]
    return price.cost(model.mean(unit.chars, unit.max_tokens, (more_in, more_out, 1.0)))


def _rest(store: Store, job: Job) -> Iterator[PendingUnit]:
    """The waiting units, or an even sample of them."""
    first = store.first_unended(job.id)
    if first is None:
        return
    step = max(STRETCH, -(-(job.total - first) // STRETCHES))
    for start in range(first, job.total, step):
        for unit in store.next_serial(job.id, start - 1, STRETCH, every=True):
            if unit.index < start + step:
                yield unit
