"""What a run with a cap sets aside for each request: for answers without max_tokens, and for input beyond the text. Reads the records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headway.config import Config, kind_of
from headway.core.lanes.estimate import ENOUGH, FIRST_RESERVE, KEPT, Estimator
from headway.core.model import Price
from headway.display.formatting import count, money
from headway.engine.units.unit_cursors import at_the_most, family_name
from headway.stores.records import Job, PendingUnit, StoredRoute, UsageSample
from headway.stores.store import Store
from headway.wiring.usage_history import UsageHistories, UsageHistory

#: Waiting units that are checked for max_tokens.
LOOKED_AT: Final = 2_000


def reserves(
    config: Config, store: Store, job: Job, prices: Mapping[int, Price | None]
) -> tuple[dict[str, list[float]], list[str]]:
    """For a run with a cap: the lengths of answers without max_tokens by family, and a line for each model that has such
    units: what is reserved for them, and how to limit it. Empty if no waiting unit is without max_tokens.
    """
    routes = {route.id: route for route in store.routes(job.id) if _capped(config, route)}
    if not routes:
        return {}, []
    waiting = store.next_serial(job.id, -1, LOOKED_AT, every=True)
    open_ended = [unit for unit in waiting if unit.max_tokens == 0 and unit.route in routes]
    outputs: dict[str, list[float]] = {}
    lines: list[str] = []
    for name in dict.fromkeys(routes[unit.route].name for unit in open_ended):
        own = [unit for unit in open_ended if routes[unit.route].name == name]
        price, route = prices.get(own[0].route), routes[own[0].route]
        if price is None:
            continue
        seen = _seen(UsageHistory(store, route.provider, route.model), job.id, own)
        outputs |= seen
        lines.append(_line(route, price, own, seen))
    return outputs, lines


def open_inputs(config: Config, store: Store, job: Job) -> dict[int, frozenset[int]]:
    """For a run with a cap: the families of each route whose input is more than their text. Family 0 is units without a
    family, about which nothing is known.
    """
    families: dict[int, frozenset[int]] = {}
    histories = UsageHistories(store)
    for route in store.routes(job.id):
        if _capped(config, route):
            own = histories.of(route).of_job(job.id)
            numbers = {number for (place, number), one in own.items() if place == route.id and one.open_input}
            families[route.id] = frozenset(numbers | {0}) if own else frozenset()
    return families


def _capped(config: Config, route: StoredRoute) -> bool:
    provider = config.providers[route.provider]
    caps = (config.run.max_cost_usd, provider.max_cost_usd, provider.max_costs.get(route.model))
    return any(caps) and not kind_of(provider).reports_cost


def _seen(teachings: UsageHistory, job: int, units: list[PendingUnit]) -> dict[str, list[float]]:
    known, found = teachings.of_job(job), {}
    for route, number in dict.fromkeys((unit.route, unit.family) for unit in units):
        lessons = teachings.like(known.get((route, number)), [job])
        if lessons:
            latest = lessons[:KEPT]
            found[family_name(route, number)] = [float(one.output_tokens) for one in reversed(latest)]
    return found


def _line(route: StoredRoute, price: Price, units: list[PendingUnit], seen: Mapping[str, list[float]]) -> str:
    """The line about what requests without max_tokens reserve."""
    estimator = Estimator()
    for family, outputs in seen.items():
        estimator.add_outputs(family, outputs)
    names = {family_name(unit.route, unit.family): unit for unit in units}
    largest = max(names, key=estimator.reserve)
    tokens = estimator.reserve(largest)
    usd = at_the_most(price, names[largest], tokens)
    if all(map(estimator.knows, names)):
        why = f", based on {count(sum(map(len, seen.values())), 'answer')} to similar prompts"
    else:
        why = f" until {ENOUGH} answers have been seen"
    return (
        f"{route.name}: each request without max_tokens reserves {tokens:,.0f} output tokens ({money(usd)}){why}; "
        "use --max-tokens N to limit it"
    )


def open_output(lessons: list[UsageSample]) -> float:
    """The output tokens that are reserved for an answer without max_tokens, given earlier answers."""
    estimator = Estimator()
    estimator.add_outputs("", [float(one.output_tokens) for one in reversed(lessons[:KEPT])])
    return estimator.reserve("") if lessons else FIRST_RESERVE
