"""A scenario of a flow: its graph, what its units take, and the lanes that they need. Read from YAML, checked key by key.

docs/reference/scenarios.md documents every key; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from headway.config.near_names import near_name
from headway.errors import UsageError
from headway.flows.spec import AUTO, Dependency, FlowSpec, ForEach, LoopSpec, NodeSpec, PipelineSpec
from headway.sim.scenario import (
    Amount,
    KnownLimits,
    LaneWork,
    Lognormal,
    ProviderSpec,
    SimLane,
    converted,
    read_mapping,
)

AtOnce = Annotated[int, msgspec.Meta(ge=1)] | Literal["auto"]
Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class SimNode(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A node: what it waits for, and what each of its units takes."""

    after: tuple[str, ...] = ()
    #: One unit for each of so many items; None: a single unit.
    items: Count | None = None
    at_once: AtOnce = "auto"
    #: What a unit takes; None: what its lane's latency says.
    seconds: Lognormal | Amount | None = None
    #: "": no provider limits it, like a tool.
    lane: str = ""
    input_tokens: Lognormal | Amount = 400.0
    output_tokens: Lognormal | Amount = 200.0


class SimPipeline(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A pipeline: its stages are nodes."""

    stages: tuple[str, ...]
    items: Count
    at_once: AtOnce = "auto"
    after: tuple[str, ...] = ()


class SimLoop(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A loop: its body consists of nodes."""

    body: tuple[str, ...]
    iterations: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
    after: tuple[str, ...] = ()


class FlowWork(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The graph."""

    nodes: dict[str, SimNode]
    pipelines: dict[str, SimPipeline] = {}
    loops: dict[str, SimLoop] = {}
    #: Nodes at a time.
    concurrency: AtOnce = "auto"


class FlowLane(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A lane: its provider, and what Headway knows of its limits."""

    provider: ProviderSpec
    told: KnownLimits | Literal["truth"] = KnownLimits()

    @property
    def sim_lane(self) -> SimLane:
        """The same with work, which a flow's lanes get from its nodes."""
        return SimLane(LaneWork(1), self.provider, self.told)


class FlowScenario(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole scenario of a flow."""

    flow: FlowWork
    lanes: dict[str, FlowLane] = {}
    about: str = ""
    seeds: tuple[int, ...] = (1,)
    estimate_noise: Amount = 0.15


def is_flow(data: dict[str, Any]) -> bool:
    """Whether the content of a scenario file is the scenario of a flow."""
    return "flow" in data


def load_flow_scenario(path: Path) -> FlowScenario:
    """Read and check a scenario file. Errors are one line that names the key."""
    scenario = converted(path, read_mapping(path), FlowScenario, keys=known_flow_keys())
    if not scenario.seeds or not scenario.flow.nodes:
        key = "flow.nodes" if scenario.seeds else "seeds"
        raise UsageError(f"{path}: '{key}' is empty", hint="docs/reference/scenarios.md has an example")
    for name, node in scenario.flow.nodes.items():
        if node.lane and node.lane not in scenario.lanes:
            raise _unknown(path, f"flow.nodes.{name}.lane", "lane", node.lane, scenario.lanes)
        if not node.lane and node.seconds is None:
            raise UsageError(f"{path}: flow.nodes.{name}: 'seconds' is missing", hint="or name its lane")
    try:
        spec_of(scenario.flow)
    except _Wrong as error:
        raise UsageError(f"{path}: {error}") from None
    return scenario


def _unknown(path: Path, place: str, what: str, name: str, known: Iterable[str]) -> UsageError:
    near = near_name(name, list(known))
    return UsageError(
        f"{path}: {place}: there is no {what} '{name}'" + (f"; did you mean '{near}'?" if near else "")
    )


def known_flow_keys() -> list[str]:
    """Every key of a scenario of a flow, on any level."""
    kinds = (FlowScenario, FlowWork, SimNode, SimPipeline, SimLoop, FlowLane)
    return sorted({field for kind in kinds for field in kind.__struct_fields__} | {"extends"})


class _Wrong(Exception):
    """The graph of a scenario is none."""


def spec_of(work: FlowWork) -> FlowSpec:
    """The same graph as a checked flow: every list is in it, and no node reads or writes anything."""
    group_of = {stage: name for name, one in work.pipelines.items() for stage in one.stages}
    group_of |= {member: name for name, one in work.loops.items() for member in one.body}
    steps = [name for name in (*work.nodes, *work.pipelines, *work.loops) if name not in group_of]
    _check_names(work, group_of, steps)
    nodes = {name: _node(name, one, group_of, work) for name, one in work.nodes.items()}
    pipelines = {
        name: PipelineSpec(
            id=name, items=tuple(range(one.items)), stages=one.stages, concurrency=_size(one.at_once), after=_after(one.after)
        )
        for name, one in work.pipelines.items()
    }  # fmt: skip
    loops = {
        name: LoopSpec(id=name, body=one.body, max_iters=one.iterations, after=_after(one.after))
        for name, one in work.loops.items()
    }
    waits = {name: {one.id for one in (nodes | pipelines | loops)[name].after} for name in steps}
    return FlowSpec(
        name="scenario",
        path=Path("scenario.yaml"),
        concurrency=_size(work.concurrency),
        nodes=nodes,
        pipelines=pipelines,
        loops=loops,
        step_order=tuple(_ordered(waits)),
    )


def _check_names(work: FlowWork, group_of: dict[str, str], steps: list[str]) -> None:
    for name in group_of:
        if name not in work.nodes:
            raise _Wrong(f"flow.{group_of[name]}: there is no node '{name}'")
    for name, one in (work.nodes | work.pipelines | work.loops).items():
        group = group_of.get(name, "")
        known = steps if not group else [other for other in group_of if group_of[other] == group]
        for before in one.after:
            if before not in known:
                inside = f" in '{group}'" if group else ""
                raise _Wrong(f"flow: '{name}' is after '{before}', and there is no such step{inside}")


def _node(name: str, one: SimNode, group_of: dict[str, str], work: FlowWork) -> NodeSpec:
    each = None
    if one.items is not None:
        each = ForEach(items=tuple(range(one.items)), concurrency=_size(one.at_once))
    group = group_of.get(name, "")
    before = one.after
    if group in work.pipelines and (place := work.pipelines[group].stages.index(name)):
        before = (*before, work.pipelines[group].stages[place - 1])
    return NodeSpec(id=name, kind="tool", for_each=each, group=group, after=_after(before))


def _after(names: Iterable[str]) -> tuple[Dependency, ...]:
    return tuple(Dependency(id=name, edge=True) for name in dict.fromkeys(names))


def _size(at_once: int | str) -> int:
    return at_once if isinstance(at_once, int) else AUTO


def _ordered(waits: dict[str, set[str]]) -> list[str]:
    """The steps, each after those that it waits for."""
    order: dict[str, None] = {}
    while len(order) < len(waits):
        ready = [name for name in waits if name not in order and waits[name] <= order.keys()]
        if not ready:
            rest = ", ".join(name for name in waits if name not in order)
            raise _Wrong(f"flow: these steps wait for each other: {rest}")
        order.update(dict.fromkeys(ready))
    return list(order)
