"""A line for each node of a flow that has changed since the last view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headway.display.flows.node_text import change_lines
from headway.engine.observer import View
from headway.reports.flows.node_progress import PartChanges
from headway.stores.records import Job

#: A flow with at most so many nodes has a line for each change.
FEW_NODES: Final = 50
#: Nodes with a line of their own in larger flows, of those that come to the same status within half a second.
MOST_CHANGES: Final = 5


class NodeChanges:
    """Remembers the nodes of the last view."""

    def __init__(self) -> None:
        self._parts = PartChanges()
        self._is_new = False

    def began(self, job: Job) -> None:
        """A run begins. What earlier runs have done is no news."""
        self._is_new = not job.good

    def lines(self, view: View) -> Iterator[str]:
        """What is new in this view."""
        is_few = len(view.parts) <= FEW_NODES and not view.more_parts
        news = ((before, (part.name, part)) for before, part in self._parts.news(view.parts))
        most = FEW_NODES if is_few else MOST_CHANGES
        yield from change_lines(view.job, news, most, also_ended=is_few and self._is_new)
