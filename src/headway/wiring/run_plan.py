"""From settings, keys and a job's routes to the plan of a run: lanes, adapters, prices, budgets. Starts nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headway.batch.inputs.then_unit import ThenUnit, growth
from headway.config import (
    Config,
    ProviderConfig,
    account_of,
    dotenv_of,
    identity_of,
    key_to_send,
    keys_of,
    kind_of,
    lane_key,
    with_agents,
)
from headway.core.lanes.lane_memory import LaneRecord
from headway.core.model import LaneBudget, LaneSpec, Price
from headway.display.log_file import LogStyle
from headway.engine.attempt_tracer import AttemptTracer
from headway.engine.cache_keys import CacheUse, ModelAddress
from headway.engine.run_spec import AttemptListener, PriceList, RunLane, RunSpec, UnitRoute
from headway.errors import ConfigError
from headway.jobs.base import AnswerCheck, OutputOptions, RoutePolicy
from headway.jobs.kinds import run_kind_of
from headway.jobs.run_settings import ADDRESSES, CONCURRENCY, LIMITS, UNTIL, FileLimits, limits_of
from headway.metrics.open_port import MetricsSocket
from headway.providers.adapter import Adapter
from headway.providers.dialects.addresses import root_of
from headway.providers.limits.profiles import profile_for
from headway.providers.scrubber import secrets_in_environment
from headway.reports.prediction import Prediction
from headway.stores.records import Job, StoredRoute
from headway.stores.store import Store
from headway.stores.submissions import SERVED
from headway.wiring.agent_work import SETTING as AGENTS
from headway.wiring.agent_work import AgentOptions, AgentWork
from headway.wiring.budget_reserves import open_inputs, reserves
from headway.wiring.builders import Check, builder_of
from headway.wiring.model_prices import (
    Model,
    must_be_known,
    prices_later,
    ready_prices,
    required_price,
    unpriced_line,
)
from headway.wiring.predictions import prediction_setting
from headway.wiring.steering.own_budget import BUDGET
from headway.wiring.store_access import journal_of
from headway.wiring.usage_history import lengths_seen

_NO_POLICY: Final = RoutePolicy()
NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


#: Makes the tracer of a run, from its settings and its job.
TraceFactory = Callable[[Config, Store, Job], AttemptTracer]


class WatchFlags(msgspec.Struct, frozen=True):
    """The flags --metrics, --notify, --notify-hold and --otel. The port is open already; None: as headway.toml says."""

    metrics: MetricsSocket | None = None
    notify: tuple[str, ...] = ()
    notify_hold_s: float | None = None
    otel: bool | None = None


class RunFlags(msgspec.Struct, frozen=True):
    """Settings of this run alone."""

    output: OutputOptions
    only_failed: bool = False
    #: Only these units run, however they ended before.
    only_units: tuple[int, ...] = ()
    #: When this process locked the job; 0: at the beginning of the run.
    taken_utc: float = 0.0
    serial: bool = False
    delay_s: float = 0.0
    log_file: Path | None = None
    log_style: LogStyle = LogStyle()
    #: The file of the events of a flow.
    events: Path | None = None
    #: The prediction that was just made for this run.
    predicted: Prediction | None = None
    #: Checks answers, instead of the job's kind.
    answer_check: AnswerCheck | None = None
    #: Reads answers while they arrive.
    listener: AttemptListener | None = None
    #: Where agents and programs work.
    agents: AgentOptions = AgentOptions()
    #: Only the first units of the job, this many; 0: all.
    first: int = 0
    #: How many nodes of a flow run at a time; None: as in the last run of the job, or as its file says.
    nodes: int | None = None
    #: What the file says about the whole run; None: as in the last run of the job.
    limits: FileLimits | None = None
    #: For a flow: only this node and what it needs run; "": all.
    until: str = ""
    #: One more unit over the results of all others.
    then: ThenUnit = ThenUnit()
    #: How the run is watched from outside.
    watch: WatchFlags = WatchFlags()
    #: Whether an engine that waits for jobs runs it: it leaves the job to others when it is stopped.
    served: bool = False
    #: Makes what follows units and attempts for another system; None: nothing does.
    trace: TraceFactory | None = None

    def taken(self) -> RunFlags:
        """These flags for a job that was just locked."""
        return msgspec.structs.replace(self, taken_utc=time.time())

    def to(self, output: OutputOptions) -> RunFlags:
        """These flags with another output."""
        return msgspec.structs.replace(self, output=output)

    def expecting(self, predicted: Prediction | None) -> RunFlags:
        """These flags with a prediction."""
        return msgspec.structs.replace(self, predicted=predicted)


def plan_of(config: Config, store: Store, job: Job, flags: RunFlags, environ: Mapping[str, str]) -> RunSpec:
    """Everything that the engine needs, from settings, keys and the job's routes."""
    config = with_agents(config, (route.provider for route in store.routes(job.id)))
    settings = _run_settings(config, job, store.routes(job.id), flags) | prediction_setting(
        config, job, flags.predicted
    )
    # What a kind makes for this run may depend on the settings of this run.
    present = msgspec.structs.replace(job, settings=settings)
    config = run_kind_of(job).with_providers(config, present)
    prices, later = _prices(config, store, job)
    answer_check = flags.answer_check or run_kind_of(job).answer_check(job)
    work = AgentWork(config, job, flags.agents)
    notes = work.check(provider_of(config, job, route.provider) for route in store.routes(job.id))
    lanes, routes, checks = _lanes(config, store, present, environ, prices, answer_check, work)
    groups, own_groups = work.exclusive(
        store, {route.id: provider_of(config, job, route.provider) for route in store.routes(job.id)}
    )
    line = unpriced_line(config, prices)
    openings = open_inputs(config, store, job)
    routes = {
        number: msgspec.structs.replace(
            route, open_inputs=openings.get(number, frozenset()), exclusive=groups.get(number, 0)
        )
        for number, route in routes.items()
    }
    outputs, aside = reserves(config, store, job, {number: route.price for number, route in routes.items()})
    run, then = config.run, then_of(job, flags)
    delay_s = flags.delay_s or run_kind_of(job).delay_s(present)
    grow = growth(job, then) if then.template else run_kind_of(job).growth(present)
    return RunSpec(
        job=job,
        lanes=lanes,
        routes=routes,
        settings=settings,
        out=flags.output.recorded,
        concurrency=run.concurrency,
        timeout_s=run.timeout_s,
        max_duration_s=run.max_duration_s,
        max_wait_s=run.max_wait_s,
        max_cost_usd=run.max_cost_usd,
        max_hold_s=run.max_hold_s,
        weight=run.weight,
        delay_s=delay_s,
        journal=journal_of(config, job.name),
        serial=flags.serial or delay_s > 0.0,
        only_failed=flags.only_failed,
        only_units=flags.only_units,
        stays_ended=frozenset(run_kind_of(job).stays_ended(store, job)),
        taken_utc=flags.taken_utc,
        agent_remarks=tuple(notes),
        remarks=(*([line] if line else []), *aside),
        outputs=outputs,
        lengths={} if run.order == "input" else lengths_seen(store, job),
        checks=checks,
        later_prices=later,
        cache=None if run_kind_of(job).makes_keys else _cache_use(config, store, job),
        grown_keys=run_kind_of(job).makes_keys,
        groups=run_kind_of(job).unit_groups(store, present),
        render=run_kind_of(job).renderer(job),
        grow=grow,
        grow_hands_out=getattr(grow, "hands_out", False),
        parts=getattr(grow, "parts", None),
        stops=getattr(grow, "stops", None),
        part_lanes={route.label: routes[route.id].lane for route in store.routes(job.id) if route.label},
        check_answer=run_kind_of(job).route_check(job, store.routes(job.id)),
        end_state=run_kind_of(job).end_state,
        first=flags.first,
        listener=flags.listener,
        tracer=None if flags.trace is None else flags.trace(config, store, job),
        exclusive=own_groups,
    )


