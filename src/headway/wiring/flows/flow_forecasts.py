"""Settings, a flow and the records of its earlier runs → a forecast. Reads the records, writes nothing."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from headway.config import Config
from headway.core.lanes.estimate import ENOUGH
from headway.core.unit_states import GOOD
from headway.flows.running.flow_form import FlowForm, nodes_of
from headway.flows.running.intake.dataset_rows import rows_name
from headway.flows.running.intake.flow_source import FlowSource
from headway.flows.running.requests.tool_programs import with_tools
from headway.flows.running.reuse.flow_changes import FlowChanges
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import FlowSpec, NodeSpec
from headway.forecast.answer_model import AnswerModel, Line, model_of, model_of_new_prompts
from headway.forecast.figures import LaneKnowledge, RunOptions
from headway.forecast.flow_figures import FlowForecast, FlowSurvey, NodeKnowledge
from headway.forecast.flow_forecast import forecast_flow
from headway.forecast.list_sizes import list_sizes
from headway.jobs.base import IngestOptions
from headway.jobs.find_or_add import find
from headway.reports.prediction import Prediction
from headway.stores.records import Family, Job, NewAttachment, NewUnit, StoredRoute, UsageSample
from headway.stores.store import Store
from headway.wiring.agent_work import is_program
from headway.wiring.flows.flow_reuse import changes_of
from headway.wiring.lane_records import LaneRecords, PlanKeys, WhatIf, changed
from headway.wiring.model_prices import prices_of
from headway.wiring.program_plans import RUNS, shared_directory
from headway.wiring.usage_history import READ

#: Earlier runs of a flow that a plan learns from.
MOST_RUNS: Final = 5
#: Assumed for each name in a prompt whose value is not known before the run: characters.
INSERTED: Final = 400
#: The factors by which a mean of few units may be off.
FEW: Final = ((0.7, 1.4), (0.5, 2.0), (0.5, 2.0))
_NAME: Final = re.compile(r"\{\{[^{}]*\}\}")
_PAGE: Final = 10_000


class FlowAhead(msgspec.Struct, frozen=True):
    """What is known about a flow before it runs. `job` is set if it was begun before."""

    spec: FlowSpec
    forecast: FlowForecast
    job: Job | None

    @property
    def prediction(self) -> Prediction:
        """The short form, for a comparison with the run."""
        time_s, cost_usd = self.forecast.time_s, self.forecast.cost_usd
        cost = None
        if cost_usd is not None and not self.forecast.unpriced:
            cost = (cost_usd.estimate, cost_usd.low, cost_usd.high)
        return Prediction(time.time(), self.forecast.units, (time_s.estimate, time_s.low, time_s.high), cost)


def plan_flow(
    config: Config,
    store: Store,
    source: FlowSource,
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    ingest: IngestOptions,
    what_if: WhatIf | None = None,
    concurrency: int | None = None,
    need_keys: bool = True,
) -> FlowAhead:
    """Forecast the rest of a flow. `concurrency`: nodes at a time, instead of the file's."""
    form = source.form_data
    job = None if ingest.fresh else find(store, config, source)
    plain, config = config, with_tools(changed(config, what_if or {}), form.spec, concurrency)
    keys = PlanKeys(config, environ, optional=not need_keys)
    taken = _Routes()
    source.ingest(taken, plain, 0, options=ingest, check=lambda provider, model: _look_up(keys, provider))
    history = _History(store, source.path, job)
    records = LaneRecords(config, store, keys, what_if or {})
    nodes, lanes = _Nodes(config, store, records, history, side_by_side=options.side_by_side).all(
        form, taken.routes
    )
    changes = None if job is not None or ingest.fresh else changes_of(plain, store, source)
    kept = _kept(store, changes)
    plan = FlowSurvey(
        form.spec,
        nodes,
        list_sizes(form.spec, form.inputs, taken.rows, history.last_size(form.spec)),
        lanes,
        options,
        concurrency,
        history.done() | kept,
    )
    forecast = forecast_flow(plan, time.time())
    if kept and changes is not None:
        unit = "1 unit keeps its answer" if len(kept) == 1 else f"{len(kept):,} units keep their answers"
        note = f"{unit} of job {changes.since}, and {'is' if len(kept) == 1 else 'are'} not in these figures"
        forecast = msgspec.structs.replace(forecast, notes=[note, *forecast.notes])
    return FlowAhead(form.spec, _with_notes(config, forecast, nodes), job)


