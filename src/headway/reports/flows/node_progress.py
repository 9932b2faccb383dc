"""How far the nodes of a flow are: for the live view, `progress.json`, lines of JSON and `headway status`.

A flow may have 10,000 nodes. Views show those that matter first; lines of JSON have only those that have changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from headway.engine.observer import PartProgress, View

if TYPE_CHECKING:
    from headway.reports.flows.flow_report import FlowReport  # A batch does not load what flows need.

#: Every status of a node; those that people want to see come first.
NODE_STATUSES: Final = (
    "waiting", "running", "failed", "interrupted", "ready", "pending", "success", "skipped",
)  # fmt: skip
#: Rows of a report that have nodes in them and are none.
GROUPS: Final = frozenset({"pipeline", "loop"})
#: Kinds of nodes whose iterations are units of the job.
UNIT_NODES: Final = frozenset({"agent", "tool"})
#: The most nodes in `progress.json`, which is written twice a second.
MOST_WRITTEN: Final = 200


class NodeProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """One node. `total` are its units so far, `lane` the name of the lane that they go to, `note` why it failed or was skipped, `waiting`
    the first units that wait for the user (`headway approve`).
    """

    status: str
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    running: int = 0
    cost_usd: float = 0.0
    kind: str = ""
    lane: str = ""
    note: str = ""
    waiting: Sequence[str] = ()


class _HasStatus(Protocol):
    @property
    def status(self) -> str: ...


class _AnyNode(_HasStatus, Protocol):
    @property
    def kind(self) -> str: ...


Node = TypeVar("Node", bound=_HasStatus)


def most_urgent(nodes: Sequence[Node], most: int) -> Sequence[Node]:
    """At most so many nodes: all, in their order, if they are few; otherwise those that matter first."""
    if len(nodes) <= most:
        return nodes
    by_status: dict[str, list[Node]] = {status: [] for status in NODE_STATUSES}
    for node in nodes:
        by_status.setdefault(node.status, []).append(node)
    ordered: list[Node] = []
    for same in by_status.values():
        ordered += same[: most - len(ordered)]
    return ordered


def status_counts(nodes: Iterable[_AnyNode], more: Mapping[str, int] | None = None) -> dict[str, int]:
    """How many nodes have each status. Pipelines and loops are no nodes. `more` counts others."""
    counts = Counter(node.status for node in nodes if node.kind not in GROUPS)
    counts.update(more or {})
    return {status: counts[status] for status in NODE_STATUSES if counts[status]}


def counts_at_end(nodes: Iterable[_AnyNode]) -> dict[str, int]:
    """How many nodes have each status when no process runs the job any more: what was running is interrupted."""
    counts = Counter(status_counts(nodes))
    counts["interrupted"] += counts.pop("running", 0)
    counts["pending"] += counts.pop("ready", 0)
    return {status: counts[status] for status in NODE_STATUSES if counts[status]}


def nodes_of_view(view: View, parts: Iterable[PartProgress]) -> dict[str, NodeProgress]:
    """These parts of a view, by name."""
    lanes, names = view.part_lanes, view.names
    return {
        part.name: NodeProgress(
            part.status, part.total, part.succeeded, part.failed, part.running, part.cost_usd, part.kind,
            names.get(lanes.get(part.name, ""), ""), part.note, part.waiting,
        )
        for part in parts
    }  # fmt: skip


def parts_of(nodes: Mapping[str, NodeProgress]) -> tuple[PartProgress, ...]:
    """The same back: the parts of a view."""
    return tuple(
        PartProgress(
            name, node.status, node.total, node.succeeded, node.failed, node.running, node.cost_usd, node.note, node.kind,
            tuple(node.waiting),
        )
        for name, node in nodes.items()
    )  # fmt: skip


def nodes_of_report(report: FlowReport) -> dict[str, NodeProgress]:
    """The nodes of a run that no process has now."""
    return {
        node.name: NodeProgress(
            node.status, node.units, node.succeeded, node.failed, node.running, node.cost_usd, node.kind,
            note=node.reason, waiting=(node.waiting,) if node.waiting else (),
        )
        for node in report.nodes
    }  # fmt: skip


def units_known(view: View) -> int:
    """The units of a job as far as they are known. A flow adds units while it runs, but knows earlier how many items a node has."""
    return max(view.total, sum(part.total for part in view.parts if part.kind in UNIT_NODES))


def has_eta(view: View) -> bool:
    """Whether the time left can be said: units have been added for everything that is still to do."""
    if view.ended >= view.total:
        return False
    begun = not any(part.status in ("pending", "ready") for part in view.parts)
    return begun and units_known(view) == view.total


class PartChanges:
    """Which parts have changed since the last view."""

    def __init__(self) -> None:
        self._last: dict[str, PartProgress] = {}

    def news(self, parts: Iterable[PartProgress]) -> Iterator[tuple[PartProgress | None, PartProgress]]:
        """The parts that are new or have changed, each with how it was before."""
        last = self._last
        for part in parts:
            before = last.get(part.name)
            if before is not part:
                last[part.name] = part
                if before != part:
                    yield before, part