def _cache_use(config: Config, store: Store, job: Job) -> CacheUse | None:
    """How the cache is used; its keys have the address of each route's model, not the account."""
    mode = config.run.cache
    if mode == "off":
        return None
    places = {}
    for route in store.routes(job.id):
        provider = config.providers[route.provider]
        if not kind_of(provider).cacheable:
            continue
        places[route.id] = ModelAddress(provider.kind, _root(provider), route.model)
    return CacheUse(mode, places)


def _root(provider: ProviderConfig) -> str:
    return root_of(provider.base_url) if provider.base_url else provider.region or ""


def addresses_of(config: Config, routes: Sequence[StoredRoute]) -> dict[str, tuple[str, str, str]]:
    """What answers at each provider and model of the routes, its address and its model: parts of the keys of units."""
    return {
        route.name: (identity_of(provider), _root(provider), route.model)
        for route in routes
        if (provider := config.providers.get(route.provider)) is not None
    }


def _prices(config: Config, store: Store, job: Job) -> tuple[dict[Model, Price | None], PriceList | None]:
    """The prices that are known now, and a function that looks up the others. Prices that a budget needs are known now, or an error."""
    numbers: dict[Model, list[int]] = {}
    for route in store.routes(job.id):
        if route.provider in config.providers:
            numbers.setdefault((route.provider, route.model), []).append(route.id)
    known: dict[Model, Price | None] = {
        model: required_price(config, *model) for model in numbers if must_be_known(config, *model)
    }
    ready, queries = ready_prices(config, [model for model in numbers if model not in known])
    if not queries:
        return known | ready, None

    async def look_up_later() -> tuple[dict[int, Price], str]:
        prices = await prices_later(config, queries)
        by_route = {
            number: price for model, price in prices.items() if price is not None for number in numbers[model]
        }
        return by_route, unpriced_line(config, prices)

    return known | ready, look_up_later


