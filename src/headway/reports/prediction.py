"""The prediction for a job, compared with its result."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from headway.stores.records import Job
from headway.stores.store import Store

#: The key of the prediction in a job's settings.
SETTING: Final = "predicted"


class Prediction(msgspec.Struct, frozen=True):
    """The totals of a forecast. `began_utc` and `spent_usd` are set when a run starts with it."""

    planned_utc: float
    requests: int
    time_s: tuple[float, float, float]
    cost_usd: tuple[float, float, float] | None
    began_utc: float = 0.0
    spent_usd: float = 0.0


class Comparison(msgspec.Struct, frozen=True):
    """A prediction and the result so far."""

    predicted: Prediction
    took_s: float
    cost_usd: float
    over: bool


def comparison(store: Store, job: Job) -> Comparison | None:
    """The prediction of a job, if it has one, and the result of all runs since then, without the time between them."""
    if SETTING not in job.settings:
        return None
    predicted = msgspec.convert(job.settings[SETTING], Prediction)
    workers = (worker for worker in store.workers(job.id) if worker["run"] is None)
    runs = [run for run in workers if run["started_utc"] >= predicted.began_utc]
    took_s = sum((run["ended_utc"] or time.time()) - run["started_utc"] for run in runs)
    over = job.state in ("complete", "failed")
    return Comparison(predicted, took_s, job.cost_usd - predicted.spent_usd, over)
