"""The cap on what a job may cost, changed while it runs or for its next run."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from headway.config import Config, with_overrides
from headway.jobs.kinds import must_take_commands
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.model_prices import must_be_known, required_price
from headway.wiring.steering import control_requests
from headway.wiring.steering.own_budget import BUDGET, budget_text


class NewBudget(msgspec.Struct, frozen=True):
    """The new cap of a job in USD; 0: none. `running`: a process runs the job, `taken`: it has taken the cap."""

    job: str
    max_cost_usd: float
    spent_usd: float
    running: bool
    taken: bool

    def fields(self) -> dict[str, Any]:
        """It as JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def text(self) -> str:
        """It for people."""
        cap = budget_text(self.max_cost_usd)
        spent = f"; ${self.spent_usd:,.10g} is spent" if self.spent_usd else ""
        if not self.running:
            return f"job {self.job}: {cap} from its next run on{spent}"
        late = "" if self.taken else " (it has not answered yet)"
        return f"asked job {self.job} to keep to {cap}{spent}{late}"


def set_budget(config: Config, store: Store, job: Job, max_cost_usd: float) -> NewBudget:
    """Give a job another cap, and tell the process that runs it. Raises if a price is unknown that the cap needs."""
    must_take_commands(job)
    capped = with_overrides(config, max_cost=max_cost_usd)
    for route in store.routes(job.id):
        if route.provider in capped.providers and must_be_known(capped, route.provider, route.model):
            required_price(capped, route.provider, route.model)
    store.set_settings(job.id, {**job.settings, BUDGET: max_cost_usd})
    spent_usd = round(job.cost_usd + job.unsure_usd, 10)
    running = control_requests.is_live(config, job)
    taken = False
    if running:
        command = store.add_command(job.id, "budget", {"max_cost_usd": max_cost_usd}, time.time())
        taken = control_requests.wait(
            lambda: store.is_done(command), lambda: control_requests.is_live(config, job)
        )
    return NewBudget(job.name, max_cost_usd, spent_usd, running, taken)
