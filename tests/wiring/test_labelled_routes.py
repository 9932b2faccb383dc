"""The plan of a job with several routes to one model: each has the policy of its label, and all have the price of the model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.contract.records import end
from tests.jobs.lines_kind import LinesKind

from headway.config import Config, ProviderConfig
from headway.core.model import Price
from headway.engine.observer import PartProgress
from headway.jobs.base import OutputOptions, RoutePolicy
from headway.jobs.kinds import KINDS
from headway.reports.usage import uses_by_name
from headway.stores.records import Job, NewJob, NewUnit, StoredRoute, UsageTotals
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import Grow, WriteBatch
from headway.wiring import run_plan
from headway.wiring.budget_reserves import reserves
from headway.wiring.job_forecast import _done
from headway.wiring.run_plan import RunFlags, plan_of

PRICE = Price(1.0, 2.0)


class Growth:
    """Adds nothing."""

    def __call__(self, store: Store, ended: Sequence[int]) -> list[NewUnit]:
        return []

    def parts(self) -> tuple[PartProgress, ...]:
        return (PartProgress("draft", "running"),)


class LabelledKind(LinesKind):
    """Its routes have labels."""

    name = "labelled"
    makes_keys = True

    def growth(self, job: Job) -> Grow:
        return Growth()

    def stays_ended(self, store: Store, job: Job) -> list[int]:
        return [3]

    def route_policies(self, job: Job) -> Mapping[str, RoutePolicy]:
        return {
            "often": RoutePolicy(attempts=9, base_s=90.0, linear=True, timeout_s=5.0),
            "late": RoutePolicy(timeout_s=50.0),
        }


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setitem(KINDS, LabelledKind.name, LabelledKind())
    with Store(SqliteMemory()) as opened:
        job = opened.add_job(NewJob("job", "labelled", "in.lines", "d", "out", 100.0))
        labels = ("", "often", "late")
        routes = [opened.add_route(job, StoredRoute("alpha", "openai", "m", label=label)) for label in labels]
        opened.add_units(job, 0, [NewUnit(f"u{n}", routes[n % 3], "/p", b"{}", 10) for n in range(6)])
        opened.seal(job, 6, {}, "d")
        yield opened


def the_job(store: Store) -> Job:
    job = store.job("job")
    assert job is not None
    return job


def config_of(folder: Path, prices: dict[str, Price] | None = None) -> Config:
    provider = ProviderConfig("alpha", "openai", "http://127.0.0.1:1", "KEY", prices=prices or {})
    return Config(None, folder, str(folder / "headway.db"), {"alpha": provider})


def test_a_route_has_the_policy_of_its_label(store: Store, tmp_path: Path) -> None:
    flags = RunFlags(OutputOptions(tmp_path / "out"))
    spec = plan_of(config_of(tmp_path, {"": PRICE}), store, the_job(store), flags, {"KEY": "k"})
    plain, often, late = (spec.routes[route.id] for route in store.routes(1))

    assert (plain.retry, plain.timeout_s) == (None, 0.0)
    assert (late.retry, late.timeout_s) == (None, 50.0)
    assert often.timeout_s == 5.0
    assert often.retry is not None
    lane = spec.lanes[often.lane].spec.retry
    assert (often.retry.max_attempts, often.retry.base_s, often.retry.cap_s) == (9, 90.0, 90.0)
    assert (often.retry.linear, often.retry.jitter) == (True, lane.jitter)
    assert [route.price for route in (plain, often, late)] == [PRICE] * 3
    assert len(spec.lanes) == 1
    assert (spec.cache, spec.grown_keys, spec.stays_ended) == (None, True, frozenset({3}))
    assert spec.parts is not None
    assert spec.parts() == (PartProgress("draft", "running"),)


def test_a_price_that_is_looked_up_is_that_of_all_routes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def prices(config: Config, queries: dict[tuple[str, str], object]) -> dict[tuple[str, str], Price]:
        return dict.fromkeys(queries, PRICE)

    monkeypatch.setattr(run_plan, "ready_prices", lambda config, models: ({}, dict.fromkeys(models)))
    monkeypatch.setattr(run_plan, "prices_later", prices)
    _, later = run_plan._prices(config_of(tmp_path), store, the_job(store))
    assert later is not None
    assert asyncio.run(later())[0] == {route.id: PRICE for route in store.routes(1)}  # type: ignore[arg-type]


def test_usage_and_ends_of_a_model_are_those_of_all_its_routes(store: Store) -> None:
    batch = WriteBatch(1)
    for route in store.routes(1):
        batch.uses[route.id] = UsageTotals(attempts=2, cost_usd=0.5)
    store.commit(batch)
    end(store, 1, 0, "succeeded")
    end(store, 1, 1, "succeeded")

    [(name, use)] = uses_by_name(store, the_job(store)).items()
    assert (name, use.attempts, use.cost_usd) == ("alpha/m", 6, 1.5)
    assert _done(store, the_job(store), only_failed=False) == {("alpha", "m"): 2}


def test_a_reserve_of_a_model_is_said_once(store: Store, tmp_path: Path) -> None:
    config = config_of(tmp_path, {"": PRICE})
    capped = msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, max_cost_usd=5.0))
    prices = {route.id: PRICE for route in store.routes(1)}
    assert len(reserves(capped, store, the_job(store), prices)[1]) == 1
