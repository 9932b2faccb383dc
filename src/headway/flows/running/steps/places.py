"""Places: how many parts of a run may have units in flight. Steps of a flow, items of a pipeline, iterations of a `flow` node. PURE.

A part that begins by itself has a place. When a run is rebuilt, all parts begin whose units are recorded, because those may end them. If
they are more than may run, they begin without a place: what they would hand out waits here. The first of them, in the order of the flow,
gets the next place, and nothing else begins before. So a run that is resumed has no more in flight than one that is not.

A part that waited only for an approval held no place, and goes on at once when that comes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from headway.flows.running.steps.tally import RUNNING
from headway.flows.spec import AUTO

if TYPE_CHECKING:
    from headway.flows.running.steps.node_run import UnitRun
    from headway.flows.running.steps.run_scope import RunScope


class Places:
    """The places of one step, pipeline or flow. `running` counts the parts that run, with and without a place."""

    __slots__ = ("_heap", "_scope", "_without", "limit", "running")

    def __init__(self, scope: RunScope, limit: int) -> None:
        self._scope, self.limit = scope, limit
        self.running = 0
        #: The parts without a place, by number, with what waits in them; and their numbers as a heap.
        self._without: dict[int, list[UnitRun]] = {}
        self._heap: list[int] = []

    @property
    def is_free(self) -> bool:
        """Whether another part may begin."""
        return self.limit == AUTO or self.running < self.limit

    def begin(self, number: int) -> None:
        """A part begins because a place is free, or because ends of its units are recorded."""
        if not self.is_free:
            self._without[number] = []
            heappush(self._heap, number)
            self._note_crowd(1)
        self.running += 1

    def changed(self, number: int, before: int, after: int) -> None:
        """A part stands elsewhere."""
        self.running += (after == RUNNING) - (before == RUNNING)
        if after != RUNNING and self._without.pop(number, None) is not None:
            self._note_crowd(-1)
        elif self._without:
            self._scope.crowded[self] = None

    def queue_without(self, number: int) -> list[UnitRun] | None:
        """What waits in a part without a place; None: it has one."""
        return self._without.get(number)

    def give(self) -> None:
        """Give the places that are free to the first parts without one; these hand out what they have."""
        while self._without and (self.limit == AUTO or self.running - len(self._without) < self.limit):
            waiting = self._without.pop(heappop(self._heap), None)
            if waiting is not None:
                self._note_crowd(-1)
                self._scope.wanting.update(dict.fromkeys(waiting))

    def _note_crowd(self, more: int) -> None:
        self._scope.without_place += more
        self._scope.crowded[self] = None