def _kept(store: Store, changes: FlowChanges | None) -> frozenset[str]:
    """The units that the last job of the flow has answers of, and that its new version keeps."""
    earlier = None if changes is None else store.job(changes.since)
    if changes is None or earlier is None:
        return frozenset()
    nodes = {one.node for one in changes.kept}
    return frozenset(unit for unit in _ended(store, earlier) if node_path(unit) in nodes)


def _look_up(keys: PlanKeys, provider: str) -> None:
    keys.of(provider)


def _with_notes(config: Config, forecast: FlowForecast, nodes: Mapping[str, NodeKnowledge]) -> FlowForecast:
    notes, most = list(forecast.notes), config.run.max_cost_usd
    if most and forecast.cost_usd is not None and forecast.cost_usd.high > most:
        verb = "is" if forecast.cost_usd.estimate > most else "may be"
        notes.append(f"the cost {verb} above max_cost: the run would stop at ${most:,.10g}")
    return msgspec.structs.replace(forecast, notes=notes)


class _Routes:
    """Takes a flow in as a store does, but keeps only the routes of its nodes and counts the rows of its data sets."""

    def __init__(self) -> None:
        self.routes: list[StoredRoute] = []
        self.rows: Counter[str] = Counter()
        self._prefix = rows_name("")

    def add_route(self, job: int, route: StoredRoute) -> int:
        self.routes.append(route)
        return len(self.routes)

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        """Units follow from the run."""

    def add_attachments(self, job: int, files: Sequence[NewAttachment]) -> None:
        """Flows have none."""

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        """Flows have none."""

    def add_values(self, job: int, name: str, first: int, values: Sequence[bytes]) -> None:
        if name.startswith(self._prefix):
            self.rows[name.removeprefix(self._prefix)] += len(values)

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """Nothing is kept."""


class _History:
    """The earlier runs of a flow: of this job, and of other jobs of the same file, the newest first."""

    def __init__(self, store: Store, path: str, job: Job | None) -> None:
        self._store, self._job = store, job
        others = [
            one
            for one in store.jobs()
            if one.kind == "flow" and one.input == path and one.good and (job is None or one.id != job.id)
        ]
        begun = [job] if job is not None and job.good else []
        self._jobs = [*begun, *others][:MOST_RUNS]

    def routes(self, label: str) -> set[int]:
        """The routes of a node in all of them."""
        return {
            route.id for job in self._jobs for route in self._store.routes(job.id) if route.label == label
        }

    def done(self) -> frozenset[str]:
        """The units of this job that have ended well."""
        if self._job is None:
            return frozenset()
        return frozenset(_ended(self._store, self._job))

    def last_size(self, spec: FlowSpec) -> _LastSizes:
        """The lengths of lists in the last run."""
        counts: dict[str, int] = {}
        if self._jobs:
            job = self._jobs[0]
            per_route = self._store.per_route(job.id)
            for route in self._store.routes(job.id):
                counts[route.label] = sum(per_route.get(route.id, {}).values())
        return _LastSizes(spec, counts)


def _ended(store: Store, job: Job) -> Iterator[str]:
    after = -1
    while page := store.unit_ends(job.id, after, _PAGE):
        after = page[-1].index
        yield from (one.custom_id for one in page if one.status in GOOD)


class _LastSizes:
    """The lengths of lists in the last run, from how many units each node had."""

    def __init__(self, spec: FlowSpec, counts: Mapping[str, int]) -> None:
        self._spec, self._counts = spec, counts

    def __call__(self, path: str) -> int | None:
        """The length of one list by its path; None if it did not run."""
        *outer, name = path.split("/")
        spec, prefix, times = self._spec, "", 1
        for part in outer:
            inner = spec.nodes[part].inner
            assert inner is not None
            spec, prefix = inner, f"{prefix}{part}/"
            times = self._runs(spec, prefix) or 1
        if name in spec.pipelines or name in spec.loops:
            turns = self._turns(spec, prefix, name)
            return None if turns is None else round(turns / times)
        node = spec.nodes[name]
        count = self._runs(node.inner, f"{path}/") if node.inner is not None else self._counts.get(path)
        if not count:
            return None
        if node.group:
            times = self._turns(spec, prefix, node.group) or times
        return max(1, round(count / times))

    def _turns(self, spec: FlowSpec, prefix: str, group: str) -> int | None:
        """How many items or iterations a pipeline or loop had: the most units of a member that has one for each."""
        single = [name for name in spec.members(group) if spec.nodes[name].for_each is None]
        return max((self._counts.get(prefix + name, 0) for name in single), default=0) or None

    def _runs(self, spec: FlowSpec, prefix: str) -> int | None:
        """How often an inner flow ran: the most units of a node of it that has one for each run."""
        single = [
            node.id
            for node in spec.nodes.values()
            if node.for_each is None and not node.group and node.inner is None
        ]
        return max((self._counts.get(prefix + name, 0) for name in single), default=0) or None


