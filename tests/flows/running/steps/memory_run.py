"""A run of a flow in memory: its values are those of its ends."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.flows.lazy_list import plain
from headway.flows.running.state.run_values import HeldValues
from headway.flows.running.steps.flow_run import FlowRun
from headway.flows.running.steps.node_run import NextUnit, UnitEnd
from headway.flows.spec import (
    AUTO,
    Dependency,
    FlowSpec,
    LoopSpec,
    NodeSpec,
    PipelineSpec,
    StateField,
)


class Good:
    """A success."""

    def __init__(self, answer: Any = 1, cost_usd: float = 0.0) -> None:
        self.answer, self.cost_usd = answer, cost_usd


BAD = UnitEnd(error="it broke")
End = Good | UnitEnd


class MemoryRun:
    """A run and its recorded values, which outlive it."""

    def __init__(self, spec: FlowSpec, inputs: Mapping[str, Any] | None = None, **options: Any) -> None:
        rows = options.pop("rows", None)
        self.spec, self.inputs, self.options = spec, dict(inputs or {}), options
        self.values = HeldValues({}, rows)
        self.ends: dict[str, UnitEnd] = {}
        self.run = FlowRun(spec, self.inputs, self.values, **options)

    def advance(self, ends: Mapping[str, End] | None = None) -> list[str]:
        """Take ends in; returns the ids of the units that start."""
        return [unit.id for unit in self.units(ends)]

    def units(self, ends: Mapping[str, End] | None = None) -> list[NextUnit]:
        """The same with whole units."""
        return self.run.advance({unit: self.recorded(unit, end) for unit, end in (ends or {}).items()})

    def recorded(self, unit: str, end: End) -> UnitEnd:
        if isinstance(end, Good):
            self.values.known[unit] = end.answer
            end = UnitEnd(cost_usd=end.cost_usd)
        self.ends[unit] = end
        return end

    def resumed(self, ends: Mapping[str, UnitEnd] | None = None) -> list[str]:
        """Forget the run, and make it again from what is recorded. Returns the ids of the units that start."""
        self.forget()
        return [unit.id for unit in self.run.advance(self.ends if ends is None else ends)]

    def forget(self) -> None:
        """Make the run again, without any ends."""
        self.run = FlowRun(self.spec, self.inputs, self.values, **self.options)

    @property
    def state(self) -> dict[str, Any]:
        return {name: plain(value) for name, value in self.run.state().items()}


def node(name: str, *after: str | Dependency, **fields: Any) -> NodeSpec:
    """A tool. `after`: edges by the names of their sources, or whole dependencies."""
    deps = tuple(one if isinstance(one, Dependency) else Dependency(id=one, edge=True) for one in after)
    fields.setdefault("writes", (f"{name}_out",))
    return NodeSpec(id=name, kind=fields.pop("kind", "tool"), after=deps, **fields)


def flow(*nodes: NodeSpec, concurrency: int = AUTO, **more: Any) -> FlowSpec:
    """A flow of these nodes, in this order. Members have a group; a group is where its first member is."""
    fields = {
        name: StateField(name=name, merge="array_append" if one.for_each else "last_wins")
        for one in nodes
        for name in one.writes
    }
    fields |= more.pop("fields", {})
    order = tuple(dict.fromkeys(one.group or one.id for one in nodes))
    return FlowSpec(
        name="f", path=Path("f.yaml"), concurrency=concurrency, fields=fields,
        nodes={one.id: one for one in nodes}, step_order=order, **more,
    )  # fmt: skip


def pipeline(name: str, *stages: str, **settings: Any) -> dict[str, PipelineSpec]:
    settings.setdefault("source", "$.xs")
    return {name: PipelineSpec(id=name, stages=stages, **settings)}


def loop(name: str, *body: str, **settings: Any) -> dict[str, LoopSpec]:
    return {name: LoopSpec(id=name, body=body, **settings)}
