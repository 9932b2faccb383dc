"""What was predicted for a job, beside what it came to."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from headway.stores.records import Job
from headway.stores.store import Store

#: Where a job's settings have its prediction.
SETTING: Final = "predicted"


class Prediction(msgspec.Struct, frozen=True):
    """What a forecast said of a whole run. `began_utc` and `spent_usd` are set when a run takes it up."""

    planned_utc: float
    requests: int
    time_s: tuple[float, float, float]
    cost_usd: tuple[float, float, float] | None
    began_utc: float = 0.0
    spent_usd: float = 0.0


class Comparison(msgspec.Struct, frozen=True):
    """What was predicted, and what it has come to."""

    predicted: Prediction
    took_s: float
    cost_usd: float
    over: bool


def comparison(store: Store, job: Job) -> Comparison | None:
    """Prediction and result of a job that has a prediction: all runs since then, without the time between them."""
    if SETTING not in job.settings:
        return None
    predicted = msgspec.convert(job.settings[SETTING], Prediction)
    runs = [run for run in store.workers(job.id) if run["started_utc"] >= predicted.began_utc]
    took_s = sum((run["ended_utc"] or time.time()) - run["started_utc"] for run in runs)
    over = job.state in ("complete", "failed")
    return Comparison(predicted, took_s, job.cost_usd - predicted.spent_usd, over)