class _Nodes:
    """Finds what is known of each node."""

    def __init__(
        self, config: Config, store: Store, lanes: LaneRecords, history: _History, *, side_by_side: bool
    ) -> None:
        self._side_by_side = side_by_side
        self._config, self._store, self._lanes, self._history = config, store, lanes, history
        #: Directories in which agents may write: one at a time works in each.
        self._directories: dict[str, int] = {}

    def all(
        self, form: FlowForm, routes: Sequence[StoredRoute]
    ) -> tuple[dict[str, NodeKnowledge], dict[str, LaneKnowledge]]:
        """The nodes by path, and their lanes."""
        by_label = {route.label: route for route in routes}
        models = [(route.provider, route.model) for route in routes if not self._is_program(route)]
        prices = prices_of(self._config, models)
        nodes: dict[str, NodeKnowledge] = {}
        lanes: dict[str, LaneKnowledge] = {}
        for path, _, node in nodes_of(form.spec):
            route = by_label.get(path)
            if route is None:
                continue
            known = self._lanes.known(self._config.providers[route.provider], route.model)
            lanes.setdefault(known.spec.key, known)
            one = NodeKnowledge(known.spec.key, f"{route.provider}/{route.model}")
            if self._is_program(route):
                nodes[path] = self._program(one, node, route)
            else:
                price = prices[route.provider, route.model]
                one = msgspec.structs.replace(one, price=price)
                nodes[path] = self._llm(one, node, route, form.prompts.get(path, ""))
        return nodes, lanes

    def _is_program(self, route: StoredRoute) -> bool:
        return is_program(self._config.providers[route.provider]) or route.kind == "python"

    def _program(self, one: NodeKnowledge, node: NodeSpec, route: StoredRoute) -> NodeKnowledge:
        routes = self._history.routes(route.label)
        runs = self._store.program_runs(route.provider, route.model, RUNS, routes)
        exclusive, provider = 0, self._config.providers[route.provider]
        if (
            is_program(provider)
            and not self._side_by_side
            and (directory := shared_directory(self._config, provider))
        ):
            exclusive = self._directories.setdefault(directory, len(self._directories) + 1)
        return msgspec.structs.replace(
            one, program=True, tool=node.kind == "tool", runs=runs, learned_from=len(runs), exclusive=exclusive
        )  # fmt: skip

    def _llm(self, one: NodeKnowledge, node: NodeSpec, route: StoredRoute, prompt: str) -> NodeKnowledge:
        own = self._store.usage_samples(route.provider, route.model, READ, self._history.routes(route.label))
        if not own:
            others = self._store.usage_samples(route.provider, route.model, READ)
            names = len(_NAME.findall(prompt))
            chars = len(prompt) + names * INSERTED
            return msgspec.structs.replace(one, answer_model=model_of_new_prompts(others), chars=chars)
        return msgspec.structs.replace(
            one,
            answer_model=model_of(own) if len(own) >= ENOUGH else _model_of_few(own),
            chars=round(_mean([sample.chars for sample in own])),
            max_tokens=own[0].max_tokens,
            learned_from=len(own),
        )


def _model_of_few(samples: Sequence[UsageSample]) -> AnswerModel:
    """A model learned from a few units: their means."""
    values = (
        [float(one.input_tokens) for one in samples],
        [float(one.output_tokens) for one in samples],
        [one.took_s for one in samples],
    )
    lines = [Line(_mean(of), 0.0, tuple(one - _mean(of) for one in of)) for of in values]
    cached = sum(one.cached_tokens for one in samples) / max(1.0, sum(values[0]))
    return AnswerModel(len(samples), lines[0], lines[1], lines[2], cached, FEW)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
