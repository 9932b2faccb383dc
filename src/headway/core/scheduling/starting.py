"""The start loop: starts what may start now, lane by lane, and schedules the next look at each lane.

It looks only at lanes that an event touched or whose wake-up is due (a heap of wake-ups). The first unit of a lane that may not
start yet sets the next wake-up.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Final

from headway.core import commands
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import Kind
from headway.core.scheduling.lane_control import LaneControl
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.spending import Spending
from headway.core.scheduling.supply import Supply
from headway.core.scheduling.unit_moves import UnitMoves
from headway.core.unit_states import Move, Status, after

#: Instants closer than this are the same.
EPSILON_S: Final = 1e-9
#: More than any process has in flight.
NO_CAP: Final = 1 << 30
#: Requests of a lane that are made at once, at the most: they are kept in memory until they are sent.
MOST_RENDERING: Final = 64
_STARTED: Final = {Status.PENDING: after(after(Status.PENDING, Move.ASSIGN), Move.RUN)}


class Starting:
    """Decides which units start, and takes all permits of a start together."""

    def __init__(
        self, run: RunState, control: LaneControl, moves: UnitMoves, supply: Supply, spending: Spending
    ) -> None:
        self._run, self._control, self._moves = run, control, moves
        self._supply, self._spending = supply, spending
        #: Lanes that the global cap keeps waiting, the longest first.
        self._starved: dict[str, LaneState] = {}
        self._wakes: list[tuple[float, str]] = []
        self._max_wait_s = run.settings.max_wait_s

    def advance(self, now: float) -> None:
        """Start everything that may start now."""
        self._ring_alarms(now)
        run = self._run
        if run.mode == "run" and not run.paused and now < run.granted_until:
            if run.serial_phase:
                self._advance_serial(now)
            if not run.serial_phase:
                self._advance_lanes(now)

    def next_at(self) -> float:
        """When the next lane is due."""
        wakes, lanes = self._wakes, self._run.lanes
        while wakes and lanes[wakes[0][1]].wake_at != wakes[0][0]:
            heappop(wakes)
        return wakes[0][0] if wakes else NEVER

    def _ring_alarms(self, now: float) -> None:
        wakes = self._wakes
        while wakes and wakes[0][0] <= now + EPSILON_S:
            at, key = heappop(wakes)
            lane = self._run.lanes[key]
            if lane.wake_at == at:
                lane.wake_at = NEVER
                self._run.dirty[key] = lane

    def _advance_serial(self, now: float) -> None:
        """Serial units go one by one, in index order, before all others."""
        run = self._run
        while not run.out and not run.fetching_serial:
            if run.serial is None or run.serial.lane.stopped:
                run.fetching_serial = True
                run.commands.append(commands.FetchSerial(1))
            elif not self._step(run.serial.lane, now) and not run.serial.lane.stopped:
                return

    def _advance_lanes(self, now: float) -> None:
        run = self._run
        most = run.max_in_flight or NO_CAP
        if run.concurrency or self._starved or len(run.out) >= most:
            self._take_turns(now, min(run.concurrency or NO_CAP, most))
            return
        lanes = tuple(run.dirty.values())
        if run.settings.delay_s:
            lanes = tuple(sorted(lanes, key=lambda lane: lane.traffic.last_start_at))
        out = run.out
        for lane in lanes:
            while len(out) < most and self._step(lane, now):
                pass
            if len(out) >= most:
                self._starved[lane.key] = lane
                lane.crowded_out = True
                self._expire(lane, now)

    def _take_turns(self, now: float, most: int) -> None:
        """Under a global cap lanes start one unit each in turn, the longest waiting lane first."""
        for lane in self._starved.values():
            lane.crowded_out = False
        ring = deque({**self._starved, **self._run.dirty}.values())
        while ring and len(self._run.out) < most:
            lane = ring.popleft()
            if self._step(lane, now):
                ring.append(lane)
        self._starved = {lane.key: lane for lane in ring}
        for lane in ring:
            lane.crowded_out = True
            self._expire(lane, now)

    def _expire(self, lane: LaneState, now: float) -> None:
        """End the units at the head of a lane that have waited too long while the global cap is reached."""
        if not self._max_wait_s or lane.stopped:
            return
        while (entry := lane.queue.head()) is not None and self._waited_out(entry, now):
            self._supply.refill(lane, now)
        self._sleep(lane, NEVER)

    def _step(self, lane: LaneState, now: float) -> bool:
        """Start the next unit of the lane if it may start now; otherwise set the next wake-up of the lane."""
        run, queue = self._run, lane.queue
        if queue.delayed:
            queue.ripen(now + EPSILON_S)
        stock = lane.stock
        if lane.order.due:
            self._supply.check_order(lane, now)
        if not stock.exhausted and len(queue.ready) < stock.low:
            self._supply.refill(lane, now)
        if queue.suspects:
            idle = not lane.in_flight and (stock.exhausted or run.serial_phase)
            queue.try_suspect(now + EPSILON_S, lane_idle=idle)
        ready = queue.ready
        entry = ready[0][3] if ready else None
        if entry is None or entry.status is not Status.PENDING:
            entry = self._next_alive(lane, now)
        if self._max_wait_s and entry is not None and not lane.stopped and self._waited_out(entry, now):
            return True
        if run.broke:
            run.broke.pop(lane.key, None)
        if lane.hold.changed:
            self._control.check_hold(lane, now)
        if entry is None or lane.stopped or lane.order.choosing:
            return self._sleep(lane, NEVER if lane.stopped else min(queue.next_at(), stock.waits_until))
        if entry.unit.exclusive and run.exclusion.is_busy(entry.unit.exclusive):
            queue.pop()
            run.exclusion.set_aside(entry)
            return True
        if entry.unit.group and run.group_cap.keeps_out(entry.unit.group):
            run.group_cap.wait(lane)
            return self._sleep(lane, queue.next_at())
        if entry.unit.late:
            return self._render(entry, lane)
        if entry.fits is not lane.limits.basis and not self._fit(entry, lane):
            return True
        at, probe = lane.when(entry, now + EPSILON_S)
        if run.next_start_at > at:
            at = run.next_start_at
        if at > now + EPSILON_S:
            return self._sleep(lane, min(at, queue.next_at()))
        return self._start(entry, lane, probe, now)

    def _next_alive(self, lane: LaneState, now: float) -> Entry | None:
        """The next unit of the lane, without those that were cancelled meanwhile."""
        entry = lane.queue.head()
        if entry is None and not lane.stock.exhausted:
            self._supply.refill(lane, now)
        return entry

    def _waited_out(self, entry: Entry, now: float) -> bool:
        """End a unit that has waited for its first start for longer than it may."""
        if entry.tries or now + EPSILON_S < self._expires_at(entry):
            return False
        entry.lane.queue.pop()
        self._run.waited_out = True
        waited = f"it waited in the queue for {self._max_wait_s:g} s (max_wait) and did not start"
        self._moves.end(entry, Move.TIME_OUT, "deadline", waited)
        return True

    def _expires_at(self, entry: Entry) -> float:
        ready_at = max(self._run.began_at, entry.unit.submitted_at, entry.ready_at)
        return NEVER if entry.tries else ready_at + self._max_wait_s

    def _render(self, entry: Entry, lane: LaneState) -> bool:
        """Ask for the request of a late unit. It holds no permit and nothing is charged for it: its size is not known yet."""
        if lane.rendering >= min(MOST_RENDERING, max(1, lane.window.size - lane.in_flight)):
            return self._sleep(lane, lane.queue.next_at())
        lane.queue.pop()
        lane.rendering += 1
        self._run.rendering[entry.unit.index] = entry
        self._run.commands.append(commands.Render(entry.unit))
        return True

    def _start(self, entry: Entry, lane: LaneState, probe: str, now: float) -> bool:
        """Take all permits and charge all meters, or nothing."""
        run = self._run
        if (run.budget.capped or lane.lane_budgets) and not self._spending.reserve(entry, lane, now):
            return self._sleep(lane, NEVER if lane.stopped else lane.queue.next_at())
        if run.settings.delay_s:
            run.next_start_at = now + run.settings.delay_s
        lane.queue.pop()
        lane.charge(entry, now, probe)
        entry.status = _STARTED[entry.status]
        run.out[entry.unit.index] = entry
        if entry.unit.exclusive:
            run.exclusion.started(entry.unit.exclusive)
        if entry.unit.group:
            run.group_cap.started(entry.unit.group)
        run.done = False
        run.commands.append(commands.Start(entry.unit, entry.tries, entry.suspect))
        return True

    def _sleep(self, lane: LaneState, at: float) -> bool:
        """Nothing may start before `at`. Always returns False, for the caller to return."""
        if self._max_wait_s and (waiting := lane.queue.head()) is not None and not lane.stopped:
            at = min(at, self._expires_at(waiting))
        if at != lane.wake_at:
            lane.wake_at = at
            if at != NEVER:
                heappush(self._wakes, (at, lane.key))
        return False

    def _fit(self, entry: Entry, lane: LaneState) -> bool:
        """Whether the unit can ever be admitted. If not, it fails with the numbers.

        It was fetched some time ago: its estimate may be better by now.
        """
        lane.unit_costs.estimate(entry)
        problem = lane.limits.too_large(entry)
        if problem:
            lane.queue.pop()
            self._moves.end(entry, Move.FAIL, Kind.TOO_LARGE, problem)
            return False
        entry.fits = lane.limits.basis
        return True
