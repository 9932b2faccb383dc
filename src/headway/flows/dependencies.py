"""What every step and every member waits for, and the order that follows. Reports cycles.

The rules are in `spec`: edges, and reads of what others write. A data dependency that edges contradict is dropped, so that
`improve` may come after `check` although `check` reads what `improve` writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from headway.config.file_problems import ProblemList
from headway.flows.expressions import parse_expression
from headway.flows.spec import Dependency, EdgeSpec, FlowSpec, LoopSpec, NodeSpec, PipelineSpec

Step = NodeSpec | PipelineSpec | LoopSpec


class StepGraph:
    """The dependencies of one flow, before they are part of its spec."""

    def __init__(self, flow: FlowSpec, problems: ProblemList) -> None:
        self._flow = flow
        self._problems = problems
        self._step_of = {node.id: node.group or node.id for node in flow.nodes.values()}
        self._step_of |= {group: group for group in (*flow.pipelines, *flow.loops)}
        self._steps = list(dict.fromkeys(self._step_of.values()))
        self._edges_within: dict[str, list[EdgeSpec]] = defaultdict(list)
        for edge in flow.edges:
            if self._step_of[edge.source] == self._step_of[edge.target]:
                self._edges_within[edge.target].append(edge)
        self._writers: dict[str, list[str]] = defaultdict(list)
        for node in flow.nodes.values():
            for field in node.writes:
                self._writers[field].append(node.id)

    def resolved(self) -> FlowSpec:
        """The flow with `after` and `step_order`. The order is incomplete if a cycle was reported."""
        flow = self._flow
        after = self._step_dependencies()
        order = self._order(after)
        inner = {}
        for group in flow.pipelines.values():
            inner.update(self._stages_after(group))
        for loop in flow.loops.values():
            inner.update(self._body_after(loop))
        after |= inner
        from msgspec.structs import replace

        return replace(
            flow,
            nodes={name: replace(node, after=after.get(name, ())) for name, node in flow.nodes.items()},
            pipelines={name: replace(one, after=after[name]) for name, one in flow.pipelines.items()},
            loops={name: replace(one, after=after[name]) for name, one in flow.loops.items()},
            step_order=tuple(order),
        )

    def _step_dependencies(self) -> dict[str, tuple[Dependency, ...]]:
        edges: dict[str, list[EdgeSpec]] = defaultdict(list)
        for edge in self._flow.edges:
            if self._step_of[edge.source] != self._step_of[edge.target]:
                edges[self._step_of[edge.target]].append(edge)
        behind = self._behind(edges) if edges else {}
        numbers = {step: number for number, step in enumerate(self._steps)}
        result = {}
        for step in self._steps:
            fields = self._fields_by_writer(step, edges[step])
            later = behind.get(step, 0)
            fields = {writer: names for writer, names in fields.items() if not later >> numbers[writer] & 1}
            result[step] = self._joined(edges[step], fields)
        return result

    def _joined(self, edges: list[EdgeSpec], fields: Mapping[str, set[str]]) -> tuple[Dependency, ...]:
        """Edges and reads as dependencies: one for each source, one more for each further conditional edge from it."""
        rest = dict(fields)
        joined = []
        for edge in edges:
            source = self._step_of[edge.source]
            names = tuple(sorted(rest.pop(source, ())))
            joined.append(Dependency(id=source, edge=True, when=edge.when, fields=names))
        joined += [Dependency(id=source, fields=tuple(sorted(names))) for source, names in rest.items()]
        return tuple(joined)

    def _fields_by_writer(self, step: str, edges: list[EdgeSpec]) -> dict[str, set[str]]:
        """Other steps that write what this one reads, with the fields."""
        found: dict[str, set[str]] = defaultdict(set)
        for field in dict.fromkeys([*self._reads(step), *_condition_reads(edges)]):
            for writer in self._writers.get(field, ()):
                if self._step_of[writer] != step:
                    found[self._step_of[writer]].add(field)
        return found

    def _reads(self, step: str) -> Iterator[str]:
        for member in self._flow.members(step):
            node = self._flow.nodes[member]
            yield from node.reads
            yield from node.expression_reads
            if node.group:
                yield from _condition_reads(self._inner_edges(member))
        if step not in self._flow.nodes:
            yield from self._flow.step(step).expression_reads

    def _behind(self, edges: Mapping[str, list[EdgeSpec]]) -> dict[str, int]:
        """For each step, as bits, the steps that edges put behind it. Steps in a cycle of edges get none."""
        numbers = {step: number for number, step in enumerate(self._steps)}
        sources = {step: {self._step_of[edge.source] for edge in edges.get(step, ())} for step in self._steps}
        behind = dict.fromkeys(self._steps, 0)
        for step in reversed(list(_sorted(sources))):
            for source in sources[step]:
                behind[source] |= behind[step] | 1 << numbers[step]
        return behind

    def _order(self, after: Mapping[str, tuple[Dependency, ...]]) -> list[str]:
        sources = {step: {one.id for one in found} for step, found in after.items()}
        order = list(_sorted(sources))
        left = sources.keys() - set(order)
        while left:
            cycle = _one_cycle(min(left, key=self._steps.index), sources, left)
            if not cycle:
                break
            self._report(cycle, after)
            left -= set(cycle)
            left = {step for step in left if sources[step] & left}
        return order

    def _report(self, cycle: list[str], after: Mapping[str, tuple[Dependency, ...]]) -> None:
        arrows = " → ".join([*cycle, cycle[0]])
        reasons = []
        for source, target in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            dependency = next(one for one in after[target] if one.id == source)
            reads = ", ".join(dependency.fields)
            reasons.append(
                f"'{target}' reads {reads} from '{source}'" if reads else f"an edge {source} → {target}"
            )
        hint = "; ".join(reasons[:5]) + ("; …" if len(reasons) > 5 else "")
        self._problems.error(self._flow.step(cycle[0]).line, f"a cycle: {arrows}", hint)

    def _stages_after(self, pipeline: PipelineSpec) -> dict[str, tuple[Dependency, ...]]:
        result = {}
        for place, name in enumerate(pipeline.stages):
            earlier = pipeline.stages[:place]
            fields = self._fields_from(name, earlier)
            if earlier:
                fields.setdefault(earlier[-1], set())
            result[name] = self._inner(name, earlier, fields)
        return result

    def _body_after(self, loop: LoopSpec) -> dict[str, tuple[Dependency, ...]]:
        result = {}
        for place, name in enumerate(loop.body):
            earlier = loop.body[:place]
            result[name] = self._inner(name, earlier, self._fields_from(name, earlier))
        return result

    def _fields_from(self, name: str, earlier: Iterable[str]) -> dict[str, set[str]]:
        node = self._flow.nodes[name]
        reads = {*node.reads, *node.expression_reads, *_condition_reads(self._inner_edges(name))}
        writes = {other: reads & set(self._flow.nodes[other].writes) for other in earlier}
        return {other: fields for other, fields in writes.items() if fields}

    def _inner_edges(self, name: str) -> list[EdgeSpec]:
        """The edges to a member from members of its own group."""
        return self._edges_within.get(name, [])

    def _inner(
        self, name: str, earlier: tuple[str, ...], fields: dict[str, set[str]]
    ) -> tuple[Dependency, ...]:
        group = self._flow.nodes[name].group
        edges = self._inner_edges(name)
        for edge in edges:
            if edge.source not in earlier:
                self._problems.error(
                    edge.line,
                    f"the edge {edge.source} → {name} runs against the order of '{group}'",
                    f"put '{edge.source}' before '{name}' there",
                )
        joined = [
            Dependency(id=e.source, edge=True, when=e.when, fields=tuple(sorted(fields.pop(e.source, ()))))
            for e in edges
        ]
        return (*joined, *(Dependency(id=one, fields=tuple(sorted(names))) for one, names in fields.items()))


def _condition_reads(edges: Iterable[EdgeSpec]) -> Iterator[str]:
    for edge in edges:
        if edge.when:
            yield from parse_expression(edge.when).fields


def _sorted(sources: Mapping[str, set[str]]) -> Iterator[str]:
    """Topological order, in the order of the file where there is a choice. Leaves out what is in or behind a cycle."""
    left = {step: len(found) for step, found in sources.items()}
    targets: dict[str, list[str]] = defaultdict(list)
    for step, found in sources.items():
        for source in found:
            targets[source].append(step)
    ready = [step for step, number in left.items() if not number]
    for step in ready:
        yield step
        for target in targets[step]:
            left[target] -= 1
            if not left[target]:
                ready.append(target)


def _one_cycle(start: str, sources: Mapping[str, set[str]], within: set[str]) -> list[str]:
    """A cycle that is reached from `start` by going to sources, in running order; empty without one."""
    path: dict[str, None] = {}
    step: str | None = start
    while step is not None and step not in path:
        path[step] = None
        step = min(sources[step] & within, default=None)
    if step is None:
        return []
    walked = list(path)
    return walked[walked.index(step) :][::-1]
