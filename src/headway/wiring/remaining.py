"""What the rest of a job that ran out of money may cost, from its units and from what answers were like. Reads the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.config import Config
from headway.core.model import Price, Usage
from headway.engine.source import at_the_most
from headway.forecast.habits import Habits, habits_of
from headway.stores.base import Store
from headway.stores.records import Job, Pending
from headway.wiring.forecasts import READ
from headway.wiring.prices import prices_of

#: Units are read in so many stretches of so many, evenly over the rest: all of it up to 100,000.
STRETCHES: Final = 100
STRETCH: Final = 1_000
#: Attempts that fail are paid for too, some of them.
MARGIN: Final = 1.1


def enough_usd(config: Config, store: Store, job: Job) -> float:
    """A cap that lets the job finish, as far as anybody can tell: what is spent, what the rest takes if its answers are
    as long as they may well be, and what has to be set aside for the last request.
    """
    prices = _prices(config, store, job)
    habits = {
        route.id: habits_of(store.lessons(route.provider, route.model, READ))
        for route in store.routes(job.id)
    }
    mean_usd = job.cost_usd / job.good if job.good else 0.0  # Of functions, which tell their cost afterwards.
    seen, rest_usd, largest_usd = 0, 0.0, 0.0
    for unit in _rest(store, job):
        price = prices.get(unit.route)
        seen += 1
        if price is None:
            rest_usd += mean_usd
            continue
        most_usd = at_the_most(price, unit)
        rest_usd += min(most_usd, _likely_usd(price, habits[unit.route], unit))
        largest_usd = max(largest_usd, most_usd)
    share = (job.total - job.good) / seen if seen else 1.0  # Those that failed run again, too.
    return job.cost_usd + job.unsure_usd + MARGIN * rest_usd * share + largest_usd


def _prices(config: Config, store: Store, job: Job) -> dict[int, Price | None]:
    routes = [route for route in store.routes(job.id) if route.provider in config.providers]
    known = prices_of(config, [(route.provider, route.model) for route in routes])
    return {route.id: known[route.provider, route.model] for route in routes}


def _likely_usd(price: Price, habits: Habits, unit: Pending) -> float:
    """What a unit costs where its answer is long."""
    more_in, more_out, _ = habits.minds["high"]
    drawn = habits.draw(unit.chars, unit.max_tokens, (more_in, more_out, 1.0), lambda: 0.5)
    return price.cost(Usage(drawn.input_tokens, drawn.output_tokens))


def _rest(store: Store, job: Job) -> Iterator[Pending]:
    """The units that wait, or some of them from everywhere."""
    first = store.first_unended(job.id)
    if first is None:
        return
    step = max(STRETCH, -(-(job.total - first) // STRETCHES))
    for start in range(first, job.total, step):
        for unit in store.next_serial(job.id, start - 1, STRETCH, every=True):
            if unit.index < start + step:
                yield unit
