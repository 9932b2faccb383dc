"""A run of a flow: which units come next, and how it ended. PURE: no clock, no files, no store.

`advance` is given the recorded ends of units and returns the units to start now. It has two halves. `take` lets everything
follow that follows from the ends: steps begin, iterations are counted, conditions are evaluated. `next_units` then hands out what may
start. A run that is resumed takes all recorded ends, page by page, before it hands out anything. So what it hands out depends on
the ends alone and never on their order:

- A step begins when everything that it waits for has ended. There are no waves, no barriers.
- `runtime.concurrency` counts steps that run. A pipeline or a loop is one of them. What only waits for an approval counts as
  none, and goes on at once when that comes. A step whose units are recorded has begun before, and needs no place.
- An end may come before its unit's turn. It waits for it.
- After the failure of a node with `fail_run` nothing is handed out any more. What was handed out finishes.

The status of a run: `failed` if a `fail_run` stopped it or no step succeeded; `partial` if a step, or an item of a pipeline, failed,
or a step was skipped because of a failure; otherwise `success`. Steps that a condition skipped count as neither. The rule is the same
for every concurrency.

The work for an end is that of its unit and of the steps that follow from it; nothing looks at all steps. Values are read from the
records when a unit sees them. So a run of a million units is as small as one of a thousand, but for a byte a unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

from headway.flows.running.final_failures import is_built_upon, stays_ended
from headway.flows.running.flow_events import FlowEvent
from headway.flows.running.flow_plan import FlowPlan
from headway.flows.running.flow_steps import FlowSteps
from headway.flows.running.node_reports import NodeReports
from headway.flows.running.node_run import NextUnit, UnitEnd
from headway.flows.running.outcomes import FAILED, GOOD, SKIPPED
from headway.flows.running.run_scope import RunScope
from headway.flows.running.run_values import RunValues
from headway.flows.running.state_fold import VisibleState
from headway.flows.running.tally import NodeReport
from headway.flows.spec import FlowSpec

RunStatus = Literal["running", "waiting", "success", "partial", "failed"]
_STATUSES: Final[dict[int, RunStatus]] = {GOOD: "success", SKIPPED: "partial", FAILED: "failed"}


class FlowRun:
    """The run of one flow, with the runs inside it.

    `inputs` are the values of `--arg` and `--state`; `concurrency` replaces the file's; `only` has the paths of the nodes that may start
    (None: all).
    """

    def __init__(
        self,
        spec: FlowSpec,
        inputs: Mapping[str, Any],
        values: RunValues,
        concurrency: int | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        self.spec = spec
        self._scope = RunScope(values, only)
        self._steps = FlowSteps(FlowPlan(spec), inputs, self._scope)
        if concurrency is not None:
            self._steps.places = concurrency
        self._reports = NodeReports(self._steps)
        self._said_start = self._said_end = False

    def advance(self, ends: Mapping[str, UnitEnd] = {}) -> list[NextUnit]:
        """Take ends in, by the ids of units; returns the units to start now. Each is returned once."""
        self.take(ends)
        return self.next_units()

    def take(self, ends: Mapping[str, UnitEnd]) -> None:
        """Let everything follow from these ends, but hand out nothing yet."""
        self._say_start()
        self._scope.work()
        for unit, end in ends.items():
            self._steps.take(unit, end)
            self._scope.work()

    def next_units(self) -> list[NextUnit]:
        """The units to start now."""
        return list(self.each_unit())

    def each_unit(self) -> Iterator[NextUnit]:
        """The same one by one. Ends may be taken in between."""
        scope = self._scope
        while scope.wanting or self.settle():
            wanting, scope.wanting = scope.wanting, {}
            for run in wanting:
                if not run.flow.is_halted and not run.outcome:
                    yield from run.hand_out()
        self._say_end()

    def settle(self) -> bool:
        """Let everything follow that is due; returns whether anything did."""
        self._say_start()
        anything = False
        while self._scope.work() or self._end_stopped():
            anything = True
        return anything

    def _end_stopped(self) -> bool:
        """Let inner runs end that a `fail_run` has stopped and that have nothing in flight."""
        ready = [one for one in self._scope.stopping if one.owner is not None and not one.in_flight]
        self._scope.stopping = [
            one for one in self._scope.stopping if one.owner is not None and one.in_flight
        ]
        for one in ready:
            if not one.is_over:
                one.finish()
        return bool(ready)

    def _say_start(self) -> None:
        if not self._said_start:
            self._said_start = True
            self._scope.event("run.started")

    def _say_end(self) -> None:
        status = self.status
        if status == "running":
            self._said_end = False
        elif not self._said_end:
            self._said_end = True
            self._scope.event("run.finished", status=status, reason=self.stopped)

    # -- what is known of it ------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> str:
        """The reason of a `fail_run`; "" if nothing has stopped the run."""
        return self._steps.stopped

    @property
    def waiting(self) -> list[str]:
        """The units of `human` nodes that wait for an approval."""
        return list(self._scope.asked)

    def asked(self) -> list[NextUnit]:
        """The same units, with what they see."""
        return [run.unit(0) for run in self._scope.asked.values()]

    @property
    def status(self) -> RunStatus:
        """How it stands, or how it ended."""
        steps = self._steps
        if steps.in_flight:
            return "running"
        if steps.stopped or steps.is_over:
            return _STATUSES[steps.outcome()]
        return "waiting" if self._scope.asked else "running"

    def state(self) -> dict[str, Any]:
        """The state as it is now. Values may be lazy lists."""
        return dict(VisibleState(self._steps.fold))

    def fields(self) -> list[str]:
        """The fields of the state that have a value now, sorted."""
        return list(VisibleState(self._steps.fold))

    def value(self, field: str) -> Any:
        """The value of a field. Raises KeyError if it has none."""
        return VisibleState(self._steps.fold)[field]

    def nodes(self) -> dict[str, NodeReport]:
        """Every node and its outcome, by path, in the order of the file."""
        return {path: self._reports.report(path) for path in self._reports.paths}

    def changed_nodes(self) -> dict[str, NodeReport]:
        """The nodes that something has happened to since the last call. After a `fail_run` and at the end: all nodes."""
        touched, self._scope.touched = self._scope.touched, set()
        if self.status != "running":
            return self.nodes()
        return {tally.path: self._reports.report(tally.path) for tally in touched}

    def in_flight(self, path: str) -> int:
        """How many units of a node are in flight."""
        return self._scope.tally(path).in_flight

    def is_ready(self, path: str) -> bool:
        """Whether a node waits for nothing but a place."""
        return self._steps.is_queued(path)

    def is_stage_of_success(self, path: str) -> bool:
        """Whether a node is a stage of a pipeline that has succeeded: its failures ended their items alone."""
        steps = self._steps
        node = steps.plan.spec.nodes.get(path)
        position = steps.plan.step_of(path) if node is not None else None
        if node is None or position is None or node.group not in steps.plan.spec.pipelines:
            return False
        return steps.outcomes[position] == GOOD

    def waiting_of(self, path: str, most: int) -> tuple[str, ...]:
        """The first units of a node, or of nodes inside it, that wait for an approval."""
        asked = self._scope.asked.items()
        inside = f"{path}/"
        return tuple(islice((unit for unit, run in asked if f"{run.tally.path}/".startswith(inside)), most))

    def due(self, execution: str, n: int) -> NextUnit | None:
        """An iteration of an execution that has begun and has units to hand out; None if it has not. Nothing is handed out."""
        found = (run for run in self._scope.wanting if run.full_id == execution and n < run.total)
        return next((run.unit(n) for run in found), None)

    def stays_ended(self, unit: str) -> bool:
        """Whether a unit that failed does not run again (`final_failures`)."""
        return stays_ended(self._steps, unit)

    def is_built_upon(self, unit: str) -> bool:
        """Whether that is so because others have read what a pipeline wrote without its item."""
        return is_built_upon(self._steps, unit)

    def left_out(self) -> list[str]:
        """The nodes that are not wanted in this run, in the order of the flow."""
        return [path for path in self._reports.paths if path in self._scope.left_out]

    def make_events(self, wanted: bool) -> None:
        """Whether events are noted. A run that repeats what is recorded needs none."""
        self._scope.makes_events = wanted

    def take_events(self) -> list[FlowEvent]:
        """The events since the last call."""
        events, self._scope.events = self._scope.events, []
        return events
