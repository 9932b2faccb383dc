"""The cap that is suggested when a run is out of money: probably enough for the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.records import end

from headway.config import Config, ProviderConfig
from headway.core.model import Price
from headway.stores.records import Family, Job, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.wiring.remaining_cost import sufficient_cap_usd

PRICE = Price(10.0, 10.0)


def job_with_answers(store: Store, answers: int) -> Job:
    """Fifty requests with a file; each answered one had 25,000 input tokens."""
    number = store.add_job(NewJob("one", "batch", "in", "d", "out", 100.0))
    route = store.add_route(number, StoredRoute("alpha", "openai", "m"))
    body = b'{"messages": [{"role": "user", "content": "What is on it?"}]}'
    store.add_units(number, 0, [NewUnit(f"u{n}", route, "/p", body, 4_014, 5, family=1) for n in range(50)])
    store.add_families(number, [Family(route, 1, 77, False, 50, (3, 5), True)])
    store.seal(number, 50, {}, "d")
    store.begin(number, {}, "o", 200.0)
    for index in range(answers):
        end(store, number, index, "succeeded", started_utc=299.0, input_tokens=25_000, output_tokens=5)
    job = store.job("one")
    assert job is not None
    return job


@pytest.mark.parametrize("answers", [1, 4, 20])
def test_requests_with_files_cost_as_much_as_those_that_were_answered(tmp_path: Path, answers: int) -> None:
    provider = ProviderConfig("alpha", "openai", "http://127.0.0.1:1", "KEY", prices={"": PRICE})
    config = Config(None, tmp_path, str(tmp_path / "headway.db"), {"alpha": provider})
    with Store(SqliteMemory()) as store:
        job = job_with_answers(store, answers)
        rest_usd = (50 - answers) * PRICE.most(25_000.0, 0.0)
        assert rest_usd < sufficient_cap_usd(config, store, job) < 1.5 * rest_usd + 1.0
