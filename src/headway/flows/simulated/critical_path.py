"""The longest chain of steps: no scheduler can run a flow in less time.

The least time of a step follows from its units: a node takes as long as its longest unit, or as all of them together with so many at a
time; an item of a pipeline goes through all stages; iterations of a loop follow each other. No step is quicker than the limits of its
lane allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headway.flows.spec import AUTO, FlowSpec


class CriticalPath(msgspec.Struct, frozen=True):
    """The steps of the longest chain, in order, and its length."""

    steps: list[str]
    length_s: float


def critical_path(
    spec: FlowSpec, durations: Mapping[str, Sequence[float]], bounds: Mapping[str, float] = {}
) -> CriticalPath:
    """The longest chain. `durations` has those of each node's units, in their order: over all items and iterations. `bounds` has
    the least time in which the lane of a node can take its units, where it has limits.
    """
    return longest_chain(
        spec,
        {
            step: max(least_s(spec, step, durations), *(bounds.get(node, 0.0) for node in spec.members(step)))
            for step in spec.step_order
        },
    )


def longest_chain(spec: FlowSpec, spans: Mapping[str, float]) -> CriticalPath:
    """The longest chain of steps that take so long."""
    ends: dict[str, float] = {}
    before: dict[str, str] = {}
    for step in spec.step_order:
        earlier = [one.id for one in spec.step(step).after]
        last = max(earlier, key=lambda name: ends[name], default="")
        before[step] = last
        ends[step] = (ends[last] if last else 0.0) + spans.get(step, 0.0)
    if not ends:
        return CriticalPath([], 0.0)
    step = max(ends, key=lambda name: ends[name])
    length_s, steps = ends[step], []
    while step:
        steps.append(step)
        step = before[step]
    return CriticalPath(steps[::-1], length_s)


def least_s(spec: FlowSpec, step: str, durations: Mapping[str, Sequence[float]]) -> float:
    """The least time of a step by itself."""
    if step in spec.nodes:
        return _of_node(spec, step, durations.get(step, ()))
    turns = _turns(spec, step, durations)
    if step in spec.loops:
        return sum(turns)
    return _in_parallel(turns, spec.pipelines[step].concurrency)


def _of_node(spec: FlowSpec, node: str, units: Sequence[float]) -> float:
    each = spec.nodes[node].for_each
    return _in_parallel(units, AUTO if each is None else each.concurrency)


def _in_parallel(spans: Sequence[float], at_once: int) -> float:
    together_s = 0.0 if at_once == AUTO else sum(spans) / at_once
    return max(together_s, max(spans, default=0.0))


def _turns(spec: FlowSpec, group: str, durations: Mapping[str, Sequence[float]]) -> list[float]:
    """The least time of each item or iteration: the longest chain of its nodes."""
    members = spec.members(group)
    count = len(spec.pipelines[group].items or ()) if group in spec.pipelines else spec.loops[group].max_iters
    turns = []
    for turn in range(count):
        ends: dict[str, float] = {}
        for node in members:
            each = spec.nodes[node].for_each
            size = 1 if each is None else len(each.items or ())
            units = durations.get(node, ())[turn * size : (turn + 1) * size]
            start = max((ends[one.id] for one in spec.nodes[node].after), default=0.0)
            ends[node] = start + _of_node(spec, node, units)
        turns.append(max(ends.values(), default=0.0))
    return turns
