"""Runs a flow in virtual time: the run of the flow says which units come next, the real scheduler when they start.

A unit's duration and usage are made when it is handed out. The run of the flow is told of an end at the instant of that end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from headway.core.commands import Command, Done, Finish, Start, Wake
from headway.core.events import Event, MoreWork
from headway.core.model import Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.core.unit_states import GOOD
from headway.flows.running.steps.flow_run import FlowRun
from headway.flows.running.steps.node_run import NextUnit, UnitEnd
from headway.flows.simulated.planned_spec import PlannedValues
from headway.flows.spec import FlowSpec
from headway.sim.workload import Truth, Workload


class NextUnits(Protocol):
    """Says which units of a flow come next: the real run of a flow, or a baseline."""

    def advance(self, ends: Mapping[str, UnitEnd]) -> list[NextUnit]:
        """Take ends, return the units to start now."""


#: Makes the unit at an index: what the scheduler knows of it, and what it will really take.
UnitModel = Callable[[int, NextUnit], tuple[Unit, Truth]]


class FlowUnit(msgspec.Struct):
    """A unit of the simulated flow, and when it was handed out, sent and ended. None: not yet."""

    id: str
    node: str
    ready_at: float
    started_at: float | None = None
    ended_at: float | None = None


class VirtualFlow:
    """A policy for `sim.world.World`: a scheduler that gets a flow's units as they become ready."""

    def __init__(self, order: NextUnits, scheduler: Scheduler, model: UnitModel, workload: Workload) -> None:
        self._order, self._model, self._workload = order, model, workload
        self._source = ListSource([])
        self._scheduler = FedScheduler(scheduler, self._source)
        self.units: list[FlowUnit] = []
        self._begun = False

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The scheduler's contract."""
        events = list(happened)
        if not self._begun:
            self._begun = True
            events += self._hand_out({}, now)
        commands: list[Command] = []
        while True:
            latest = self._scheduler.handle(events, now)
            ends = self._ends(latest, now)
            events = self._hand_out(ends, now) if ends else []
            if not events:
                return commands + latest
            # What the scheduler said of its next step was said before it knew these units.
            commands += [command for command in latest if not isinstance(command, Wake | Done)]

    def _hand_out(self, ends: Mapping[str, UnitEnd], now: float) -> list[Event]:
        """Give the scheduler the units that follow."""
        lanes: dict[str, None] = {}
        for following in self._order.advance(ends):
            unit, truth = self._model(len(self.units), following)
            self.units.append(FlowUnit(following.id, following.node, now))
            self._workload.units.append(unit)
            self._workload.truths.append(truth)
            self._source.add(unit)
            lanes[unit.lane] = None
        return [MoreWork(lane) for lane in lanes]

    def _ends(self, commands: Sequence[Command], now: float) -> dict[str, UnitEnd]:
        ends: dict[str, UnitEnd] = {}
        for command in commands:
            if isinstance(command, Start):
                unit = self.units[command.unit.index]
                unit.started_at = now if unit.started_at is None else unit.started_at
            elif isinstance(command, Finish):
                unit = self.units[command.unit.index]
                unit.ended_at = now
                ends[unit.id] = UnitEnd(error="" if command.status in GOOD else command.code)
        return ends


def real_order(spec: FlowSpec, concurrency: int | None = None) -> NextUnits:
    """The real run of a flow whose conditions and lists are all known (see `planned_spec`)."""
    return FlowRun(spec, {}, PlannedValues(spec), concurrency)
