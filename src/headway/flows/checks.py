"""Checks that concern the whole graph: names that do not exist, fields, groups, writers, steps that never run."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from headway.config.file_problems import ProblemList
from headway.flows.expressions import parse_expression
from headway.flows.field_types import fits
from headway.flows.spec import FlowSpec, LoopSpec, Merge, NodeSpec, PipelineSpec, StateField


def check_graph(
    flow: FlowSpec, fields: dict[str, StateField], *, closed: bool, problems: ProblemList
) -> FlowSpec:
    """The flow with its fields, groups and inputs. `closed`: the file has a state, so that other fields are errors.

    Parts that are wrong are reported and left out, so that what follows can rely on every name.
    """
    checker = _GraphChecker(flow, problems)
    flow = checker.with_groups()
    flow = _with_fields(flow, fields, closed, problems)
    _check_writers(flow, problems)
    _check_carried_reads(flow, problems)
    _check_never_run(flow, problems)
    return flow


class _GraphChecker:
    """Checks edges, pipelines and loops against the nodes."""

    def __init__(self, flow: FlowSpec, problems: ProblemList) -> None:
        self._flow = flow
        self._problems = problems
        self._group_of: dict[str, str] = {}
        self._steps: dict[str, None] = {}

    def with_groups(self) -> FlowSpec:
        flow = self._flow
        self._check_ids()
        pipelines = {
            name: replace(one, stages=self._members(one, one.stages)) for name, one in flow.pipelines.items()
        }
        loops = {name: replace(one, body=self._members(one, one.body)) for name, one in flow.loops.items()}
        nodes = {name: replace(node, group=self._group_of.get(name, "")) for name, node in flow.nodes.items()}
        self._flow = replace(
            flow,
            nodes=nodes,
            pipelines={name: one for name, one in pipelines.items() if one.stages},
            loops={name: one for name, one in loops.items() if one.body},
        )
        self._steps = dict.fromkeys([*nodes, *pipelines, *loops])
        edges = tuple(
            edge
            for edge in flow.edges
            if self._edge_is_possible(edge.source, edge.target, edge.when, edge.line)
        )
        return replace(self._flow, edges=edges)

    def _check_ids(self) -> None:
        for group in _groups(self._flow):
            if group.id in self._flow.nodes or (
                group is self._flow.loops.get(group.id) and group.id in self._flow.pipelines
            ):
                self._problems.error(group.line, f"the id '{group.id}' is used twice")

    def _members(self, group: PipelineSpec | LoopSpec, names: tuple[str, ...]) -> tuple[str, ...]:
        kind = "pipeline" if isinstance(group, PipelineSpec) else "loop"
        if not names:
            self._problems.error(group.line, f"{kind} '{group.id}' has no nodes")
        return tuple(name for name in names if self._is_member(group, kind, name))

    def _is_member(self, group: PipelineSpec | LoopSpec, kind: str, name: str) -> bool:
        if name not in self._flow.nodes:
            message = f"{kind} '{group.id}': there is no node '{name}'"
            self._problems.unknown(group.line, message, name, self._flow.nodes)
            return False
        if name in self._group_of:
            self._problems.error(
                group.line, f"node '{name}' is in '{self._group_of[name]}' and in '{group.id}'"
            )
            return False
        if kind == "pipeline" and self._flow.nodes[name].for_each is not None:
            message = f"node '{name}' is a stage of '{group.id}' and has 'for_each'"
            self._problems.error(self._flow.nodes[name].line, message, "a stage already runs for each item")
        self._group_of[name] = group.id
        return True

    def _edge_is_possible(self, source: str, target: str, when: str, line: int) -> bool:
        known = self._steps
        for name in (source, target):
            if name not in known:
                self._problems.unknown(line, f"an edge names '{name}', which does not exist", name, known)
                return False
        group = self._group_of.get(target, "")
        if source in (target, group) or self._group_of.get(source, "-") == target:
            self._problems.error(line, f"the edge {source} → {target} leads to itself")
            return False
        if when and group and self._group_of.get(source) != group:
            message = f"the edge {source} → {target} has a condition and leads into '{group}'"
            self._problems.error(line, message, f"lead it to '{group}'")
            return False
        return True


def _with_fields(
    flow: FlowSpec, declared: dict[str, StateField], closed: bool, problems: ProblemList
) -> FlowSpec:
    fields = dict(declared)
    for name, line, what in _named_fields(flow):
        if name in fields:
            continue
        if closed:
            problems.unknown(line, f"{what} '{name}', which state.schema does not declare", name, declared)
        fields[name] = StateField(name=name, declared=False, line=line)
    repeated = {field for node in flow.nodes.values() if node.for_each for field in node.writes}
    merged = {name: _merged(field, name in repeated, problems) for name, field in fields.items()}
    written = {field for node in flow.nodes.values() for field in node.writes}
    read = {name for name, _, what in _named_fields(flow) if not what.endswith("writes")}
    given = read - written
    inputs = tuple(name for name, one in merged.items() if name in given and not one.has_default)
    if not closed:
        for name in inputs:
            _warn_of_misspelling(merged[name], sorted(written), problems)
    _warn_of_own_reads(flow, merged, problems)
    return replace(flow, fields=merged, inputs=inputs)


def _warn_of_own_reads(flow: FlowSpec, fields: dict[str, StateField], problems: ProblemList) -> None:
    """Warn of a node that runs once and reads what only it writes: without an input there is no value."""
    for node in flow.nodes.values():
        for name in node.reads if not node.group else ():
            if flow.writers(name) == (node.id,) and not fields[name].has_default:
                message = f"node '{node.id}' reads '{name}', which only it writes"
                problems.warning(
                    node.line, message, f"give a value with --arg {name}=VALUE, or a default in state.schema"
                )


def _merged(field: StateField, repeated: bool, problems: ProblemList) -> StateField:
    # The reader leaves `merge` empty where the file has none.
    default: Merge = "array_append" if repeated else "last_wins"
    merge: Merge = field.merge if field.declared and str(field.merge) else default
    if merge == "array_append" and field.type not in ("array", "any"):
        problems.error(
            field.line, f"state.schema.{field.name}: array_append needs 'type: array', not {field.type}"
        )
    if field.has_default and field.default is not None and not fits(field.type, field.default):
        problems.error(field.line, f"state.schema.{field.name}: the default is not of type {field.type}")
    return replace(field, merge=merge)


def _warn_of_misspelling(field: StateField, written: list[str], problems: ProblemList) -> None:
    from headway.config.near_names import near_name

    near = near_name(field.name, written)
    if near is not None:
        message = f"no node writes '{field.name}', so --arg or --state must give it"
        problems.warning(field.line, message, f"did you mean '{near}'?")


def _named_fields(flow: FlowSpec) -> Iterator[tuple[str, int, str]]:
    """Every field that something names, with a line and what it does with it."""
    for node in flow.nodes.values():
        for field in (*node.reads, *node.expression_reads):
            yield field, node.line, f"node '{node.id}' reads"
        for field in node.writes:
            yield field, node.line, f"node '{node.id}' writes"
    for group in _groups(flow):
        for field in group.expression_reads:
            yield field, group.line, f"'{group.id}' reads"
    for edge in flow.edges:
        for field in parse_expression(edge.when).fields if edge.when else ():
            yield field, edge.line, f"the edge {edge.source} → {edge.target} reads"


def _groups(flow: FlowSpec) -> Iterator[PipelineSpec | LoopSpec]:
    yield from flow.pipelines.values()
    yield from flow.loops.values()


def _check_writers(flow: FlowSpec, problems: ProblemList) -> None:
    once = {name for name, field in flow.fields.items() if field.merge == "set_once"}
    first: dict[str, NodeSpec] = {}
    for node in flow.nodes.values():
        for field in node.writes:
            if field not in once:
                continue
            if field in first:
                message = f"'{field}' is set_once and has two writers: '{first[field].id}' and '{node.id}'"
                problems.error(node.line, message, "let only one write it, or change its merge")
            elif node.for_each or node.group:
                message = f"'{field}' is set_once, but node '{node.id}' writes it more than once"
                problems.error(node.line, message, "it runs for several items or iterations")
            first.setdefault(field, node)


def _check_carried_reads(flow: FlowSpec, problems: ProblemList) -> None:
    """In a pipeline with several items at a time, no stage may read what it or a later stage writes."""
    for pipeline in flow.pipelines.values():
        for place, name in enumerate(pipeline.stages if pipeline.concurrency != 1 else ()):
            earlier = {field for one in pipeline.stages[:place] for field in flow.nodes[one].writes}
            later = {field for one in pipeline.stages[place:] for field in flow.nodes[one].writes}
            for field in flow.nodes[name].reads:
                if field in later - earlier:
                    message = f"stage '{name}' reads '{field}' of the items before, but items of '{pipeline.id}' overlap"
                    problems.error(flow.nodes[name].line, message, "set its concurrency to 1")


def _check_never_run(flow: FlowSpec, problems: ProblemList) -> None:
    """Report nodes whose condition is always false, and what waits for them."""
    never = {node.id for node in flow.nodes.values() if _is_constant(node.when, False)}
    for name in never:
        problems.error(flow.nodes[name].line, f"node '{name}' is unreachable: its 'when' is always false")
    for loop in flow.loops.values():
        if _is_constant(loop.until, True):
            never.update(loop.body)
            problems.error(loop.line, f"loop '{loop.id}' is unreachable: its 'until' is always true")
    writers = {field: set(flow.writers(field)) for name in never for field in flow.nodes[name].writes}
    while never:
        more = {
            name: why
            for name in flow.nodes
            if name not in never and (why := _waits_for(flow, name, never, writers))
        }
        if not more:
            return
        for name, why in more.items():
            problems.error(flow.nodes[name].line, f"node '{name}' is unreachable: {why}")
            writers |= {field: set(flow.writers(field)) for field in flow.nodes[name].writes}
        never |= more.keys()


def _waits_for(flow: FlowSpec, name: str, never: set[str], writers: dict[str, set[str]]) -> str:
    for edge in flow.edges:
        if edge.target == name and (_is_constant(edge.when, False) or edge.source in never):
            why = (
                "never runs" if edge.source in never else "leads here under a condition that is always false"
            )
            return f"'{edge.source}' {why}"
    for field in flow.nodes[name].reads:
        has_other = flow.fields[field].has_default or not writers.get(field)
        if not has_other and writers[field] <= never:
            return f"no node that runs writes '{field}'"
    return ""


def _is_constant(condition: str, value: bool) -> bool:
    if not condition:
        return False
    expression = parse_expression(condition)
    return not expression.fields and expression.is_true({}) is value
