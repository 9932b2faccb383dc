"""Units that wait for others give the results of a serial run, whatever the lanes, the priorities and the answers do.

The result of a unit is made from its index and from the results of the units that it waits for, at the moment when its
request is made. Both runs, one with lanes side by side and one in index order, must give every unit the same end and the
same result, and no request may be made before the units that it waits for have succeeded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headway.core import commands, events
from headway.core.commands import Command
from headway.core.events import Event
from headway.core.gates import Gates
from headway.core.invariants import check
from headway.core.model import SUCCESS, Kind, LaneLimits, LaneSpec, Outcome, RetryPolicy, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.core.unit_states import GOOD, Status

from . import strategies as make
from .budgets import thorough
from .lanebook import require
from .loop import MOST_CALLS, Answer, Script

#: What the first attempt at a unit comes to; the second succeeds, unless the unit is invalid. How often a lane with an open
#: breaker tries a unit depends on when it runs, so a unit must not use its attempts up.
outcomes = make.pick([Outcome()] * 6 + [Outcome(Kind.TRANSIENT), Outcome(Kind.RATE), Outcome(Kind.INVALID)])
scripts = st.lists(
    st.builds(Answer, latency_s=make.pick([1.0, 0.25, 3.0, 20.0]), outcome=outcomes), min_size=1, max_size=12
).map(lambda drawn: Script(tuple(drawn)))
limits = make.pick(
    [LaneLimits(rpm=0), LaneLimits(max_concurrency=1), LaneLimits(max_concurrency=2), LaneLimits(rpm=60)]
)

Result = tuple[object, ...]


@dataclass
class Graph:
    """A run whose units build on each other's results."""

    fed: FedScheduler
    script: Script
    render_s: float
    results: dict[int, Result] = field(default_factory=dict)
    ends: dict[int, Status] = field(default_factory=dict)
    now: float = 0.0
    done: str = ""
    wake_at: float | None = None
    _agenda: list[tuple[float, int, Event]] = field(default_factory=list)
    _made: dict[int, Result] = field(default_factory=dict)

    def run(self) -> Graph:
        self._call([])
        for _ in range(MOST_CALLS):
            due = [item[0] for item in self._agenda[:1]] + ([] if self.wake_at is None else [self.wake_at])
            if not due:
                return self
            self.now = max(self.now, min(due))
            happened = []
            while self._agenda and self._agenda[0][0] <= self.now:
                happened.append(heappop(self._agenda)[2])
            self._call(happened)
        raise AssertionError("the scheduler spins")

    def _call(self, happened: list[Event]) -> None:
        self.wake_at = None
        for command in self.fed.handle(happened, self.now):
            self._obey(command)
        check(self.fed.scheduler)

    def _obey(self, command: Command) -> None:
        match command:
            case commands.Start(unit, attempt):
                self._start(unit, attempt)
            case commands.Render(unit):
                self._made[unit.index] = self._make(unit)
                known = events.Rendered(unit.index, msgspec.structs.replace(unit, late=False))
                self._later(self.render_s, unit.index, known)
            case commands.Finish(unit, status):
                self.ends[unit.index] = status
                if status in GOOD:
                    self.results[unit.index] = self._made[unit.index]
            case commands.Wake(at):
                self.wake_at = at
            case commands.Done(reason):
                self.done = reason
            case _:
                pass

    def _start(self, unit: Unit, attempt: int) -> None:
        made = self._make(unit)
        require(self._made.setdefault(unit.index, made) == made, "results", f"unit {unit.index} changed")
        answer = self.script.of(unit.index, 1)
        again = attempt > 1 and answer.outcome.kind is not Kind.INVALID
        self._later(
            answer.latency_s, unit.index, events.Finished(unit.index, SUCCESS if again else answer.outcome)
        )

    def _make(self, unit: Unit) -> Result:
        missing = [index for index in unit.after if self.ends.get(index) not in GOOD]
        require(not missing, "dependency", f"unit {unit.index} is made before {missing} succeeded")
        return (unit.index, *(self.results[index] for index in unit.after))

    def _later(self, wait_s: float, index: int, event: Event) -> None:
        heappush(self._agenda, (self.now + wait_s, index, event))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[LaneSpec], list[Unit]]:
    keys = "abc"[: draw(st.integers(1, 3))]
    retry = RetryPolicy(max_attempts=3, jitter=0.0)
    specs = [LaneSpec(key, draw(limits), retry, order=draw(make.pick(("input", "longest")))) for key in keys]
    drawn = draw(st.lists(st.tuples(make.rows(grouped=True), make.pick([1, 1, 3])), min_size=1, max_size=16))
    gates, rows = Gates(), [row for row, copies in drawn for _ in range(copies)]
    return specs, [make.unit_of(row, index, keys, gates) for index, row in enumerate(rows)]


@given(
    graph=graphs(),
    script=scripts,
    concurrency=make.pick([0, 0, 1, 3]),
    render_s=make.pick([0.0, 0.125]),
    tuning=make.tunings,
)
@thorough(300)
def test_a_run_equals_its_serial_run(
    graph: tuple[list[LaneSpec], list[Unit]],
    script: Script,
    concurrency: int,
    render_s: float,
    tuning: make.Tuning,
) -> None:
    from .machine import tune

    specs, units = graph
    patch = tune(tuning)
    try:
        settings = Settings(concurrency=concurrency, max_identical_invalid=0)
        side_by_side = Graph(FedScheduler(Scheduler(specs, settings), ListSource(units)), script, render_s)
        serial = Graph(
            FedScheduler(Scheduler(specs, settings), ListSource((), serial=units)), script, render_s
        )
        side_by_side.run()
        serial.run()
    finally:
        patch.undo()
    require(set(side_by_side.ends) == {unit.index for unit in units}, "lost", f"ended: {side_by_side.ends}")
    require(side_by_side.done == serial.done == "complete", "done", side_by_side.done)
    require(side_by_side.ends == serial.ends, "results", f"{side_by_side.ends}, serial: {serial.ends}")
    require(side_by_side.results == serial.results, "results", "they differ from the serial run")
