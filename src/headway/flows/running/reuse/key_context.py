"""What keys of units need besides the flow that a job keeps: the contents of tools and the addresses of models, as a run finds them.

A job keeps them as the list `key_contexts` of its values: the first is that of its first run, and each later run with others adds its own. With the
flow they make the parts of every key of the job again, so that nothing has to be kept for each unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headway.flows.running.flow_form import FlowForm, FlowNode, nodes_of
from headway.flows.running.reuse.tool_files import tool_files
from headway.flows.running.reuse.unit_key import node_parts
from headway.stores.records import StoredRoute
from headway.stores.store import Store

#: The list of values.
CONTEXTS: Final = "key_contexts"


class KeyContext(msgspec.Struct, frozen=True):
    """`tools`: the digests of the files of each tool, by the path of its file. `models`: the address of each model, by PROVIDER/MODEL.
    `routes`: the model of each agent, by the path of its node. `answered`: how many units of each node had an answer when a run began with
    this context.
    """

    tools: dict[str, dict[str, str]] = {}
    models: dict[str, tuple[str, str, str]] = {}
    routes: dict[str, str] = {}
    answered: dict[str, int] = {}

    def model_of(self, path: str) -> tuple[str, str, str] | None:
        """Where an agent's requests go."""
        return self.models.get(self.routes.get(path, ""))


def context_of(
    nodes: Iterable[FlowNode], routes: Iterable[StoredRoute], addresses: Mapping[str, Any]
) -> KeyContext:
    """The context as it is now. The files of tools are read. `addresses` are those of the setting."""
    tools: dict[str, dict[str, str]] = {}
    agents: set[str] = set()
    for path, _, node in nodes:
        if node.kind == "agent":
            agents.add(path)
        if node.kind == "tool" and node.impl is not None and str(node.impl) not in tools:
            tools[str(node.impl)] = tool_files(node.impl)
    named = {route.label: route.name for route in routes if route.label in agents}
    models: dict[str, tuple[str, str, str]] = {
        name: tuple(addresses.get(name, ("", "", name))) for name in sorted(set(named.values()))
    }
    return KeyContext(tools, models, named)


def contexts(store: Store, job: int) -> list[KeyContext]:
    """The contexts of a job's runs, the last one last."""
    return [msgspec.json.decode(value, type=KeyContext) for value in store.values(job, CONTEXTS, 0, -1)]


def note_context(store: Store, job: int, context: KeyContext, answered: Mapping[str, int]) -> bool:
    """Keep the context of a run that begins; returns whether an earlier run of the job had another one. `answered`: the units of each node
    that have an answer by now.
    """
    known = contexts(store, job)
    if known and replace(known[-1], answered={}) == context:
        return False
    noted = replace(context, answered=dict(answered))
    store.set_value(job, CONTEXTS, len(known), msgspec.json.encode(noted))
    return bool(known)


def older_units(known: Sequence[KeyContext]) -> list[tuple[KeyContext, dict[str, int]]]:
    """Each context but the last, with how many units of each node were answered in its runs: their keys were made with it."""
    return [
        (one, {path: n - one.answered.get(path, 0) for path, n in after.answered.items()})
        for one, after in pairwise(known)
    ]


def parts_of(form: FlowForm, context: KeyContext) -> dict[str, dict[str, Any]]:
    """The parts of each node's keys, by its path, for all nodes that have units."""
    return {one.path: _parts(one, form, context) for one in nodes_of(form.spec) if has_units(one)}


def has_units(one: FlowNode) -> bool:
    """Whether something is called for a node. A data set has rows, a `human` waits, a flow has nodes of its own."""
    return one.node.kind in ("agent", "tool")


def _parts(one: FlowNode, form: FlowForm, context: KeyContext) -> dict[str, Any]:
    tool = context.tools.get(str(one.node.impl)) if one.node.impl is not None else None
    return node_parts(one, form.prompts.get(one.path), tool, context.model_of(one.path))


def files_of(impl: Path) -> dict[str, str]:
    """The files of a tool; empty if it is gone."""
    try:
        return tool_files(impl)
    except OSError:
        return {}
