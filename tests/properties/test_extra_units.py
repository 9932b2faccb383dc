"""Units are cancelled and come again in any order: each runs once at a time, and the run ends with every unit ended."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.drive import lane_spec

from headway.core import commands, events
from headway.core.invariants import check
from headway.core.model import Kind, LaneLimits, Outcome, Unit
from headway.core.scheduler import Scheduler

UNITS = 8
#: A unit and what happens to it.
Steps = st.lists(
    st.tuples(st.sampled_from(["ok", "fail", "busy", "cancel", "again", "wait"]), st.integers(0, UNITS - 1)),
    max_size=60,
)


def unit(index: int) -> Unit:
    """Every fourth unit waits for the one before."""
    return Unit(index, "ab"[index % 2], after=(index - 1,) if index % 4 == 3 else (), leads=index % 4 == 2)


class Model:
    """A scheduler, and where each of its units is by its commands."""

    def __init__(self, at_once: int) -> None:
        limits = LaneLimits(max_concurrency=at_once)
        self.scheduler = Scheduler((lane_spec("a", limits), lane_spec("b", limits)))
        self.now = 0.0
        self.running: set[int] = set()
        self.ended: dict[int, str] = {}
        self.done = False
        self.tell()
        self.tell(events.SerialUnits(()))
        for lane, first in (("a", 0), ("b", 1)):
            self.tell(events.Units(lane, [unit(index) for index in range(first, UNITS, 2)], more=False))

    def tell(self, *happened: events.Event) -> None:
        self.now += 0.5
        for command in self.scheduler.handle(happened, self.now):
            match command:
                case commands.Start(unit=started):
                    assert started.index not in self.running, "it runs already"
                    assert started.index not in self.ended, "it has ended"
                    self.running.add(started.index)
                case commands.Requeue(unit=put_back):
                    self.running.discard(put_back.index)
                case commands.Finish(unit=finished, status=status):
                    assert finished.index not in self.ended, "it ends once"
                    self.running.discard(finished.index)
                    self.ended[finished.index] = str(status)
                case commands.CancelAttempt():
                    pass  # The test answers it.
                case commands.Done():
                    self.done = True
        check(self.scheduler)

    def step(self, what: str, index: int) -> None:
        if what == "again":
            chosen = [number for number in (index, index + 1) if number in self.ended]
            for number in chosen:
                del self.ended[number]
            self.done = False
            self.tell(events.ExtraUnits([unit(number) for number in chosen]))
        elif what == "cancel" and index not in self.ended:
            in_flight = index in self.running
            self.tell(events.CancelUnit(index))
            if in_flight:
                self.tell(events.Cancelled(index))
        elif index in self.running and what in ("ok", "fail", "busy"):
            kind = {"ok": None, "fail": Kind.INVALID, "busy": Kind.OVERLOAD}[what]
            self.tell(events.Finished(index, Outcome(kind, message=what)))
        else:
            self.tell()


@settings(max_examples=300, deadline=None)
@given(steps=Steps, at_once=st.integers(1, 3))
def test_units_that_come_again_run_once_at_a_time_and_end(steps: list[tuple[str, int]], at_once: int) -> None:
    model = Model(at_once)
    for what, index in steps:
        model.step(what, index)
    for _ in range(2_000):
        if model.done:
            break
        for index in sorted(model.running):
            model.step("ok", index)
        model.tell()
    assert model.done
    assert sorted(model.ended) == list(range(UNITS))
    assert not model.running
