"""Which answers of earlier jobs are used to estimate the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.records import end

from headway.batch.prompt_families import Families, traits_of
from headway.config import Config, ProviderConfig
from headway.core.lanes.queueing.unit_lengths import size_of
from headway.stores.records import Family, Job, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.wiring.budget_reserves import open_inputs
from headway.wiring.usage_history import UsageHistory, lengths_seen

ESSAY, YES, FREE = "Please write a long essay about {}", "Answer yes or no: is {} nice?", "{}"


def family(*templates: str, rows: int = 40) -> Family:
    families = Families()
    for number in range(rows):
        text = templates[number % len(templates)].format(
            " ".join(f"{number:b}".replace("0", "river ").split("1"))
        )
        body = {"messages": [{"role": "user", "content": text}]}
        families.number(1, traits_of("/p", body, (), 0.0, templated=False))
    return families.all()[0]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(SqliteMemory()) as opened:
        yield opened


def answered(store: Store, its: Family) -> int:
    job = store.add_job(NewJob("one", "batch", "in", "d", "out", 100.0))
    route = store.add_route(job, StoredRoute("alpha", "openai", "m"))
    store.add_units(job, 0, [NewUnit(f"u{n}", route, "/p", b"{}", 80, family=1) for n in range(20)])
    store.add_families(job, [Family(route, 1, its.shape, its.firm, its.rows, its.words)])
    store.seal(job, 20, {}, "d")
    store.begin(job, {}, "o", 200.0)
    for index in range(20):
        end(store, job, index, "succeeded", started_utc=299.0, input_tokens=20, output_tokens=900)
    return job


def test_the_rest_of_a_file_is_estimated_from_its_beginning(store: Store) -> None:
    job = answered(store, family(FREE))
    teachings = UsageHistory(store, "alpha", "m")
    assert len(teachings.like(family(FREE), [job])) == 20
    assert teachings.like(family(FREE)) == []


def test_a_beginning_with_another_template_is_not_used(store: Store) -> None:
    job = answered(store, family(ESSAY))
    teachings = UsageHistory(store, "alpha", "m")
    assert len(teachings.like(family(ESSAY, rows=90), [job])) == 20
    both = family(ESSAY, YES)
    assert teachings.like(both, [job]) == []
    assert len(teachings.of_same_rows(both, [job])) == 20
    assert teachings.of_same_rows(both, []) == []


def test_a_run_with_a_cap_knows_families_whose_input_exceeds_their_text(store: Store) -> None:
    job = store.add_job(NewJob("one", "batch", "in", "d", "out", 100.0))
    capped, free = (store.add_route(job, StoredRoute(name, "openai", "m")) for name in ("alpha", "beta"))
    for route in (capped, free):
        store.add_families(
            job, [Family(route, 1, 7, False, 5), Family(route, 2, 8, False, 5, open_input=True)]
        )
    store.seal(job, 0, {}, "d")
    now = store.job("one")
    assert now is not None
    alpha = ProviderConfig("alpha", "openai", "http://127.0.0.1:1", "KEY", max_cost_usd=1.0)
    beta = ProviderConfig("beta", "openai", "http://127.0.0.1:1", "KEY")
    config = Config(None, Path(), "headway.db", {"alpha": alpha, "beta": beta})
    assert open_inputs(config, store, now) == {capped: frozenset({0, 2})}


def prepared(store: Store, its: Family) -> tuple[Job, int]:
    """A job that has not run yet, and its route."""
    number = store.add_job(NewJob("two", "batch", "in", "e", "out", 100.0))
    route = store.add_route(number, StoredRoute("alpha", "openai", "m"))
    store.add_families(number, [Family(route, 1, its.shape, its.firm, its.rows, its.words)])
    store.seal(number, 0, {}, "e")
    job = store.job("two")
    assert job is not None
    return job, route


def test_how_long_units_took_is_known_from_jobs_of_the_same_template(store: Store) -> None:
    answered(store, family(ESSAY))
    job, route = prepared(store, family(ESSAY, rows=90))
    assert lengths_seen(store, job) == {f"{route}.1": [(size_of(80, 0), 1.0)] * 20}


def test_how_long_units_took_is_known_from_the_jobs_own_earlier_runs(store: Store) -> None:
    answered(store, family(FREE))
    job = store.job("one")
    assert job is not None
    [route] = store.routes(job.id)
    assert lengths_seen(store, job) == {f"{route.id}.1": [(size_of(80, 0), 1.0)] * 20}


def test_how_long_units_of_another_template_took_says_nothing(store: Store) -> None:
    answered(store, family(ESSAY))
    job, _ = prepared(store, family(YES))
    assert lengths_seen(store, job) == {}
