"""A flow that has been read and checked. Plain data: nothing here reads files or runs anything.

A flow is a graph of steps. A step is a node, a pipeline or a loop, and their ids are unique in the flow. A node that is
a stage of a pipeline, or in the body of a loop, is a *member* of that step and no step itself.

`after` says what something waits for:

- of a step (a node without `group`, a pipeline, a loop): other steps. Waiting for a pipeline or a loop means its end.
- of a member: earlier members of the same pipeline or loop, within one item or one iteration.

A step that reads a field waits for every writer of it, except for writers that edges put behind it. A stage waits for the
stage before it. A member of a loop waits for earlier members of the body that write what it reads, and for its edges.
A member that reads what it or a later member writes gets the value of the item or iteration before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

NodeKind = Literal["agent", "tool", "dataset", "flow", "human"]
FieldType = Literal["string", "integer", "number", "boolean", "array", "object", "any"]
Merge = Literal["last_wins", "set_once", "array_append"]
ErrorPolicy = Literal["skip", "fail_run", "retry"]
Backoff = Literal["linear", "exponential"]

NODE_KINDS: Final[tuple[NodeKind, ...]] = get_args(NodeKind)
FIELD_TYPES: Final[tuple[FieldType, ...]] = get_args(FieldType)
MERGES: Final[tuple[Merge, ...]] = get_args(Merge)
ERROR_POLICIES: Final[tuple[ErrorPolicy, ...]] = get_args(ErrorPolicy)
BACKOFFS: Final[tuple[Backoff, ...]] = get_args(Backoff)

#: A concurrency that the lanes decide: `concurrency: auto`.
AUTO: Final = 0
#: Iterations of a loop that has `until` and no `max_iters`.
DEFAULT_MAX_ITERS: Final = 100


class StateField(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A field of the state. `merge` is resolved: `array_append` if a `for_each` node writes it, else `last_wins`."""

    name: str
    type: FieldType = "any"
    merge: Merge = "last_wins"
    #: A JSON Schema of its value; None without one.
    schema: dict[str, Any] | None = None
    has_default: bool = False
    default: Any = None
    #: False for a field that only `reads` and `writes` name.
    declared: bool = True
    line: int = 0


class MaxFailures(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many iterations may fail: a number of them, or a percentage of all."""

    count: int = 0
    percent: float | None = None

    def allowed(self, iterations: int) -> int:
        """The number of failures that are tolerated among this many iterations."""
        return self.count if self.percent is None else int(iterations * self.percent / 100 + 1e-9)


class ForEach(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One iteration for each item of a list: an expression such as `$.issues`, or `items` from the file itself."""

    source: str = ""
    #: The literal list; None if `source` is an expression.
    items: tuple[Any, ...] | None = None
    #: Iterations at a time; AUTO leaves it to the lanes.
    concurrency: int = 1
    max_failures: MaxFailures = MaxFailures()


class OnError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a failure of a node means. An exhausted `retry` acts as `skip`. None: the lane's value holds."""

    policy: ErrorPolicy = "skip"
    attempts: int | None = None
    backoff: Backoff = "exponential"
    base_ms: int | None = None


class Dependency(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is waited for. An edge has `edge`; what is read from a writer is in `fields`; both may be true."""

    id: str
    edge: bool = False
    #: The condition of the edge; "" without one. If it is false, what waits is skipped.
    when: str = ""
    #: Fields that are read from there, sorted.
    fields: tuple[str, ...] = ()


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node. Paths are absolute. `reads` has what the file lists; expressions may read more (`reads_of_when`…)."""

    id: str
    kind: NodeKind
    #: The prompt file of an `agent`; what a `human` is asked, if anything.
    prompt: Path | None = None
    #: The executable or the Python file of a `tool`, and the function of the latter.
    impl: Path | None = None
    function: str = ""
    #: The rows of a `dataset`, or the file of a `flow`.
    file: Path | None = None
    #: "": from `headway.toml`.
    model: str = ""
    provider: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    args: dict[str, Any] = {}
    for_each: ForEach | None = None
    on_error: OnError = OnError()
    timeout_s: float | None = None
    #: "": always runs.
    when: str = ""
    #: Resolved: on for agents, off for others unless the file says `cache: true`.
    cache: bool = False
    #: The JSON Schema of the answers; None without one.
    schema: dict[str, Any] | None = None
    #: Fields that `when` and `for_each.source` read. They count as reads for the order, not for what the node is given.
    expression_reads: tuple[str, ...] = ()
    #: Resolved: whether the text of an agent's answer is JSON (`answer_form`).
    json_answer: bool = False
    #: The pipeline or loop that it is a member of; "" for a step.
    group: str = ""
    #: The flow of a node of kind `flow`.
    inner: FlowSpec | None = None
    after: tuple[Dependency, ...] = ()
    line: int = 0


class PipelineSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A list of items that go through the same stages. Each item goes on as soon as its own stage is done."""

    id: str
    #: An expression, or "" if `items` is the list.
    source: str = ""
    items: tuple[Any, ...] | None = None
    #: Ids of nodes, in order.
    stages: tuple[str, ...] = ()
    #: Items at a time; AUTO leaves it to the lanes.
    concurrency: int = 1
    expression_reads: tuple[str, ...] = ()
    after: tuple[Dependency, ...] = ()
    line: int = 0


class LoopSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A body that runs until `until` is true. It is evaluated before each iteration, the first one included."""

    id: str
    #: Ids of nodes, in order.
    body: tuple[str, ...] = ()
    #: "": only `max_iters` ends it.
    until: str = ""
    max_iters: int = DEFAULT_MAX_ITERS
    #: In USD: no iteration starts once the loop has spent this much. None: no limit.
    budget_usd: float | None = None
    expression_reads: tuple[str, ...] = ()
    after: tuple[Dependency, ...] = ()
    line: int = 0


class EdgeSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An edge as the file has it."""

    source: str
    target: str
    when: str = ""
    line: int = 0


class FlowSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole flow. Tuples have the order of the file."""

    name: str
    #: The file it came from, and the folder of its relative paths.
    path: Path
    description: str = ""
    #: Nodes at a time; AUTO leaves it to the lanes.
    concurrency: int = 1
    fields: dict[str, StateField] = {}
    nodes: dict[str, NodeSpec] = {}
    edges: tuple[EdgeSpec, ...] = ()
    pipelines: dict[str, PipelineSpec] = {}
    loops: dict[str, LoopSpec] = {}
    #: Fields that are read, that no node writes and that have no default: `--arg` or `--state` must give them.
    inputs: tuple[str, ...] = ()
    #: Ids of all steps in an order that respects `after`.
    step_order: tuple[str, ...] = ()

    def step(self, step_id: str) -> NodeSpec | PipelineSpec | LoopSpec:
        """The node, pipeline or loop with this id."""
        return self.nodes.get(step_id) or self.pipelines.get(step_id) or self.loops[step_id]

    def members(self, step_id: str) -> tuple[str, ...]:
        """The nodes of a step, in order: a node is its own only member."""
        if step_id in self.pipelines:
            return self.pipelines[step_id].stages
        return self.loops[step_id].body if step_id in self.loops else (step_id,)

    def writers(self, field: str) -> tuple[str, ...]:
        """Ids of the nodes that write a field."""
        return tuple(node.id for node in self.nodes.values() if field in node.writes)
