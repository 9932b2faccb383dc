"""Settings, an input and the records of earlier jobs → a forecast. Reads the records, writes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headway.config import Config
from headway.config.kinds import EVAL_KINDS, kind_of
from headway.core.lanes.estimate import ENOUGH
from headway.forecast.answer_model import AnswerModel, model_of, model_of_new_prompts, model_of_other_rows
from headway.forecast.figures import Forecast, ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.lane_forecasts import forecast
from headway.forecast.program_forecasts import with_programs
from headway.forecast.survey import Load, Survey, To, survey
from headway.jobs.base import IngestOptions, JobSource
from headway.jobs.find_or_add import find, predecessors_of, siblings_of
from headway.reports.prediction import Prediction
from headway.stores.records import Job, UsageSample
from headway.stores.store import Store
from headway.wiring.agent_work import is_program
from headway.wiring.lane_records import LaneRecords, PlanKeys, WhatIf, changed
from headway.wiring.model_prices import must_be_known, price_place, prices_of, required_price
from headway.wiring.program_plans import ProgramPlans, is_side_by_side
from headway.wiring.usage_history import UsageHistory

#: The kind of job whose units are no rows.
_EVAL: Final = "eval"
#: Recorded units of a model that a forecast uses.
LESSONS: Final = 2_000


class JobForecast(msgspec.Struct, frozen=True):
    """What is known about a job before it runs. `job` is set if it was begun before."""

    survey: Survey
    forecast: Forecast
    job: Job | None

    @property
    def prediction(self) -> Prediction | None:
        """The short form, for a comparison with the run; None if its time is not known."""
        if not self.forecast.time_known:
            return None
        time_s, cost_usd = self.forecast.time_s, self.forecast.cost_usd
        cost = None
        if cost_usd is not None and all(lane.cost_usd is not None for lane in self.forecast.lanes):
            cost = (cost_usd.estimate, cost_usd.low, cost_usd.high)
        return Prediction(
            time.time(), self.forecast.requests, (time_s.estimate, time_s.low, time_s.high), cost
        )


def forecast_job(
    config: Config,
    store: Store,
    source: JobSource,
    way: RunOptions,
    environ: Mapping[str, str],
    *,
    options: IngestOptions,
    what_if: WhatIf | None = None,
    only_failed: bool = False,
    need_keys: bool = True,
) -> JobForecast:
    """Survey an input and forecast the rest of its job."""
    job = None if options.fresh else find(store, config, source)
    keys = PlanKeys(config, environ, optional=not need_keys)

    def check(provider: str, model: str) -> None:
        keys.of(provider)
        if must_be_known(config, provider, model):
            required_price(config, provider, model)

    sibling = None
    if job is None and not options.fresh:
        sibling = next(iter(siblings_of(store, config, source)), None)
    begun = job or sibling
    done = {} if begun is None else _done(store, begun, only_failed=only_failed)
    earlier = [] if begun or options.fresh else predecessors_of(store, config, source)
    reuse = None
    if earlier:
        reuse = store.unchanged.counter([one.id for one in earlier], source.row_numbers).takes
    surveyed = survey(config, source, options=options, check=check, done=done, reuse=reuse)
    same = [] if begun is None else [begun.id]
    lanes = _Lanes(changed(config, what_if or {}), store, keys, what_if or {})
    if is_side_by_side(begun):
        way = msgspec.structs.replace(way, side_by_side=True)
    forecast = _with_caps(config, lanes.forecast(surveyed.loads, way, same))
    word = "row" if source.kind != _EVAL else "unit"
    forecast = _with_chains(_with_reuse(forecast, surveyed, sibling, earlier), surveyed, word)
    return JobForecast(surveyed, forecast, job)


def _with_chains(forecast: Forecast, surveyed: Survey, word: str) -> Forecast:
    """The forecast with a note about rows (of an eval: units) that wait for others: in the simulation they do not."""
    if not surveyed.waiting:
        return forecast
    rows = f"1 {word} waits" if surveyed.waiting == 1 else f"{surveyed.waiting:,} {word}s wait"
    note = (
        f"{rows} for answers of other {word}s, up to {surveyed.longest_chain:,} answers one after the other: "
        "the time is without these waits, and their input is estimated"
    )
    return msgspec.structs.replace(forecast, notes=[note, *forecast.notes])


def _with_reuse(
    forecast: Forecast, surveyed: Survey, sibling: Job | None, earlier: Sequence[Job]
) -> Forecast:
    """The forecast with a note about answers that another job has: of the same rows, or of the input before it changed."""
    answered = surveyed.rows - forecast.requests
    if not answered or not (sibling or earlier):
        return forecast
    answers = "1 answer is" if answered == 1 else f"{answered:,} answers are"
    if sibling is not None:
        note = f"{answers} already there: job {sibling.name} has the same rows, with another --limit"
    else:
        note = f"{answers} already there: the input has changed since job {earlier[0].name}"
    return msgspec.structs.replace(forecast, notes=[note, *forecast.notes])


def _done(store: Store, job: Job, *, only_failed: bool) -> dict[To, int]:
    """How many rows of each route would not be sent: those with an answer; with `only_failed` all that have not failed."""
    done: dict[To, int] = {}
    counts = store.per_lane(job.id)
    # Units that were skipped because of a failed one are tried again with it.
    tried_again = ("failed", "timed_out", *(["skipped"] if only_failed and store.has_edges(job.id) else []))
    for route in store.routes(job.id):
        own = counts.get(f"{route.provider}/{route.model}", {})
        stay = own.get("succeeded", 0) + own.get("cached", 0)
        if only_failed:
            stay = sum(own.values()) - sum(own.get(status, 0) for status in tried_again)
        done[route.provider, route.model] = stay
    return done


def _with_caps(config: Config, forecast: Forecast) -> Forecast:
    """The forecast with notes about caps that the run would reach."""
    notes = list(forecast.notes)
    most, cost = config.run.max_cost_usd, forecast.cost_usd
    if most and cost is not None and cost.estimate > most:
        notes.append(f"the estimated cost is above max_cost: the run would stop at ${most:,.10g}")
    elif most and cost is not None and cost.high > most:
        notes.append(f"the cost may be above max_cost: then the run would stop at ${most:,.10g}")
    if (
        config.run.max_duration_s
        and forecast.time_known
        and forecast.time_s.estimate > config.run.max_duration_s
    ):
        notes.append("the estimated time is above max_duration: the run would stop there")
    if config.run.cache != "off":
        notes.append("answers in the cache are not subtracted")
    return msgspec.structs.replace(forecast, notes=notes)


def _with_local(forecast: Forecast, loads: list[Load]) -> Forecast:
    """The forecast with a note about code and programs of an eval: they have no tokens, and their time is not known."""
    calls: dict[str, int] = {}
    for load in loads:
        calls[load.provider] = calls.get(load.provider, 0) + load.requests
    listed = ", ".join(f"{count:,} of {name}" for name, count in calls.items())
    note = f"calls without tokens are not in these figures: {listed}"
    return msgspec.structs.replace(forecast, notes=[*forecast.notes, note])


class _Lanes:
    """Finds what is known about every lane that a job needs."""

    def __init__(self, config: Config, store: Store, keys: PlanKeys, what_if: WhatIf) -> None:
        self._config, self._store = config, store
        self._records = LaneRecords(config, store, keys, what_if)
        self._teachings: dict[To, UsageHistory] = {}

    def forecast(self, loads: list[Load], way: RunOptions, same: list[int]) -> Forecast:
        """The forecast of these loads. `same` are the jobs of the same rows."""
        local = [
            load for load in loads if kind_of(self._config.providers[load.provider]) in EVAL_KINDS.values()
        ]
        if local:
            asked = [load for load in loads if all(load is not one for one in local)]
            return _with_local(self.forecast(asked, way, same), local)
        programs = [load for load in loads if is_program(self._config.providers[load.provider])]
        others = [load for load in loads if not is_program(self._config.providers[load.provider])]
        found = self._simulated(others, way, same) if others or not programs else None
        if not programs:
            assert found is not None
            return found
        plans = ProgramPlans(self._config, self._store, way, self._records.utc)
        by_name: dict[To, list[Load]] = {}
        for load in programs:
            by_name.setdefault((load.provider, load.model), []).append(load)
        lanes = []
        for (name, model), own in by_name.items():
            provider = self._config.providers[name]
            lanes.append(plans.lane(provider, self._records.known(provider, model), own))
        return with_programs(found, lanes)

    def _simulated(self, loads: list[Load], way: RunOptions, same: list[int]) -> Forecast:
        """The forecast of requests to LLMs."""
        lanes: dict[str, LaneKnowledge] = {}
        courses = []
        prices = prices_of(self._config, [(load.provider, load.model) for load in loads])
        for load in loads:
            provider = self._config.providers[load.provider]
            known = self._records.known(provider, load.model)
            lanes.setdefault(known.spec.key, known)
            model = self._model(load, same)
            price = prices[load.provider, load.model]
            name, place = (
                f"{load.provider}/{load.model}",
                price_place(self._config, load.provider, load.model),
            )
            courses.append(ForecastRoute(known.spec.key, price, model, name, place))
        return forecast(loads, courses, lanes, way, utc=self._records.utc)

    def _model(self, load: Load, same: list[int]) -> AnswerModel:
        """AnswerModel of answers to similar requests; without any, what is known about the model."""
        to = (load.provider, load.model)
        if to not in self._teachings:
            self._teachings[to] = UsageHistory(self._store, *to)
        own = self._teachings[to].like(load.family, same)
        if len(own) >= ENOUGH:
            return model_of(thinned(own), load.requests, _limit(load))
        begun = self._teachings[to].of_same_rows(load.family, same)
        if len(begun) >= ENOUGH:
            return model_of_other_rows(thinned(begun), load.requests)
        return model_of_new_prompts(thinned(self._teachings[to].all()))


def _limit(load: Load) -> int:
    """The largest max_tokens; 0 if some answers have none."""
    return 0 if load.open_ended else max((row.max_tokens for row in load.sample), default=0)


def thinned(lessons: list[UsageSample]) -> list[UsageSample]:
    """An even sample of at most `LESSONS`."""
    return lessons[:: -(-len(lessons) // LESSONS) or 1]
