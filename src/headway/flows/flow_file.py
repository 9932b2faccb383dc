"""Makes a `FlowSpec` from a flow file. Everything that is wrong with it is reported at once.

`load_flow` is what other parts use; `check_flow` also gives warnings. What each node needs is checked here; what concerns
the graph is in `checks` and `dependencies`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headway.config.file_problems import FileErrors, FileProblem, ProblemList
from headway.config.near_names import near_name
from headway.config.yaml_file import Marked, YamlError, read_yaml
from headway.errors import InputError
from headway.flows.answer_form import is_json_answer
from headway.flows.checks import check_graph
from headway.flows.dependencies import StepGraph
from headway.flows.expressions import parse_expression
from headway.flows.file_keys import FLOW
from headway.flows.node_checks import check_args, check_inner_inputs, check_items, check_tool
from headway.flows.prompt_names import check_prompt
from headway.flows.spec import (
    EdgeSpec,
    FlowSpec,
    ForEach,
    LoopSpec,
    MaxFailures,
    NodeSpec,
    OnError,
    PipelineSpec,
    StateField,
)
from headway.flows.value_kinds import ReadMapping

#: Keys that only some kinds of nodes have.
KEYS_OF_KINDS: Final = {
    "prompt": ("agent", "human"),
    "impl": ("tool",),
    "file": ("dataset", "flow"),
    "model": ("agent",),
    "provider": ("agent",),
    "schema": ("agent", "tool"),
    "for_each": ("agent", "tool", "flow"),
}
NEEDED: Final = {"agent": ("prompt",), "tool": ("impl",), "dataset": ("file", "writes"), "flow": ("file",)}
#: Flows inside flows.
DEEPEST: Final = 20


class CheckedFlow(msgspec.Struct, frozen=True):
    """What a check found: the flow, or None if there are errors; and all problems, sorted by line."""

    flow: FlowSpec | None
    problems: tuple[FileProblem, ...]


def load_flow(path: Path) -> FlowSpec:
    """Read a flow file. Raises `InputError` with every error."""
    return or_raise(check_flow(path), str(path))


def or_raise(checked: CheckedFlow, name: str) -> FlowSpec:
    """The flow, or an `InputError` with every error."""
    if checked.flow is not None:
        return checked.flow
    errors = [one.text(name) for one in checked.problems if one.severity == "error"]
    if len(errors) == 1:
        raise InputError(errors[0])
    raise FileErrors(f"{name} has {len(errors):,} errors", tuple(errors))


def check_flow(path: Path) -> CheckedFlow:
    """Read and check a flow file, and the flows that it contains."""
    return _checked(path, ())


def _checked(path: Path, outer: tuple[Path, ...]) -> CheckedFlow:
    problems = ProblemList()
    try:
        tree = read_yaml(path)
    except YamlError as error:
        problems.error(error.line, error.message, error.hint or "")
        return CheckedFlow(None, problems.found())
    return check_tree(tree, path, (*outer, path.resolve()))


def check_tree(tree: Marked, path: Path, outer: tuple[Path, ...] = ()) -> CheckedFlow:
    """Check a flow that was already read. `path` names it; its folder is that of relative paths."""
    problems = ProblemList()
    if isinstance(tree.value, dict) and "graph" not in tree.value and "prompts" in tree.value:
        hint = f"run it with 'headway eval {path.name}'"
        problems.error(tree.key_lines.get("prompts", tree.line), "this is an eval, and no flow", hint)
        return CheckedFlow(None, problems.found())
    flow = _FlowBuilder(path, problems, outer).build(tree)
    return CheckedFlow(None if problems.has_errors else flow, problems.found())


class _FlowBuilder:
    """Builds one flow. Each method reports what is wrong and goes on."""

    def __init__(self, path: Path, problems: ProblemList, outer: tuple[Path, ...]) -> None:
        self._path = path
        self._folder = path.resolve().parent
        self._problems = problems
        self._outer = outer

    def build(self, tree: Marked) -> FlowSpec | None:
        read = FLOW.read(tree, "flow", self._problems)
        if read is None or not isinstance(read.get("graph"), dict):
            return None
        graph = read["graph"]
        nodes = self._nodes(graph.get("nodes", []))
        if not nodes:
            if not self._problems.has_errors:
                self._problems.error(graph.line, "graph.nodes: there are no nodes")
            return None
        pipelines = {one.id: one for one in self._pipelines(graph.get("pipelines", []))}
        loops = {one.id: one for one in self._loops(graph.get("loops", []))}
        flow = FlowSpec(
            name=read.get("name", self._path.stem),
            path=self._path.resolve(),
            description=read.get("description", ""),
            concurrency=read.get("runtime", {}).get("concurrency", 1),
            nodes=nodes,
            pipelines=pipelines,
            loops=loops,
            edges=tuple(self._edges(graph.get("edges", []))),
        )
        return self._whole(flow, read.get("state"))

    def _whole(self, flow: FlowSpec, state: ReadMapping | None) -> FlowSpec:
        """The flow with its fields, groups and dependencies, all checked."""
        declared = None if state is None else state.get("schema", {})
        fields = {name: self._field(name, one) for name, one in (declared or {}).items()}
        flow = check_graph(flow, fields, closed=declared is not None, problems=self._problems)
        for node in flow.nodes.values():
            check_prompt(node, self._problems)
            check_tool(node, self._problems)
            check_args(node, self._problems)
        check_items(flow, self._problems)
        inner = {node.id: self._inner_flow(node) for node in flow.nodes.values() if node.kind == "flow"}
        nodes = {
            name: replace(node, inner=inner.get(name), json_answer=is_json_answer(flow, node))
            for name, node in flow.nodes.items()
        }
        flow = replace(flow, nodes=nodes)
        return StepGraph(flow, self._problems).resolved()

    def _field(self, name: str, read: ReadMapping) -> StateField:
        return StateField(
            name=name,
            type=read.get("type", "any"),
            merge=read.get("merge", ""),
            schema=self._schema(read, f"state.schema.{name}"),
            has_default="default" in read,
            default=read.get("default", (None,))[0],
            line=read.line,
        )

    def _nodes(self, read: list[ReadMapping]) -> dict[str, NodeSpec]:
        nodes: dict[str, NodeSpec] = {}
        for one in read:
            if "id" not in one:
                continue
            name = one["id"]
            if name in nodes:
                self._twice(name, one.line, nodes[name].line)
            else:
                nodes[name] = self._node(one)
        return nodes

    def _twice(self, name: str, line: int, first: int) -> None:
        self._problems.error(line, f"the id '{name}' is used twice", f"the first is in line {first}")

    def _node(self, read: ReadMapping) -> NodeSpec:
        name, kind = read["id"], read.get("kind")
        if kind is not None:
            self._check_keys(read, name, kind)
        impl, _, function = read.get("impl", "").partition(".py:")
        for_each = self._for_each(read["for_each"]) if "for_each" in read else None
        when = read.get("when", "")
        return NodeSpec(
            id=name,
            kind=kind or "tool",
            prompt=self._file(read, "prompt"),
            impl=self._file(read, "impl", f"{impl}.py" if function else impl),
            function=self._function(read, impl, function),
            file=self._file(read, "file"),
            model=read.get("model", ""),
            provider=read.get("provider", ""),
            reads=read.get("reads", ()),
            writes=read.get("writes", ()),
            args=read.get("args", {}),
            for_each=for_each,
            on_error=OnError(**read.get("on_error", {})),
            timeout_s=read.get("timeout"),
            when=when,
            cache=read.get("cache", kind == "agent"),
            schema=self._schema(read, f"node '{name}'"),
            expression_reads=_fields(when, for_each.source if for_each else ""),
            line=read.line,
        )

    def _check_keys(self, read: ReadMapping, name: str, kind: str) -> None:
        for key in read.lines:
            kinds = KEYS_OF_KINDS.get(key, (kind,))
            if kind not in kinds:
                self._problems.error(
                    read.lines[key],
                    f"node '{name}': a node of kind {kind} has no '{key}'",
                    f"only {' and '.join(kinds)}",
                )
        for key in NEEDED.get(kind, ()):
            if key not in read.lines:
                self._problems.error(
                    read.line, f"node '{name}': '{key}' is missing", f"a node of kind {kind} needs it"
                )

    def _function(self, read: ReadMapping, impl: str, function: str) -> str:
        if impl.endswith(".py"):
            hint = f"write '{impl}:main' for the function main"
            self._problems.error(read.lines["impl"], f"node '{read['id']}': '{impl}' names no function", hint)
        if function and not function.isidentifier():
            self._problems.error(
                read.lines["impl"], f"node '{read['id']}': '{function}' is not a function's name"
            )
        return function

    def _for_each(self, read: ReadMapping) -> ForEach:
        source, items = _source(read.get("source"))
        return ForEach(
            source=source,
            items=items,
            concurrency=read.get("concurrency", 1),
            max_failures=read.get("max_failures", MaxFailures()),
        )

    def _pipelines(self, read: list[ReadMapping]) -> list[PipelineSpec]:
        result = []
        for number, one in enumerate(read, 1):
            source, items = _source(one.get("items"))
            spec = PipelineSpec(
                id=one.get("id", f"pipeline_{number}"),
                source=source,
                items=items,
                stages=one.get("stages", ()),
                concurrency=one.get("concurrency", 1),
                expression_reads=_fields(source),
                line=one.line,
            )
            result.append(spec)
        return result

    def _loops(self, read: list[ReadMapping]) -> list[LoopSpec]:
        result = []
        for number, one in enumerate(read, 1):
            name, until = one.get("id", f"loop_{number}"), one.get("until", "")
            if "until" not in one.lines and "max_iters" not in one.lines:
                self._problems.error(one.line, f"loop '{name}' never ends", "it needs 'until' or 'max_iters'")
            limits = {"max_iters": one["max_iters"]} if "max_iters" in one else {}
            spec = LoopSpec(
                id=name,
                body=one.get("body", ()),
                until=until,
                budget_usd=one.get("budget"),
                expression_reads=_fields(until),
                line=one.line,
                **limits,
            )
            result.append(spec)
        return result

    def _edges(self, read: list[ReadMapping]) -> list[EdgeSpec]:
        return [
            EdgeSpec(source=one["from"], target=one["to"], when=one.get("when", ""), line=one.line)
            for one in read
            if "from" in one and "to" in one
        ]

    def _file(self, read: ReadMapping, key: str, name: str = "") -> Path | None:
        """The absolute path of a file that must exist."""
        if key not in read:
            return None
        path = Path(os.path.normpath(self._folder / (name or read[key])))
        if not path.is_file():
            line = read.lines[key]
            what = f"node '{read['id']}': there is no file '{name or read[key]}'"
            if key == "prompt" and any(one.isspace() for one in read[key]):
                self._problems.error(
                    line, what, f"write the text into a file: prompt: ./prompts/{read['id']}.md"
                )
                return path
            near = near_name(path.name, [one.name for one in _siblings(path)])
            beside = os.path.join(os.path.dirname(name or read[key]), near or "")
            hint = f"did you mean '{beside}'?" if near else f"relative names begin at {self._folder}"
            self._problems.error(line, what, hint)
        return path

    def _schema(self, read: ReadMapping, place: str) -> dict[str, Any] | None:
        value = read.get("schema")
        if value is None or isinstance(value, dict):
            return value
        try:
            schema = msgspec.json.decode((self._folder / value).read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._problems.error(read.lines["schema"], f"{place}: the schema '{value}' cannot be read: {why}")
            return None
        if not isinstance(schema, dict):
            self._problems.error(read.lines["schema"], f"{place}: the schema '{value}' is not an object")
            return None
        return schema

    def _inner_flow(self, node: NodeSpec) -> FlowSpec | None:
        if node.file is None or not node.file.is_file():
            return None
        if node.file.resolve() in self._outer or len(self._outer) > DEEPEST:
            self._problems.error(node.line, f"node '{node.id}': the flow contains itself")
            return None
        checked = _checked(node.file, self._outer)
        if checked.flow is None:
            for one in checked.problems:
                if one.severity == "error":
                    self._problems.error(node.line, f"node '{node.id}': {one.text(node.file.name)}")
            return None
        for field in node.writes:
            if field not in checked.flow.fields:
                message = f"node '{node.id}': the flow {node.file.name} has no field '{field}'"
                self._problems.unknown(node.line, message, field, checked.flow.fields)
        check_inner_inputs(node, checked.flow, self._problems)
        return checked.flow


def _siblings(path: Path) -> list[Path]:
    try:
        return [one for one in path.parent.iterdir() if one.is_file()]
    except OSError:
        return []


def _source(value: Any) -> tuple[str, tuple[Any, ...] | None]:
    return ("", value) if isinstance(value, tuple) else (value or "", None)


def _fields(*expressions: str) -> tuple[str, ...]:
    """Fields that expressions read, sorted."""
    return tuple(sorted({field for text in expressions if text for field in parse_expression(text).fields}))
