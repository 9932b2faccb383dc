"""The order in which a graph lists what a flow consists of: steps, the members of pipelines and loops, and the nodes of inner flows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headway.flows.spec import FlowSpec, LoopSpec, NodeSpec, PipelineSpec


class GraphRow(NamedTuple):
    """A node, a pipeline or a loop. `path` is its name in the job (`sub/fetch`), `depth` how deep it is inside others."""

    path: str
    step: NodeSpec | PipelineSpec | LoopSpec
    depth: int


def graph_rows(flow: FlowSpec, prefix: str = "", depth: int = 0) -> Iterator[GraphRow]:
    """Everything in the flow, in an order in which it may run. Members and inner nodes come after what they are inside of."""
    for name in flow.step_order:
        yield GraphRow(prefix + name, flow.step(name), depth)
        if name in flow.nodes:
            yield from _inner(flow, name, prefix, depth + 1)
            continue
        for member in flow.members(name):
            yield GraphRow(prefix + member, flow.step(member), depth + 1)
            yield from _inner(flow, member, prefix, depth + 2)


def _inner(flow: FlowSpec, name: str, prefix: str, depth: int) -> Iterator[GraphRow]:
    inner = flow.nodes[name].inner
    if inner is not None:
        yield from graph_rows(inner, f"{prefix}{name}/", depth)


def inside(flow: FlowSpec, name: str) -> tuple[str, ...]:
    """The paths of what a step consists of: the members of a pipeline or a loop, or the steps of an inner flow."""
    if name not in flow.nodes:
        return flow.members(name)
    inner = flow.nodes[name].inner
    return () if inner is None else tuple(f"{name}/{one}" for one in inner.step_order)
