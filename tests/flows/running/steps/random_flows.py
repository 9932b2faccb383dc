"""Random flows for property tests: nodes of all kinds, pipelines, loops, inner flows, several writers of one field.

Fields and edges are chosen so that the graph has no cycle: a node reads only what nodes before it write, and a node that writes a
field which others have read comes behind them by edges. The dependencies are those that the reader of flow files finds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from msgspec.structs import replace

from headway.config.file_problems import ProblemList
from headway.flows.checks import check_graph
from headway.flows.dependencies import StepGraph
from headway.flows.expressions import parse_expression
from headway.flows.spec import (
    AUTO,
    EdgeSpec,
    FlowSpec,
    ForEach,
    LoopSpec,
    MaxFailures,
    NodeSpec,
    PipelineSpec,
    StateField,
)

GIVEN = ["xs", "n", "log"]
SHARED = ["f", "g", "log"]
SOURCES = ["$.xs", "$.xs", "$.f", "$.log"]


class _Builder:
    """Draws one flow."""

    def __init__(self, draw: st.DrawFn, depth: int) -> None:
        self.draw, self.depth = draw, depth
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: list[EdgeSpec] = []
        self.pipelines: dict[str, PipelineSpec] = {}
        self.loops: dict[str, LoopSpec] = {}
        #: Steps that read a field, and fields that have been written.
        self.readers: dict[str, set[str]] = {}
        self.written = list(GIVEN)
        self.steps: list[str] = []
        self.sets_once = False

    def pick(self, values: Any) -> Any:
        return self.draw(st.sampled_from(list(values)))

    def chance(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == 0)

    def flow(self) -> FlowSpec:
        for number in range(self.draw(st.integers(1, 5 if not self.depth else 3))):
            what = self.pick(["node", "node", "node", "pipeline", "loop"])
            {"node": self.step, "pipeline": self.pipeline, "loop": self.loop}[what](f"s{number}")
        return self.checked()

    def checked(self) -> FlowSpec:
        spec = FlowSpec(
            name="f", path=Path("f.yaml"), concurrency=self.pick([AUTO, 1, 2]), nodes=self.nodes, edges=tuple(self.edges),
            pipelines=self.pipelines, loops=self.loops,
        )  # fmt: skip
        fields = {
            "log": StateField(name="log", merge="array_append"),
            "g": StateField(
                name="g",
                merge=self.pick(["last_wins", "array_append"]),
                has_default=self.chance(2),
                default=["d"],
            ),
            "item": StateField(name="item"),
            "once": StateField(name="once", merge="set_once"),
        }
        problems = ProblemList()
        spec = check_graph(spec, fields, closed=False, problems=problems)
        spec = StepGraph(spec, problems).resolved()
        assume(not any(one.severity == "error" for one in problems.found()))
        return spec

    # -- nodes -----------------------------------------------------------------------------------------------------------

    def node(self, name: str, step: str, *, each: bool = True, earlier: list[str] | None = None) -> NodeSpec:
        kind = self.pick(["tool", "tool", "tool", "tool", "human", "dataset", "flow"])
        if kind == "flow" and self.depth >= 2:
            kind = "tool"
        reads = (
            tuple(sorted({self.pick(self.written) for _ in range(self.draw(st.integers(0, 2)))}))
            if self.written
            else ()
        )
        when = self.pick(["", "", "", "$.n > 2", "length($.log) > 2", f"$.{self.pick(self.written)} != 'x'"])
        for_each = self.for_each() if each and kind in ("tool", "flow") and self.chance(3) else None
        inner = _Builder(self.draw, self.depth + 1).flow() if kind == "flow" else None
        if inner is not None:
            writes = tuple(
                sorted({self.pick([*inner.fields]) for _ in range(2)} - {"xs", "n", "item", "index"})
            ) or ("log",)
            reads = tuple(sorted({*reads, *(one for one in inner.inputs if one in self.written)}))
        else:
            writes = tuple(
                sorted({self.pick([f"{name}_out", *SHARED]) for _ in range(self.draw(st.integers(1, 2)))})
            )
        expressions = {
            field
            for text in (when, for_each.source if for_each else "")
            if text
            for field in parse_expression(text).fields
        }
        if kind == "dataset":
            writes, reads, for_each = writes[:1], (), None
            expressions = set(parse_expression(when).fields) if when else set()
        if step == name and kind == "tool" and for_each is None and not self.sets_once and self.chance(4):
            self.sets_once, writes = True, (*writes, "once")
        node = NodeSpec(
            id=name, kind=kind, reads=reads, writes=writes, for_each=for_each, when=when, inner=inner,
            expression_reads=tuple(sorted(expressions)), args={"a": 1} if self.chance(4) else {},
        )  # fmt: skip
        self.note(node, step)
        return node

    def for_each(self) -> ForEach:
        tolerance = self.pick([MaxFailures(), MaxFailures(count=1), MaxFailures(percent=50.0)])
        concurrency = self.pick([AUTO, 1, 2])
        if self.chance(2):
            return ForEach(
                items=tuple(range(self.draw(st.integers(0, 3)))),
                concurrency=concurrency,
                max_failures=tolerance,
            )
        return ForEach(source=self.pick(SOURCES), concurrency=concurrency, max_failures=tolerance)

    def note(self, node: NodeSpec, step: str) -> None:
        """A field that others have read is written behind them."""
        self.nodes[node.id] = node
        for field in node.writes:
            for reader in self.readers.get(field, ()):
                if reader != step:
                    self.edges.append(EdgeSpec(source=reader, target=step))
        for field in (*node.reads, *node.expression_reads):
            self.readers.setdefault(field, set()).add(step)
        self.written += [field for field in node.writes if field not in self.written]

    def step(self, name: str) -> None:
        self.node(name, name)
        self.maybe_edge(name)

    def maybe_edge(self, step: str) -> None:
        if self.steps and self.chance(3):
            when = self.pick(["", "", "$.n > 2", "length($.log) < 4"])
            if when:
                self.readers.setdefault(parse_expression(when).fields[0], set()).add(step)
            self.edges.append(EdgeSpec(source=self.pick(self.steps), target=step, when=when))
        self.steps.append(step)

    # -- groups -----------------------------------------------------------------------------------------------------------

    def members(self, name: str, *, each: bool) -> tuple[str, ...]:
        names = [f"{name}{letter}" for letter in "abc"[: self.draw(st.integers(1, 3))]]
        for place, one in enumerate(names):
            self.nodes[one] = replace(self.node(one, name, each=each), group=name)
            if place and self.chance(3):
                when = self.pick(["", "$.n > 2", "length($.log) < 4"])
                self.edges.append(EdgeSpec(source=self.pick(names[:place]), target=one, when=when))
                if when:
                    self.readers.setdefault(parse_expression(when).fields[0], set()).add(name)
        return tuple(names)

    def pipeline(self, name: str) -> None:
        items = None if self.chance(2) else tuple(range(self.draw(st.integers(0, 3))))
        source = "" if items is not None else self.pick(SOURCES)
        fields = parse_expression(source).fields if source else ()
        for field in fields:
            self.readers.setdefault(field, set()).add(name)
        stages = self.members(name, each=False)
        self.pipelines[name] = PipelineSpec(
            id=name,
            source=source,
            items=items,
            stages=stages,
            concurrency=self.pick([AUTO, 1, 2]),
            expression_reads=fields,
        )
        self.maybe_edge(name)

    def loop(self, name: str) -> None:
        until = self.pick(["", "length($.log) > 4", "$.f == 3"])
        for field in parse_expression(until).fields if until else ():
            self.readers.setdefault(field, set()).add(name)
        self.loops[name] = LoopSpec(
            id=name, body=self.members(name, each=True), until=until, max_iters=self.draw(st.integers(1, 3)),
            budget_usd=self.pick([None, None, 0.5]), expression_reads=parse_expression(until).fields if until else (),
        )  # fmt: skip
        self.maybe_edge(name)


@st.composite
def flows(draw: st.DrawFn) -> FlowSpec:
    """A flow whose inputs are `xs`, `n` and `log`."""
    return _Builder(draw, 0).flow()
