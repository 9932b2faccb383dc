"""One node of a flow's job: what it is, its outcome and its units, for `headway show JOB NODE`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.flows.running.approvals import AskedUnit, asked_of
from headway.flows.running.flow_form import form_of, nodes_of
from headway.flows.running.unit_ids import node_path
from headway.flows.step_text import details
from headway.reports.flows.flow_report import NodeOutcome, flow_report
from headway.stores.records import Job, LabelledUnit, State
from headway.stores.store import Store


class NodeDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A node by itself: what it is, its outcome, and its units, those that failed first. A pipeline or a loop has its members instead."""

    node: NodeOutcome
    details: str
    reads: Sequence[str] = ()
    writes: Sequence[str] = ()
    #: The file of its prompt, its program, its rows or its flow.
    file: str = ""
    members: Sequence[str] = ()
    units: Sequence[LabelledUnit] = ()
    #: What a human node asks, and what the user said.
    asked: Sequence[AskedUnit] = ()


def has_node(job: Job, name: str) -> bool:
    """Whether a flow's job has a node, a pipeline or a loop of this name, or a human node with this unit."""
    spec = form_of(job).spec
    kinds = {one.path: one.node.kind for one in nodes_of(spec)}
    return name in kinds or name in spec.step_order or kinds.get(node_path(name)) == "human"


def node_report(store: Store, job: Job, state: State, name: str, most: int) -> NodeDetails:
    """The report of one node, with at most so many units (-1: all). Of a human node `name` may also be a unit."""
    spec = form_of(job).spec
    asks, name = name, node_path(name)
    row = flow_report(store, job, state).by_name()[name]
    if name in spec.step_order and name not in spec.nodes:
        return NodeDetails(node=row, details=details(spec.step(name)), members=spec.members(name))
    node = next(one.node for one in nodes_of(spec) if one.path == name)
    file = next((one for one in (node.prompt, node.impl, node.file) if one is not None), None)
    inner = [] if node.inner is None else [f"{name}/{one}" for one in node.inner.step_order]
    return NodeDetails(
        node=row, details=details(node), reads=node.reads, writes=node.writes, file=str(file or ""), members=inner,
        units=store.units_of_label(job.id, name, most), asked=asked_of(store, job, asks) if node.kind == "human" else (),
    )  # fmt: skip
