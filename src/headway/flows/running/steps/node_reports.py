"""The report of each node: its tally, and the state of what it is a part of. PURE.

A member of a pipeline or loop runs from the start of its first unit until no item is left for it. A node of an inner flow runs as long
as the node that runs that flow. Only what waits for an approval itself is waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.flows.running.outcomes import GOOD
from headway.flows.running.steps.flow_plan import FlowPlan
from headway.flows.running.steps.flow_steps import FlowSteps
from headway.flows.running.steps.tally import RUNNING, NodeReport, NodeStatus, Tally
from headway.flows.spec import NodeSpec

#: Of a node that `--until` leaves out.
NOT_WANTED: Final = "not wanted in this run (--until)"
_OPEN: Final = ("running", "waiting")
_ENDED: Final = ("success", "failed", "skipped")


class NodeReports:
    """Reports on all nodes of a run."""

    def __init__(self, steps: FlowSteps) -> None:
        self._steps = steps
        #: Each node by path, and the path of the node that it is inside; "" at the top.
        self._nodes: dict[str, tuple[NodeSpec, str]] = {
            path: (node, outer) for path, node, outer in _all_nodes(steps.plan, "")
        }

    @property
    def paths(self) -> list[str]:
        """All nodes, in the order of the files."""
        return list(self._nodes)

    def report(self, path: str) -> NodeReport:
        """One node."""
        node, outer = self._nodes[path]
        tally = self._steps.scope.tally(path)
        if path in self._steps.scope.left_out:
            return tally.report("pending", NOT_WANTED)
        status, reason = self._of_inner(tally, outer) if outer else self._of_top(tally, node)
        steps = self._steps
        if steps.stopped and not steps.in_flight and status in ("pending", *_OPEN):
            status, reason = "skipped", f"the run was stopped: {steps.stopped}"
        return tally.report(status, reason)

    def _of_top(self, tally: Tally, node: NodeSpec) -> tuple[NodeStatus, str]:
        status = tally.status()
        position = self._steps.plan.step_of(node.id)
        if not node.group or position is None:
            return status, tally.reason
        step = self._steps.steps.get(position)
        if step is not None:
            has_more = (
                step.standing == RUNNING and status in _ENDED and not step.is_past(tally.executions_over)
            )
            return ("running" if has_more else status), tally.reason
        outcome, reason = self._steps.outcomes[position], self._steps.group_reasons.get(position, "")
        if outcome and status == "pending":
            status = "success" if outcome == GOOD else "skipped"
        return status, tally.reason or reason

    def _of_inner(self, tally: Tally, outer: str) -> tuple[NodeStatus, str]:
        status, around = tally.status(), self.report(outer)
        if around.status == "running" and status in _ENDED:
            return "running", tally.reason
        if status == "pending" and around.status not in ("pending", *_OPEN):
            return "skipped", around.reason
        return status, tally.reason


def _all_nodes(plan: FlowPlan, outer: str) -> Iterator[tuple[str, NodeSpec, str]]:
    prefix = f"{outer}/" if outer else ""
    for node in plan.spec.nodes.values():
        yield prefix + node.id, node, outer
        if node.id in plan.inner:
            yield from _all_nodes(plan.inner[node.id], prefix + node.id)
