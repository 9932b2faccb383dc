"""The key of a unit: a digest of everything that its answer follows from. PURE.

A key has named parts, so that a change can be explained (`headway cache why`). Those of a node are the same for all of its units:

- `node`: its path; `spec`: its kind, function, reads and writes, and the form of its answers;
- `prompt`: the text of the prompt file; `tool`: the contents of the tool's files (`tool_files`);
- `schema`: the schema of its answers, and the types of the fields that it writes;
- `args`; `model`: what answers, its address and its model, as for batches (`ModelAddress`).

Those of a unit are `state` (the fields that it reads), `item`, `index` and `turn` (the iterations of the loops around it). The index counts for
tools, which are given it, and for prompts that name it. So an item that moves in its list keeps its answer. For a prompt that names `{{job}}`,
the name of the job is a part.

No part: lines, comments, descriptions, the order of nodes, the paths of files, `on_error`, `timeout`, `concurrency`, `max_failures`, `when`, edges
and `cache`. They decide whether and when a unit runs, not what it answers. The name of the job, which tools are given, is none either.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

from headway.batch.prompt_template import Template
from headway.errors import UsageError
from headway.flows.answer_form import field_of
from headway.flows.lazy_list import PAGE, LazyList, plain
from headway.flows.running.flow_form import FlowNode
from headway.flows.running.steps.node_run import NextUnit
from headway.flows.running.unit_ids import parse_unit
from headway.flows.spec import FlowSpec

#: Changes with what a key is made of, so that no older answer is used for a newer unit.
VERSION: Final = 1
#: 128 bits, as the keys of rows.
KEY_BYTES: Final = 16
#: Added to a key that is compared with those of earlier jobs of the flow only, and makes no entry of the cache.
OWN: Final = b"\0"
#: States whose digests are remembered: all iterations of a node have the same.
_REMEMBERED: Final = 16

#: The parts of a node's or unit's key by name, as JSON values.
Parts = Mapping[str, Any]


def node_parts(
    one: FlowNode, prompt: str | None, tool: Mapping[str, str] | None, model: Sequence[str] | None
) -> dict[str, Any]:
    """The parts that all units of a node share. `tool` has the digests of the tool's files."""
    path, flow, node = one
    parts: dict[str, Any] = {
        "node": path,
        "spec": [node.kind, node.function, node.reads, node.writes, node.json_answer],
        "prompt": prompt,
        "tool": tool,
        "schema": [node.schema, {name: _field(flow, name) for name in node.writes}],
        "args": node.args,
        "model": model,
    }
    return {name: value for name, value in parts.items() if value is not None}


def _field(flow: FlowSpec, name: str) -> list[Any]:
    field = field_of(flow, name)
    return [field.type, field.merge == "array_append", field.schema]


def roots_in(prompt: str | None) -> frozenset[str]:
    """The first parts of the names in a prompt: item, index, state, args, node, job."""
    if prompt is None or "{{" not in prompt:
        return frozenset()
    try:
        names = Template(prompt, "").names
    except UsageError:
        return frozenset()
    return frozenset(name.partition(".")[0].partition("[")[0] for name in names)


class UnitKeys:
    """Makes the keys of one job's units. `parts` has those of each node, by path."""

    def __init__(
        self, nodes: Iterable[FlowNode], prompts: Mapping[str, str], parts: Mapping[str, Parts], job: str
    ) -> None:
        self._job, self._prompts, self._parts = job, prompts, parts
        self._nodes = {one.path: one for one in nodes}
        self._known: dict[str, _NodeKey] = {}
        self._states: OrderedDict[int, tuple[Mapping[str, Any], bytes]] = OrderedDict()

    def key(self, unit: NextUnit) -> bytes:
        """The key of a unit."""
        node = self._node(unit.node)
        digest = node.base.copy()
        digest.update(self._state_digest(unit.state))
        digest.update(_encode([plain(unit.item), *node.rest(unit)]))
        return digest.digest()

    def parts(self, unit: NextUnit) -> dict[str, Any]:
        """All parts, as values. Lists that are lazy stay so."""
        node = self._node(unit.node)
        index, turns = node.rest(unit)
        own = {"state": unit.state or None, "item": unit.item, "index": index, "turn": turns or None}
        return {**node.parts, **{name: value for name, value in own.items() if value is not None}}

    def _node(self, path: str) -> _NodeKey:
        known = self._known.get(path)
        if known is None:
            around = [self._nodes["/".join(path.split("/")[: n + 1])] for n in range(path.count("/") + 1)]
            loops = [one.node.group in one.flow.loops for one in around]
            roots = roots_in(self._prompts.get(path))
            parts = dict(self._parts[path])
            if "job" in roots:
                parts["job"] = self._job
            indexed = self._nodes[path].node.kind != "agent" or "index" in roots
            known = self._known[path] = _NodeKey(parts, indexed=indexed, loops=loops)
        return known

    def _state_digest(self, state: Mapping[str, Any]) -> bytes:
        states = self._states
        known = states.get(id(state))
        if known is None:
            known = states[id(state)] = state, state_digest(state)
            if len(states) > _REMEMBERED:
                states.popitem(last=False)
        return known[1]


class _NodeKey:
    """What is the same for all units of a node."""

    __slots__ = ("_indexed", "_loops", "base", "parts")

    def __init__(self, parts: Parts, *, indexed: bool, loops: Sequence[bool]) -> None:
        self.parts = parts
        self.base = blake2b(_encode([VERSION, parts]), digest_size=KEY_BYTES)
        self._indexed = indexed
        self._loops = loops if any(loops) else ()

    def rest(self, unit: NextUnit) -> tuple[int | None, list[int]]:
        """The index, if it counts, and the iterations of the loops around the unit."""
        return unit.index if self._indexed else None, self._turns(unit.id) if self._loops else []

    def _turns(self, unit: str) -> list[int]:
        return [
            parse_unit(part).turn
            for part, is_loop in zip(unit.split("/"), self._loops, strict=True)
            if is_loop
        ]


def part_digest(value: Any) -> bytes:
    """The digest of one part."""
    return blake2b(_encode(plain(value)), digest_size=KEY_BYTES).digest()


def state_digest(state: Mapping[str, Any]) -> bytes:
    """The digest of fields. A lazy list is read in pages, and has the digest of a plain list with its elements."""
    digest = blake2b(digest_size=KEY_BYTES)
    for name in sorted(state):
        digest.update(_encode(name))
        for piece in _pieces(state[name]):
            digest.update(piece)
    return digest.digest()


def _pieces(value: Any) -> Iterable[bytes]:
    """JSON in pieces."""
    if not isinstance(value, LazyList):
        yield _encode(value)
        return
    mark = b"["
    for first in range(0, len(value), PAGE):
        yield mark + _encode([plain(one) for one in value[first : first + PAGE]])[1:-1]
        mark = b","
    yield b"]" if len(value) else b"[]"


_encode: Final = msgspec.json.Encoder(order="sorted").encode
