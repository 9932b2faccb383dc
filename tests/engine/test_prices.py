"""Prices that become known during a run: no request waits for them, and no answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from tests.engine.test_engine import Adapter, Send, Watcher, ended, job_of, until

from headway.core.model import Kind, LaneBudget, LaneLimits, LaneSpec, Outcome, Price, Usage
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.providers.adapter import Answer, Request
from headway.reason_text import unit_error
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

USED = Usage(1000.0, 100.0)
PRICE = Price(1.0, 10.0)
COST = 0.002


async def answered(request: Request) -> Answer:
    return Answer(Outcome(usage=USED), status=200, body=b"{}")


def failing_first(kind: Kind, usage: Usage | None) -> Send:
    """The first attempt fails, all others are answered."""
    tries: list[Request] = []

    async def send(request: Request) -> Answer:
        tries.append(request)
        if len(tries) == 1:
            return Answer(Outcome(kind, usage, message="no"), status=None)
        return await answered(request)

    return send


def engine(
    store: Store,
    send: Send,
    units: int = 3,
    *,
    price: Price | None = None,
    later: Callable[[int], run_spec.PriceList] | None = None,
    lane_budget: LaneBudget | None = None,
    **more: object,
) -> tuple[Engine, Adapter, Watcher]:
    job = store.job("job") or job_of(store, units)
    [route] = store.routes(job.id)
    adapter, watcher = Adapter(send), Watcher()
    spec = LaneSpec(
        "lane", LaneLimits(max_concurrency=1), lane_budgets=() if lane_budget is None else (lane_budget,)
    )
    plan = run_spec.RunSpec(
        job=job,
        lanes={"lane": run_spec.RunLane(spec, "alpha/gpt-x", adapter)},
        routes={route.id: run_spec.UnitRoute("lane", price)},
        settings={},
        timeout_s=10.0,
        later_prices=None if later is None else later(route.id),
    )
    plan = msgspec.structs.replace(plan, **more)
    return Engine(lambda: store, plan, [watcher]), adapter, watcher


def costs(store: Store) -> list[float | None]:
    return [result.cost_usd for result in store.results(1, -1, 99)]


async def test_requests_do_not_wait_for_prices_but_answers_have_their_cost() -> None:
    store, told = Store(SqliteMemory()), asyncio.Event()

    def later(route: int) -> run_spec.PriceList:
        async def look() -> tuple[dict[int, Price], str]:
            await told.wait()
            return {route: PRICE}, ""

        return look

    run, adapter, _ = engine(store, answered, later=later)
    running = asyncio.ensure_future(ended(run))
    await until(lambda: len(adapter.sent) == 1)
    assert costs(store) == [None] * 3
    told.set()
    assert (await running).state == "complete"
    assert costs(store) == pytest.approx([COST] * 3)
    assert (await running).view.cost_usd == pytest.approx(3 * COST)


async def test_an_answer_that_waits_for_its_price_survives_a_cancellation() -> None:
    store, asked = Store(SqliteMemory()), asyncio.Event()

    def later(route: int) -> run_spec.PriceList:
        async def look() -> tuple[dict[int, Price], str]:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("it is never set")

        return look

    run, adapter, _ = engine(store, answered, later=later)
    running = asyncio.ensure_future(ended(run))
    await asked.wait()
    await until(lambda: len(adapter.sent) == 1)
    run.interrupt()
    run.interrupt()
    assert (await running).state == "interrupted"
    [first, *others] = store.results(1, -1, 9)
    assert (first.status, first.cost_usd, first.body) == ("succeeded", None, b"{}")
    assert {unit.status for unit in others} == {"pending"}


async def test_a_missing_price_is_reported_once_and_gives_no_cost() -> None:
    store = Store(SqliteMemory())

    def later(route: int) -> run_spec.PriceList:
        async def look() -> tuple[dict[int, Price], str]:
            return {}, "no price is known"

        return look

    run, _, watcher = engine(store, answered, later=later)
    assert (await ended(run)).view.cost_usd is None
    assert watcher.noted_events == ["cost"]
    assert [event.text for event in store.events(1) if event.what == "cost"] == ["no price is known"]
    assert costs(store) == [None] * 3
    job = store.job("job")
    assert job is not None
    assert (job.unpriced, job.known_usd, job.saved_tokens) == (3, None, 3300)


async def test_a_price_list_that_raises_does_not_fail_the_run() -> None:
    store = Store(SqliteMemory())

    def later(route: int) -> run_spec.PriceList:
        async def look() -> tuple[dict[int, Price], str]:
            raise RuntimeError("no")

        return look

    run, _, _ = engine(store, answered, later=later)
    assert (await ended(run)).state == "complete"
    assert [event.text for event in store.events(1) if event.what == "cost"] == [
        "prices could not be looked up: RuntimeError"
    ]


async def test_a_free_model_has_a_known_cost_of_zero() -> None:
    store = Store(SqliteMemory())
    run, _, _ = engine(store, answered, price=Price())
    assert (await ended(run)).view.cost_usd == 0.0
    assert costs(store) == [0.0] * 3


async def test_possible_cost_without_an_answer_is_counted_separately() -> None:
    store = Store(SqliteMemory())
    run, _, _ = engine(store, failing_first(Kind.TRANSIENT, USED), 2, price=PRICE)
    assert (await ended(run)).state == "complete"
    job = store.job("job")
    assert job is not None
    assert (job.repeated, job.saved_tokens) == (1, 2200)
    money = [job.cost_usd, job.repeated_usd, job.saved_usd]
    assert money == pytest.approx([3 * COST, COST, 2 * COST])
    assert sum(cost or 0.0 for cost in costs(store)) == pytest.approx(3 * COST), (
        "a unit costs what its tries did"
    )


@pytest.mark.parametrize(
    ("kind", "cost", "unsure"), [(Kind.RATE, 0.0, 0), (Kind.TIMEOUT, None, 1), (Kind.TRANSIENT, None, 1)]
)
async def test_an_attempt_without_usage_counts_its_estimate(
    kind: Kind, cost: float | None, unsure: int
) -> None:
    store = Store(SqliteMemory())
    run, _, _ = engine(store, failing_first(kind, None), 1, price=PRICE)
    assert (await ended(run)).state == "complete"
    first, *_ = store.attempts(1, 0)
    assert first.cost_usd == cost
    job = store.job("job")
    assert job is not None
    assert (job.unsure, job.unsure_usd > 0.0) == (unsure, bool(unsure))


async def test_units_of_a_killed_process_count_against_budgets() -> None:
    """Two units were sent when the process died: they may have cost 57 millionths each, and are sent again."""
    store = Store(SqliteMemory())
    job = job_of(store, 3)
    store.begin(job.id, {}, "", 1.0)
    lane = store.lane("lane", "alpha/gpt-x").id
    batch = WriteBatch(job.id)
    for index in (0, 1):
        batch.intend(index, lane)
    store.commit(batch)
    lane_budget = LaneBudget("alpha", 2 * 57e-6 + 56e-6)
    run, adapter, _ = engine(store, answered, price=PRICE, lane_budget=lane_budget)
    ending = await ended(run)
    assert (ending.state, len(adapter.sent)) == ("budget", 0)
    now = store.job("job")
    assert now is not None
    assert now.unsure == 2
    assert now.unsure_usd == pytest.approx(2 * 57e-6)
    [reason] = now.unfinished.values()
    code, message = unit_error(reason)
    assert code == "budget"
    assert message.startswith("alpha has cost $0.0001")
    assert " of its max_cost of $0.00017;" in message


async def test_a_run_with_a_failed_unit_and_a_spent_lane_budget_is_failed() -> None:
    store = Store(SqliteMemory())
    run, _, _ = engine(
        store, failing_first(Kind.INVALID, USED), price=PRICE, lane_budget=LaneBudget("alpha", COST + 50e-6)
    )
    assert (await ended(run)).state == "failed"
    run, _, _ = engine(store, answered, price=PRICE, lane_budget=LaneBudget("alpha", COST + 50e-6, COST))
    assert (await ended(run)).state == "budget"