def _run_settings(config: Config, job: Job, routes: Sequence[StoredRoute], flags: RunFlags) -> dict[str, Any]:
    """The settings of the run for the records, without keys."""
    return {
        "run": msgspec.to_builtins(config.run),
        **({BUDGET: own} if (own := job.settings.get(BUDGET)) == config.run.max_cost_usd else {}),
        "order": flags.output.order,
        "serial": flags.serial,
        **({SERVED: True} if flags.served else {}),
        "safe_cells": safe_cells(job, flags),
        "text_only": text_only(job, flags),
        "more_outputs": [str(path) for path in more_outputs(job, flags)],
        AGENTS: msgspec.to_builtins(flags.agents.joined(job)),
        "then": msgspec.to_builtins(then_of(job, flags)),
        CONCURRENCY: job.settings.get(CONCURRENCY) if flags.nodes is None else flags.nodes,
        UNTIL: flags.until,
        "baseline": baseline(job, flags),
        LIMITS: msgspec.to_builtins(limits_of(job) if flags.limits is None else flags.limits),
        ADDRESSES: addresses_of(config, routes) if run_kind_of(job).makes_keys else {},
        "providers": {
            name: {"kind": provider.kind, "base_url": provider.base_url}
            for name, provider in config.providers.items()
        },
    }


def then_of(job: Job, flags: RunFlags) -> ThenUnit:
    """The unit over all results: of this run, or of an earlier one."""
    return flags.then if flags.then.template else msgspec.convert(job.settings.get("then", {}), ThenUnit)


def safe_cells(job: Job, flags: RunFlags) -> bool:
    """Whether formulas in cells are escaped: set by one run, it holds for every later run of the job."""
    return flags.output.safe_cells or bool(job.settings.get("safe_cells"))


def text_only(job: Job, flags: RunFlags) -> bool:
    """Whether rows have only ids and texts: the same, for the output that the job has."""
    own = flags.output.recorded == job.out and flags.output.form != "folder"
    return flags.output.text_only or (own and bool(job.settings.get("text_only")))


def baseline(job: Job, flags: RunFlags) -> str:
    """What a review is compared with: as this run says, or as the last one did."""
    own = flags.output.baseline
    return str(job.settings.get("baseline", "")) if own is None else own


def more_outputs(job: Job, flags: RunFlags) -> tuple[Path, ...]:
    """Further files with the results: those of this run, or the job's own if the run names none."""
    if flags.output.more or flags.output.recorded != job.out:
        return flags.output.more
    return tuple(map(Path, job.settings.get("more_outputs", ())))


def _lanes(
    config: Config,
    store: Store,
    job: Job,
    environ: Mapping[str, str],
    prices: Mapping[Model, Price | None],
    check: AnswerCheck | None,
    work: AgentWork,
) -> tuple[dict[str, RunLane], dict[int, UnitRoute], tuple[Check, ...]]:
    """A lane for each real rate-limit scope (routes of one pool share a lane), and the checks before the run."""
    dotenv, salt = dotenv_of(config), store.salt()
    spent, policies = _spent(store, job), run_kind_of(job).route_policies(job)
    lanes: dict[str, RunLane] = {}
    routes: dict[int, UnitRoute] = {}
    adapters: dict[str, Adapter] = {}
    checks: list[Check] = []
    secrets = secrets_in_environment({**dotenv, **environ}, keys_of(config, environ, dotenv))
    known: dict[Model, tuple[str, LaneSpec, str]] = {}
    for route in store.routes(job.id):
        provider = provider_of(config, job, route.provider)
        model = (route.provider, route.model)
        if model not in known:
            key = key_to_send(provider, environ, dotenv)
            known[model] = (key, *lane_for(config, provider, route.model, key, salt, environ))
        key, spec, name = known[model]
        lane = spec.key
        if provider.name not in adapters:
            built = builder_of(provider).build(config, provider, key, secrets)
            if built.check is not None and _may_start(store, job, lane, name):
                checks.append(built.check)
            adapter = work.around(built.adapter, provider, secrets)
            adapters[provider.name] = adapter if check is None else check(adapter, provider.kind)
        policy = policies.get(route.label, _NO_POLICY)
        routes[route.id] = UnitRoute(
            lane,
            prices.get((provider.name, route.model)),
            retry=policy.retry(spec.retry),
            timeout_s=policy.timeout_s or 0.0,
        )
        lane_budgets = _lane_budgets(provider, route.model, spent)
        if lane in lanes:
            lanes[lane] = _with_lane_budgets(lanes[lane], lane_budgets)
        else:
            spec = msgspec.structs.replace(spec, lane_budgets=lane_budgets, order=config.run.order)
            lanes[lane] = RunLane(spec, name, adapters[provider.name])
    return lanes, routes, tuple(checks)


