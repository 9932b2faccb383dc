"""The scheduler is a function of what it is told, and a lane's record carries its hold into another life.

- Replaying the recorded calls of any run of the machine into a fresh scheduler gives exactly the same commands,
  although the first one was looked at after each call: a snapshot changes nothing. And at each of these moments a
  lane that has work left and starts none of it can say what it waits for (promise 10).
- A lane that is exported at any instant, and imported on another clock after any downtime, starts nothing before
  its hold is over by the wall clock, and everything after.
"""

from __future__ import annotations

import msgspec
from hypothesis import given

from headway.core import commands
from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_lane
from headway.core.model import LaneSpec, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.snapshot import snapshot

from . import strategies as make
from .budgets import thorough
from .lanebook import require
from .loop import Loop, Script, loop_of
from .machine import Run, SchedulerMachine
from .strategies import Scenario
from .test_independence import scripts


def judge_replay(run: Run) -> None:
    """Raise unless a fresh scheduler, told the same, answers the same."""
    fresh = Scheduler(run.scenario.specs, run.scenario.settings, run.scenario.start)
    for happened, now, told in run.story:
        again = fresh.handle(happened, now)
        require(again == told, "replay", f"at {now} after {happened}: {again}, live it was {told}")


class WatchedRun(Run):
    """A run that is looked at after each call, as a dashboard does."""

    def step(self) -> None:
        super().step()
        for lane in snapshot(self.scheduler, self.now, self.source.remaining).lanes:
            flights = self.books.lanes[lane.key].flights
            require(lane.in_flight == flights, "snapshot", f"{flights} in flight: {lane}")
            named = bool(lane.wait) or not self._has_work(lane.key)
            require(named, "unnamed wait", f"what does it wait for? {lane}")

    def _has_work(self, key: str) -> bool:
        """Whether the lane should be able to say why it starts nothing."""
        if self.scenario.tuning.most_blocked == 1:
            return False  # It stops reading where thousands wait for others, and has no word for that.
        return any(unit.lane == key and self.books.waiting(unit) for unit in self.books.units.values())


class ReplayedMachine(SchedulerMachine):
    """The machine, watched, and every run is told a second time to a scheduler that nobody looks at."""

    def make_run(self, scenario: Scenario) -> Run:
        return WatchedRun(scenario)

    def finish(self) -> None:
        super().finish()
        judge_replay(self.run)


TestReplay = ReplayedMachine.TestCase
TestReplay.settings = thorough(60)


# -- records ----------------------------------------------------------------------------------------------

UTC = 1_700_000_000.0
UNITS = [Unit(index, "a") for index in range(6)]


def next_life(spec: LaneSpec, record: LaneRecord, now: float, utc: float) -> Loop:
    """A new process, its own clock, and what the lane had written down."""
    again = loop_of([spec], UNITS, Script(), Settings(), now)
    written = msgspec.json.decode(msgspec.json.encode(record), type=LaneRecord)
    import_lane(again.scheduler.lanes["a"], written, now, utc)
    return again.run(now + 1e8)


def hold_survives(spec: LaneSpec, script: Script, hold_s: float, cut_at: float, down_s: float) -> None:
    loop = loop_of([spec], UNITS, script, Settings())
    lane = loop.scheduler.lanes["a"]
    loop.run(min(2.0, cut_at))
    if cut_at > 2.0:
        lane.hold.extend(2.0 + hold_s, "resets later")
        loop.run(cut_at)
    record = export_lane(lane, cut_at, UTC)
    owed_s = max((meter.full_at for meter in lane.limits.meters), default=cut_at) - cut_at - down_s
    left_s = lane.hold.until - cut_at - down_s
    again = next_life(spec, record, 500.0, UTC + down_s)
    starts = [
        call.now for call in again.calls for command in call.told if isinstance(command, commands.Start)
    ]
    early = [at for at in starts if at < 500.0 + left_s - 1e-3]
    require(not early, "hold", f"started at {early}, held until {500.0 + left_s}")
    require(len(starts) == len(UNITS) and again.done, "hold", f"{len(starts)} starts of {len(UNITS)}")
    if left_s <= 0.0:
        late = starts[0] > 500.0 + max(0.0, owed_s) + 1e-3
        require(
            not late, "hold", f"the hold is over, {owed_s} s are owed, and the first start was at {starts[0]}"
        )


records = given(
    spec=make.specs("a"),
    script=scripts,
    hold_s=make.pick([100.0, 0.5, 4000.0]),
    cut_at=make.pick([3.0, 1.0, 50.0, 2500.0]),
    down_s=make.pick([0.0, 30.0, 1e7]),
)
test_a_hold_survives_the_process = thorough(100)(records(hold_survives))
