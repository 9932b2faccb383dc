"""The models of a job side by side: answers, tokens, cost, latency."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from headway.batch.inputs.model_variants import models_of
from headway.reports.usage import UseReport, use_report
from headway.stores.records import Job, LatencyFigures, UsageTotals
from headway.stores.store import Store


class ModelReport(msgspec.Struct, frozen=True):
    """What one model of a job has done. Times are those of the last attempt of each unit that was sent."""

    units: int
    succeeded: int
    failed: int
    use: UseReport
    latency: LatencyFigures | None

    def fields(self) -> dict[str, object]:
        """The same as flat JSON fields."""
        return {
            "units": self.units,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "input_tokens": self.use.input_tokens,
            "output_tokens": self.use.output_tokens,
            "cost_usd": self.use.cost_usd,
            "latency": self.latency,
        }


def compared_models(store: Store, job: Job) -> dict[str, ModelReport]:
    """The models of a job with several, by the names that the user gave; empty for other jobs."""
    return {model: routes_report(store, job, routes_of(store, job, model)) for model in models_of(job)}


def routes_of(store: Store, job: Job, model: str) -> set[int]:
    """The route of a model of the job, by the name that the user gave; "": all routes."""
    if not model:
        return {route.id for route in store.routes(job.id)}
    provider, _, name = job.models[model]
    return {route.id for route in store.routes(job.id) if (route.provider, route.model) == (provider, name)}


def routes_report(store: Store, job: Job, routes: Collection[int]) -> ModelReport:
    """The report of the units of some routes."""
    total = UsageTotals()
    for route, use in store.use_by_route(job.id).items():
        if route in routes:
            total.add(use)
    units = good = ended_badly = 0
    for route, counts in store.per_route(job.id).items():
        if route in routes:
            units += sum(counts.values())
            good += counts.get("succeeded", 0) + counts.get("cached", 0)
            ended_badly += counts.get("failed", 0) + counts.get("timed_out", 0)
    return ModelReport(units, good, ended_badly, use_report(total), store.latencies(job.id, routes))