def provider_of(config: Config, job: Job, name: str) -> ProviderConfig:
    """A provider of a job. Raises if it is not configured any more."""
    if name not in config.providers:
        raise ConfigError(
            f"job '{job.name}' needs the provider '{name}', which is no longer configured",
            hint=f"add [providers.{name}] to headway.toml",
        )
    return config.providers[name]


def _may_start(store: Store, job: Job, lane: str, name: str) -> bool:
    """Whether a run of the job will start a worker: units are left, and the lane has no recorded hold."""
    if job.total and job.counts.get("succeeded", 0) + job.counts.get("cached", 0) >= job.total:
        return False
    record = store.lane(lane, name).record
    if record is None:
        return True
    until_utc = msgspec.json.decode(record, type=LaneRecord).held_until_utc
    return until_utc is None or until_utc <= time.time()


def lane_for(
    config: Config,
    provider: ProviderConfig,
    model: str,
    key: str,
    salt: bytes,
    environ: Mapping[str, str] = NO_VARIABLES,
) -> tuple[LaneSpec, str]:
    """The lane of a provider's model with a key, and its display name. The models of a pool share one lane."""
    kind = kind_of(provider)
    limits = provider.limits if provider.pool else provider.limits_for(model)
    profile = profile_for(provider.profile or "", provider.base_url, provider.kind)
    lane, account = lane_key(provider, model, key, salt), account_of(provider, environ, salt)
    spec = LaneSpec(
        lane,
        kind.lane_limits(provider, limits),
        provider.retry_for(config.run.max_attempts),
        profile.counting,
        own_failures=kind.own_failures,
        one_ahead=kind.one_ahead(provider),
        follow_throughput=True,
        account=account,
        account_model=model if account else "",
    )
    return spec, f"{provider.name}/{provider.pool or model}"


def check_route(config: Config, environ: Mapping[str, str]) -> Callable[[str, str], None]:
    """The check of every model before a job is made: its key is set, and its price is known if one is needed."""
    dotenv = dotenv_of(config)

    def check(provider: str, model: str) -> None:
        key_to_send(config.providers[provider], environ, dotenv)
        builder_of(config.providers[provider]).verify(config, config.providers[provider])
        if must_be_known(config, provider, model):
            required_price(config, provider, model)

    return check


def _spent(store: Store, job: Job) -> dict[str, float]:
    """What the job's earlier runs spent, or may have spent, by provider and by provider/model."""
    use = store.use_by_route(job.id)
    spent: dict[str, float] = {}
    for route in store.routes(job.id):
        usd = use[route.id].cost_usd + use[route.id].unsure_usd if route.id in use else 0.0
        for name in (route.provider, f"{route.provider}/{route.model}"):
            spent[name] = spent.get(name, 0.0) + usd
    return spent


def _lane_budgets(provider: ProviderConfig, model: str, spent: Mapping[str, float]) -> tuple[LaneBudget, ...]:
    """The budgets of a lane besides the run's: its provider's, shared by all its lanes, and its model's."""
    caps = {provider.name: provider.max_cost_usd, f"{provider.name}/{model}": provider.max_costs.get(model)}
    return tuple(LaneBudget(name, most, spent.get(name, 0.0)) for name, most in caps.items() if most)


def _with_lane_budgets(lane: RunLane, lane_budgets: tuple[LaneBudget, ...]) -> RunLane:
    """Two providers with one account share a lane, which then has the budgets of both."""
    more = tuple(lane_budget for lane_budget in lane_budgets if lane_budget not in lane.spec.lane_budgets)
    if not more:
        return lane
    spec = msgspec.structs.replace(lane.spec, lane_budgets=(*lane.spec.lane_budgets, *more))
    return msgspec.structs.replace(lane, spec=spec)
