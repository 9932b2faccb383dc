"""Requests that were never sent cost nothing, in the budget and in the records."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.test_engine import Send, ended, until
from tests.engine.test_prices import PRICE, USED, answered, engine

from headway.core.model import Kind, Outcome, Usage
from headway.providers.adapter import Answer, Request, mark_unsent
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


def first_outcome(outcome: Outcome) -> Send:
    """The first attempt ends like this, all others are answered."""
    tries: list[Request] = []

    async def send(request: Request) -> Answer:
        tries.append(request)
        return Answer(outcome) if len(tries) == 1 else await answered(request)

    return send


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.TIMEOUT])
@pytest.mark.parametrize("sent", [False, True])
async def test_only_sent_requests_have_an_unsure_cost(kind: Kind, sent: bool) -> None:
    store = Store(SqliteMemory())
    lost = Outcome(kind, message="lost", reached=False, sent=sent)
    run, _, _ = engine(store, first_outcome(lost), 1, price=PRICE, max_cost_usd=1.0)
    assert (await ended(run)).state == "complete"
    job = store.job("job")
    assert job is not None
    assert (job.unsure, job.unsure_usd > 0.0) == ((1, True) if sent else (0, False))
    first, *_ = store.attempts(1, 0)
    assert first.cost_usd == (None if sent else 0.0)
    spent_usd = run._scheduler.budget.spent_usd
    assert spent_usd == pytest.approx(job.cost_usd + job.unsure_usd), "the budget and the records agree"


async def test_a_dead_provider_uses_up_no_budget() -> None:
    """Two requests would fit the cap; a hundred refused connections leave it as it was."""
    store, tries = Store(SqliteMemory()), [0]

    async def send(request: Request) -> Answer:
        tries[0] += 1
        if tries[0] <= 3:
            return Answer(Outcome(Kind.TRANSIENT, message="refused", reached=False, sent=False))
        return await answered(request)

    run, _, _ = engine(store, send, 1, price=PRICE, max_cost_usd=0.0021)
    assert (await ended(run)).state == "complete"


@pytest.mark.parametrize("sent", [False, True])
async def test_an_attempt_cancelled_while_connecting_costs_nothing(sent: bool) -> None:
    store = Store(SqliteMemory())
    out = asyncio.Event()

    async def send(request: Request) -> Answer:
        out.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as called_off:
            if not sent:
                mark_unsent(called_off)
            raise
        raise AssertionError("it is never set")

    run, adapter, _ = engine(store, send, 1, price=PRICE, max_cost_usd=1.0)
    running = asyncio.ensure_future(ended(run))
    await until(lambda: len(adapter.sent) == 1)
    await out.wait()
    run.interrupt()
    run.interrupt()
    assert (await running).state == "interrupted"
    job = store.job("job")
    assert job is not None
    assert job.unsure == int(sent)
    assert run._scheduler.budget.spent_usd == pytest.approx(job.unsure_usd)


async def test_usage_reported_before_a_broken_answer_is_known_and_the_rest_unsure() -> None:
    store = Store(SqliteMemory())
    cut = Outcome(Kind.TRANSIENT, Usage(10.0, 1.0, partial=True), message="broke off")
    run, _, _ = engine(store, first_outcome(cut), 1, price=PRICE, max_cost_usd=1.0)
    assert (await ended(run)).state == "complete"
    job = store.job("job")
    assert job is not None
    told_usd, whole_usd = PRICE.cost(Usage(10.0, 1.0)), PRICE.cost(USED)
    assert job.cost_usd == pytest.approx(told_usd + whole_usd)
    assert (job.unsure, job.repeated) == (1, 1)
    assert job.unsure_usd == pytest.approx(57e-6 - told_usd), "up to what was reserved for it"
    assert run._scheduler.budget.spent_usd == pytest.approx(job.cost_usd + job.unsure_usd)
    assert not run._scheduler.lanes["lane"].unit_costs.estimator.knows("1.0")
