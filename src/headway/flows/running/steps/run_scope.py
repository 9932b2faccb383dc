"""What all parts of a run share, also those of the flows inside it: values, tallies, events, and the parts that have to go on.

A run is a tree: flow, steps, turns of pipelines and loops, executions of nodes, and the flows inside those. A part never calls
another one to go on; it notes that the other has to (`later`). So a chain of ten thousand steps that all end at once is a loop
and no recursion, and a part that several ends concern goes on once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from headway.flows.running.state.run_values import RunValues
from headway.flows.running.steps.flow_events import EventName, FlowEvent
from headway.flows.running.steps.tally import Tally

if TYPE_CHECKING:
    from headway.flows.running.steps.flow_steps import FlowSteps
    from headway.flows.running.steps.node_run import UnitRun
    from headway.flows.running.steps.places import Places


class RunPart:
    """A part of a run that goes on when something has happened to it."""

    __slots__ = ("_is_noted",)

    def __init__(self) -> None:
        self._is_noted = False

    def go_on(self) -> None:
        """Do what can be done now."""
        raise NotImplementedError


class RunScope:
    """Shared by a run and the runs inside it. `only`: paths of the nodes that may start; None: all."""

    def __init__(self, values: RunValues, only: frozenset[str] | None) -> None:
        self.values, self.only = values, only
        self.tallies: dict[str, Tally] = {}
        #: Nodes that something has happened to.
        self.touched: set[Tally] = set()
        self.events: list[FlowEvent] = []
        #: Whether events are wanted. A run that repeats what is recorded wants none.
        self.makes_events = True
        #: Executions that have units to hand out.
        self.wanting: dict[UnitRun, None] = {}
        #: Where parts run without a place, or a place may have become free; and how many parts have none.
        self.crowded: dict[Places, None] = {}
        self.without_place = 0
        #: Units of `human` nodes that wait for an approval, with their executions.
        self.asked: dict[str, UnitRun] = {}
        #: Inner runs that a `fail_run` has stopped. They end when nothing of them is in flight.
        self.stopping: list[FlowSteps] = []
        #: Nodes that are not wanted in this run, and stay pending.
        self.left_out: dict[str, None] = {}
        self._due: deque[RunPart] = deque()

    def later(self, part: RunPart) -> None:
        """Let a part go on soon."""
        if not part._is_noted:
            part._is_noted = True
            self._due.append(part)

    def work(self) -> bool:
        """Let all parts go on that have to; returns whether there were any."""
        due = self._due
        if not due:
            return False
        while due:
            part = due.popleft()
            part._is_noted = False
            part.go_on()
        return True

    def give_places(self) -> None:
        """Give places that have become free to parts that run without one."""
        crowded, self.crowded = self.crowded, {}
        for places in crowded:
            places.give()

    def tally(self, path: str) -> Tally:
        """The tally of a node."""
        tally = self.tallies.get(path)
        if tally is None:
            tally = self.tallies[path] = Tally(path)
        return tally

    def event(self, name: EventName, node: str = "", unit: str = "", **data: Any) -> None:
        """Note an event. `unit` is the execution; none is noted of a node that is executed once."""
        if self.makes_events:
            self.events.append(FlowEvent(name, node, "" if unit == node else unit, data))
