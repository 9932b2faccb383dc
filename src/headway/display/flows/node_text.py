"""Nodes of a flow in words: their marks, their items, and what the user can do for those that wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from headway.display.formatting import count, money, short
from headway.reports.flows.node_progress import GROUPS
from headway.safe_text import one_line

#: A mark for each status.
MARKS: Final = {
    "waiting": "?",
    "running": "▶",
    "failed": "✗",
    "interrupted": "‖",
    "ready": "○",
    "pending": "·",
    "success": "✓",
    "skipped": "–",
}
#: The words for a status that reads badly as it is.
_WORDS: Final = {"waiting": "waits for you", "success": "done"}
#: Units that are named where several wait for the user.
MOST_WAITING: Final = 3


class AnyNode(Protocol):
    """What `PartProgress` and `NodeProgress` have in common."""

    @property
    def status(self) -> str: ...
    @property
    def total(self) -> int: ...
    @property
    def succeeded(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def cost_usd(self) -> float: ...
    @property
    def note(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def waiting(self) -> Sequence[str]: ...


def status_word(status: str) -> str:
    """A status for people."""
    return _WORDS.get(status, status)


def items_text(node: AnyNode) -> str:
    """ "7/12, 1 failed"; "" for a node that has no units yet. A pipeline or a loop counts those of its members: "14/24 units"."""
    if not node.total:
        return ""
    failed = f", {node.failed:,} failed" if node.failed else ""
    what = " units" if node.kind in GROUPS else ""
    return f"{node.succeeded + node.failed:,}/{node.total:,}{what}{failed}"


def approve_text(job: str, name: str, waiting: Sequence[str]) -> str:
    """The commands to type for a node that waits for the user."""
    units = waiting[:MOST_WAITING] or [name]
    more = f" and {len(waiting) - len(units):,} more" if len(waiting) > len(units) else ""
    return "; ".join(f"headway approve {job} {_quoted(unit)}" for unit in units) + more


def _quoted(unit: str) -> str:
    """As a shell needs it: brackets are patterns there."""
    return f"'{unit}'" if "[" in unit or "#" in unit else unit


def node_line(job: str, name: str, node: AnyNode) -> str:
    """ "review: running, 7/12, 1 failed, $0.04"."""
    words = [status_word(node.status), items_text(node), money(node.cost_usd) if node.cost_usd else ""]
    why = node.note
    if node.status == "waiting":
        why = approve_text(job, name, node.waiting)
    return one_line(
        f"{name}: {', '.join(word for word in words if word)}" + (f" — {short(why)}" if why else "")
    )


def counts_text(counts: Mapping[str, int]) -> str:
    """ "3 running, 1 failed, 12 done"."""
    return ", ".join(f"{n:,} {status_word(status)}" for status, n in counts.items())


def nodes_text(counts: Mapping[str, int]) -> str:
    """ "16 nodes: 3 running, 13 done"."""
    return f"{count(sum(counts.values()), 'node')}: {counts_text(counts)}"


def change_lines(
    job: str,
    news: Iterable[tuple[AnyNode | None, tuple[str, AnyNode]]],
    most: int,
    *,
    also_ended: bool = False,
) -> Iterator[str]:
    """A line for each node whose status has changed; above `most` of the same status one line names the first of them. `also_ended`: also
    for nodes that had ended when they were first seen.
    """
    first = ("running", "waiting", "failed", *(("success", "skipped") if also_ended else ()))
    by_status: dict[str, list[tuple[str, AnyNode]]] = {}
    for before, (name, node) in news:
        is_new = before is None or before.status != node.status
        if is_new and (before is not None or node.status in first):
            by_status.setdefault(node.status, []).append((name, node))
    for status, same in by_status.items():
        if len(same) <= most:
            yield from (f"node {node_line(job, name, node)}" for name, node in same)
        else:
            names = ", ".join(name for name, _ in same[:most])
            yield one_line(
                f"{len(same):,} nodes {status_word(status)}: {names} and {len(same) - most:,} more"
            )
