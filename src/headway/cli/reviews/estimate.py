"""`headway review --estimate`: files, tokens, cost and time of a review before it runs."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from headway.cli.plan import plan_json, print_plan
from headway.cli.run import counter
from headway.cli.shared import printing
from headway.config import Config
from headway.display.formatting import count
from headway.errors import UsageError
from headway.forecast.figures import RunOptions
from headway.forecast.review_forecast import Corrections, review_forecast
from headway.forecast.survey import Survey
from headway.jobs.base import IngestOptions
from headway.reviews.files.path_patterns import PathPatterns
from headway.reviews.running.review_form import REVIEW
from headway.reviews.running.review_source import ReviewPlan, ReviewSource, planned_groups
from headway.stores.records import TurnTotals
from headway.stores.store import Store
from headway.wiring.job_forecast import JobForecast, forecast_job
from headway.wiring.predictions import save_prediction
from headway.wiring.store_access import open_store_or_empty

#: Earlier reviews that show how many answers are corrected.
_NEWEST: Final = 5


def show_estimate(config: Config, plan: ReviewPlan, flags: dict[str, Any]) -> int:
    """Print the estimate. The run that follows compares it with what it took."""
    plan = _only_forced(plan, flags["again"])
    ahead = _ahead(config, plan, flags)
    if (prediction := ahead.prediction) is not None and not flags["again"]:
        save_prediction(config, ReviewSource(plan).digest, prediction)
    if flags["as_json"]:
        printing.print_json({"files": len(plan.files), "left_out": len(plan.left_out), **plan_json(ahead)})
    else:
        print_plan(_heading(plan), ahead)
    return 0


def _ahead(config: Config, plan: ReviewPlan, flags: dict[str, Any]) -> JobForecast:
    named = flags["concurrency"]
    files_at_once = config.review.concurrency if named is None else named
    # In input order, as reviews run.
    config = msgspec.structs.replace(config, run=msgspec.structs.replace(config.run, order="input"))
    fresh = plan.asks_again
    options = IngestOptions(fresh, False, counter(flags["quiet"]), printing.say_unless(flags["quiet"]))
    way = RunOptions(groups=planned_groups(plan, files_at_once))
    with open_store_or_empty(config) as store:
        ahead = forecast_job(
            config, store, ReviewSource(plan), way, os.environ, options=options, need_keys=False
        )
        forecast = review_forecast(ahead.forecast, files_at_once, _corrections(store, plan, ahead.survey))
    if plan.verifier is not None:
        note = f"--verify asks {plan.verifier} once more about each file with findings: that is not included"
        forecast = msgspec.structs.replace(forecast, notes=[*forecast.notes, note])
    return msgspec.structs.replace(ahead, forecast=forecast)


def _corrections(store: Store, plan: ReviewPlan, survey: Survey) -> Corrections:
    """What the newest reviews by the same model on the same axes took."""
    models = {(load.provider, load.model) for load in survey.loads}
    axes = {axis.name for axis in plan.axes}
    reviews = sorted((job for job in store.jobs() if job.kind == REVIEW), key=lambda job: -job.id)
    last, corrected = TurnTotals(), TurnTotals()
    for route in (route for job in reviews[:_NEWEST] for route in store.routes(job.id)):
        if (route.provider, route.model) in models and route.label in axes:
            of_last, of_corrected = store.turn_totals(route.id)
            last, corrected = last + of_last, corrected + of_corrected
    return Corrections(last, corrected)


def _only_forced(plan: ReviewPlan, patterns: tuple[str, ...]) -> ReviewPlan:
    """The plan with the files that --file means alone: they are asked about again."""
    if not patterns:
        return plan
    matches = PathPatterns(patterns).matches
    files = tuple(file for file in plan.files if matches(file.path))
    if not files:
        raise UsageError(f"--file {patterns[0]}: no file of this review matches", hint="see --dry-run")
    return msgspec.structs.replace(plan, files=files, asks_again=True)


def _heading(plan: ReviewPlan) -> str:
    parts = sum(len(file.parts) for file in plan.files)
    split = f" in {count(parts, 'part')}" if parts > len(plan.files) else ""
    left_out = f", {count(len(plan.left_out), 'other')} left out" if plan.left_out else ""
    axes = "1 axis" if len(plan.axes) == 1 else f"{len(plan.axes)} axes"
    return f"{count(len(plan.files), 'file')}{split}, {axes}{left_out}"
