"""What a run needs to know of a flow and does not change: who waits for whom. Made once, also for a flow that runs many times."""

from __future__ import annotations

from collections.abc import Sequence

from headway.flows.expressions import parse_expression
from headway.flows.spec import Dependency, FlowSpec, LoopSpec, NodeSpec, PipelineSpec


class StepPlan:
    """A node by itself, a pipeline or a loop. `waits`: the number of steps before it; `next`: positions of the steps behind it."""

    __slots__ = ("after", "group", "id", "next", "position", "spec", "waits", "when")

    def __init__(self, flow: FlowSpec, step: str, position: int) -> None:
        self.id, self.position = step, position
        self.spec: NodeSpec | PipelineSpec | LoopSpec = flow.step(step)
        self.after = self.spec.after
        self.when = self.spec.when if isinstance(self.spec, NodeSpec) else ""
        self.waits = len({one.id for one in self.after})
        self.next: list[int] = []
        self.group = None if isinstance(self.spec, NodeSpec) else GroupPlan(flow, self.spec)


class MemberPlan:
    """A node of a pipeline or loop, at its place. `carried`: fields that it gets from earlier items of its pipeline."""

    __slots__ = ("after", "carried", "carriers", "next", "node", "place", "waits")

    def __init__(self, node: NodeSpec, place: int, places: dict[str, int]) -> None:
        self.node, self.place = node, place
        self.after: tuple[Dependency, ...] = node.after
        self.waits = len({one.id for one in self.after})
        self.next: list[int] = []
        self.carried: frozenset[str] = frozenset()
        #: Places of the members that write those fields: of the items before, they must be over.
        self.carriers: tuple[int, ...] = ()

    def carry(self, nodes: Sequence[NodeSpec]) -> None:
        """Find out what comes from earlier items: what it reads and itself or a later stage writes."""
        later = nodes[self.place :]
        reads = {*self.node.reads, *self.node.expression_reads, *_fields_of_edges(self.after)}
        self.carried = frozenset(field for field in reads if any(field in one.writes for one in later))
        self.carriers = tuple(
            place
            for place, one in enumerate(nodes)
            if place >= self.place and not self.carried.isdisjoint(one.writes)
        )


class GroupPlan:
    """The members of a pipeline or a loop."""

    def __init__(self, flow: FlowSpec, spec: PipelineSpec | LoopSpec) -> None:
        names = flow.members(spec.id)
        self.is_loop = isinstance(spec, LoopSpec)
        self.places = {name: place for place, name in enumerate(names)}
        nodes = [flow.nodes[name] for name in names]
        self.members = [MemberPlan(node, place, self.places) for place, node in enumerate(nodes)]
        #: The places of the members that write a field, in order.
        self.writers: dict[str, list[int]] = {}
        for member in self.members:
            for before in {one.id for one in member.after}:
                self.members[self.places[before]].next.append(member.place)
            for field in member.node.writes:
                self.writers.setdefault(field, []).append(member.place)
            if not self.is_loop:
                member.carry(nodes)


class FlowPlan:
    """The steps of a flow, in an order that respects what they wait for, and the plans of the flows inside it."""

    def __init__(self, spec: FlowSpec) -> None:
        self.spec = spec
        self.steps = [StepPlan(spec, step, position) for position, step in enumerate(spec.step_order)]
        self.positions = {step.id: step.position for step in self.steps}
        for step in self.steps:
            for before in {one.id for one in step.after}:
                self.steps[self.positions[before]].next.append(step.position)
        #: The fields that can be set once.
        self.once = frozenset(name for name, field in spec.fields.items() if field.merge == "set_once")
        self.inner = {node.id: FlowPlan(node.inner) for node in spec.nodes.values() if node.inner is not None}

    def step_of(self, node: str) -> int | None:
        """The position of the step that a node is in; None if there is no such node."""
        spec = self.spec.nodes.get(node)
        return None if spec is None else self.positions.get(spec.group or node)


def _fields_of_edges(after: Sequence[Dependency]) -> set[str]:
    return {field for one in after if one.when for field in parse_expression(one.when).fields}
