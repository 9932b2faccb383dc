"""A flow as a plan sees it: every list has a known length, every condition is true, and no node needs the answer of another one.

The real run of a flow can then run it without any answer. Nodes without units (a data set, a wait for a person) end at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headway.flows.running.flow_form import nodes_of
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import Dependency, FlowSpec, ForEach, LoopSpec, NodeSpec, PipelineSpec


def planned_spec(spec: FlowSpec, sizes: Mapping[str, int], prefix: str = "") -> FlowSpec:
    """The flow with lists of these lengths: of the items of nodes with `for_each`, of pipelines, and of the iterations of loops, each
    by its path.
    """
    nodes = {
        name: _node(node, sizes, prefix, carries=node.group in spec.pipelines)
        for name, node in spec.nodes.items()
    }
    return replace(
        spec,
        fields={},
        inputs=(),
        edges=(),
        nodes=nodes,
        pipelines={name: _pipeline(one, sizes[prefix + name]) for name, one in spec.pipelines.items()},
        loops={name: _loop(one, sizes[prefix + name]) for name, one in spec.loops.items()},
    )


def _node(node: NodeSpec, sizes: Mapping[str, int], prefix: str, *, carries: bool) -> NodeSpec:
    """`carries`: a stage of a pipeline may wait for items before its own, because of what it reads and writes."""
    path = prefix + node.id
    each, kind = None, node.kind
    if node.kind in ("dataset", "human"):
        each, kind = ForEach(items=()), "tool"
    elif node.for_each is not None:
        items = tuple(range(sizes[path]))
        each = replace(node.for_each, source="", items=items)
    return replace(
        node,
        kind=kind,
        for_each=each,
        inner=None if node.inner is None else planned_spec(node.inner, sizes, path + "/"),
        reads=node.reads if carries else (),
        writes=node.writes if carries else (),
        schema=None,
        when="",
        expression_reads=(),
        after=_after(node.after),
    )


def _pipeline(one: PipelineSpec, size: int) -> PipelineSpec:
    items = tuple(range(size))
    return replace(one, source="", items=items, expression_reads=(), after=_after(one.after))


def _loop(one: LoopSpec, size: int) -> LoopSpec:
    return replace(
        one, until="", max_iters=size, budget_usd=None, expression_reads=(), after=_after(one.after)
    )


def _after(waits: tuple[Dependency, ...]) -> tuple[Dependency, ...]:
    return tuple(Dependency(id=one.id, edge=True) for one in waits)


def unit_counts(spec: FlowSpec, prefix: str = "", times: int = 1) -> Iterator[tuple[str, int]]:
    """The path of each node of a planned flow, and how many units it has, over all items and iterations. Flow nodes have none."""
    for node in spec.nodes.values():
        count = times
        if node.group in spec.pipelines:
            count *= len(spec.pipelines[node.group].items or ())
        elif node.group:
            count *= spec.loops[node.group].max_iters
        if node.for_each is not None:
            count *= len(node.for_each.items or ())
        path = prefix + node.id
        yield path, 0 if node.inner is not None else count
        if node.inner is not None:
            yield from unit_counts(node.inner, path + "/", count)


class PlannedValues:
    """Stands for recorded answers: the fields that a node writes, without values."""

    def __init__(self, spec: FlowSpec) -> None:
        self._writes = {one.path: one.node.writes for one in nodes_of(spec)}

    def answer(self, unit: str) -> Any:
        """An object with the fields of its node."""
        return dict.fromkeys(self._writes[node_path(unit)])

    def answers(self, units: Sequence[str]) -> list[Any]:
        """The same of several units."""
        return [self.answer(unit) for unit in units]

    def rows(self, node: str, first: int, limit: int) -> list[Any]:
        """None: planned data sets have no rows."""
        return []

    def count_rows(self, node: str) -> int:
        """None."""
        return 0
