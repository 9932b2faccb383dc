"""Runs three trials of a flow, a quick, a likely and a slow one, and sums them up for each node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from headway.flows.running.flow_form import nodes_of
from headway.flows.simulated.critical_path import CriticalPath, longest_chain
from headway.flows.spec import FlowSpec
from headway.forecast.answer_model import LEAST_DOUBT
from headway.forecast.figures import Range
from headway.forecast.flow_figures import FlowForecast, FlowSurvey, NodeForecast, NodeKnowledge
from headway.forecast.flow_trial import FIRST_AGENT_S, FIRST_TOOL_S, FlowTrial, NodeTrial, try_flow
from headway.forecast.lane_forecasts import AROUND_S, OWN_S, VARIANTS

NOTHING: Final = Range(0.0, 0.0, 0.0)
#: A note names so many nodes, and counts the others.
NAMED: Final = 6


def forecast_flow(plan: FlowSurvey, utc: float) -> FlowForecast:
    """The forecast of a flow, node by node."""
    trials = [try_flow(plan, variant, utc) for variant in VARIANTS]
    paths = [_critical(trial) for trial in trials]
    critical = _nodes_on(plan.spec, paths[0])
    nodes = {}
    for node in nodes_of(plan.spec):
        if node.path in trials[0].nodes and node.node.inner is None:
            nodes[node.path] = _node(plan, trials, node.path, node.node.kind, critical)
    times = [_time_s(trial, path) for trial, path in zip(trials, paths, strict=True)]
    costs = [node.cost_usd for node in nodes.values() if node.cost_usd is not None]
    asked = {path: plan.nodes[path] for path, node in nodes.items() if node.units and path in plan.nodes}
    return FlowForecast(
        nodes,
        sum(node.units for node in nodes.values()),
        sum((node.input_tokens for node in nodes.values()), NOTHING),
        sum((node.output_tokens for node in nodes.values()), NOTHING),
        sum(costs, NOTHING) if costs else None,
        Range.of(times[0], times[1] * (1.0 - LEAST_DOUBT), times[2] * (1.0 + LEAST_DOUBT) + AROUND_S),
        paths[0].steps,
        paths[0].length_s,
        sum(node.ran for node in trials[0].nodes.values()),
        [*_notes(plan, nodes, asked, paths[0], times[0])],
        list(dict.fromkeys(node.name for path, node in asked.items() if nodes[path].cost_usd is None)),
    )


def _node(
    plan: FlowSurvey, trials: list[FlowTrial], path: str, kind: str, critical: set[str]
) -> NodeForecast:
    known, own = plan.nodes.get(path), [trial.nodes[path] for trial in trials]
    cost = None
    if (
        known is None
        or known.price is not None
        or known.tool
        or any(run.cost_usd is not None for run in known.runs)
    ):
        cost = Range.of(*(one.cost_usd for one in own))
    return NodeForecast(
        kind,
        own[0].units,
        _assumption(plan, path),
        Range.of(*(one.input_tokens for one in own)),
        Range.of(*(one.output_tokens for one in own)),
        cost,
        own[0].start_s,
        Range.of(*(one.span_s for one in own)),
        path in critical,
        0 if known is None else known.learned_from,
        known is None or known.program,
    )  # fmt: skip


def _assumption(plan: FlowSurvey, path: str) -> str:
    """What the number of units was taken from: of the node's own list, and of the lists around it."""
    whys = []
    spec, prefix = plan.spec, ""
    for part in path.split("/"):
        node = spec.nodes[part]
        for name in (node.group, part):
            size = plan.sizes.get(prefix + name) if name else None
            if size is not None and not size.known:
                whys.append(size.why)
        prefix += part + "/"
        spec = node.inner or spec
    return "; ".join(whys)


def _critical(trial: FlowTrial) -> CriticalPath:
    """The chain of steps that takes longest, each as long as in this trial."""
    step_of = {name: step for step in trial.spec.step_order for name in trial.spec.members(step)}
    ran: dict[str, list[NodeTrial]] = {}
    for path, node in trial.nodes.items():
        if node.ran:
            ran.setdefault(step_of[path.partition("/")[0]], []).append(node)
    spans = {}
    for step, own in ran.items():
        more = max(node.units / node.ran for node in own)
        spans[step] = (max(node.end_s for node in own) - min(node.start_s for node in own)) * more
    return longest_chain(trial.spec, spans)


def _time_s(trial: FlowTrial, path: CriticalPath) -> float:
    """When the flow ends. What did not run of its longest lists comes on top; and no run is quicker than the engine."""
    units = sum(node.units for node in trial.nodes.values())
    return max(trial.makespan_s, path.length_s, OWN_S * units)


def _nodes_on(spec: FlowSpec, path: CriticalPath) -> set[str]:
    """The paths of all nodes of these steps."""
    members = {name for step in path.steps for name in spec.members(step)}
    return {node.path for node in nodes_of(spec) if node.path.partition("/")[0] in members}


# -- notes ------------------------------------------------------------------------------------------------------------


def _notes(
    plan: FlowSurvey, nodes: dict[str, NodeForecast], asked: dict[str, NodeKnowledge], path: CriticalPath, time_s: float
) -> Iterator[str]:  # fmt: skip
    """What was assumed, and what limits the flow."""
    guessed = [name for name, size in plan.sizes.items() if not size.known and "assumed" in size.why]
    if guessed:
        yield f"{_named(guessed)}: how many items is known only during the run; a run of the flow shows it"
    new = [name for name, one in asked.items() if not one.program and not one.learned_from]
    if new:
        yield (
            f"{_named(new)}: no earlier answers. Assumed: 4 characters per token; answers a quarter as long as max_tokens, or 256 "
            "tokens; half a second and 20 ms per token"
        )
    tools = [name for name, one in asked.items() if one.tool and not one.runs]
    if tools:
        yield f"{_named(tools)}: did not run yet; {FIRST_TOOL_S:g} s for each unit is assumed"
    agents = [name for name, one in asked.items() if one.program and not one.tool and not one.runs]
    if agents:
        yield f"{_named(agents)}: did not run yet; {FIRST_AGENT_S:g} s for each unit is assumed, and what they cost is not known"
    conditions = [node.path for node in nodes_of(plan.spec) if node.node.when]
    if conditions:
        yield f"{_named(conditions)}: the condition is taken to be true"
    people = [node.path for node in nodes_of(plan.spec) if node.node.kind == "human"]
    if people:
        yield f"{_named(people)}: the time is without the wait for an approval"
    unpriced = [name for name, one in asked.items() if not one.program and one.price is None]
    if unpriced:
        models = ", ".join(dict.fromkeys(asked[name].name for name in unpriced))
        yield f"{_named(unpriced)}: the price of {models} is unknown, and so is the cost"
    size = plan.spec.concurrency if plan.concurrency is None else plan.concurrency
    if size and time_s > 1.1 * path.length_s:
        at_once = "one node at a time runs" if size == 1 else f"{size:,} nodes at a time run"
        yield f"{at_once} (runtime.concurrency); the critical path alone takes {path.length_s:,.0f} s"


def _named(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
