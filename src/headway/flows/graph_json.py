"""The graph of a flow as JSON values: what `headway graph --json` prints."""

from __future__ import annotations

from typing import Any

from headway.flows.spec import FlowSpec
from headway.flows.step_text import details


def graph_json(flow: FlowSpec) -> dict[str, Any]:
    """Steps in running order. Members of pipelines and loops are inside their step."""
    steps = [_step(flow, name) for name in flow.step_order]
    return {
        "name": flow.name,
        "concurrency": flow.concurrency or "auto",
        "inputs": list(flow.inputs),
        "steps": steps,
    }


def _step(flow: FlowSpec, name: str) -> dict[str, Any]:
    step = flow.step(name)
    after = [
        {"id": one.id, "edge": one.edge, "when": one.when or None, "fields": list(one.fields)}
        for one in step.after
    ]
    kind = "pipeline" if name in flow.pipelines else "loop" if name in flow.loops else flow.nodes[name].kind
    members = [] if name in flow.nodes else [_step(flow, member) for member in flow.members(name)]
    return {"id": name, "kind": kind, "details": details(step), "after": after, "members": members}
