"""Brings units into memory: fetches them when a lane runs low, and queues them when they arrive."""

from __future__ import annotations

from typing import Final

from headway.core import commands, events
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import NEVER, Entry
from headway.core.model import Kind, Unit
from headway.core.outlook import lane_eta_s
from headway.core.scheduling.run_state import RunState
from headway.core.scheduling.unit_moves import UnitMoves
from headway.core.unit_states import Move, Status

#: A lane with work fetches no more while so many units in memory wait for other units. A lane without work fetches on, because its
#: next units may wait for nothing; but only every so many seconds while attempts are in flight that may end the wait: some thousand
#: units a second. (A million rows may wait for one answer of another lane, and each takes 650 bytes here.)
MOST_BLOCKED: Final = 10_000
READ_ON_S: Final = 0.1


class Supply:
    """Fetches units, and puts each into the queue of its lane or among those that wait for others."""

    def __init__(self, run: RunState, moves: UnitMoves) -> None:
        self._run, self._moves = run, moves

    def more_work(self, event: events.MoreWork, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.stock.more_work()
        self._run.dirty[lane.key] = lane
        # The end that was reported did not know of this work. It is reported again even if nothing may start any more.
        self._run.done = False

    def refill(self, lane: LaneState, now: float) -> None:
        """Fetch more units, unless a fetch is under way."""
        if lane.stock.fetching or self._run.serial_phase:
            return
        if self._run.waiting.count + self._run.exclusion.count > MOST_BLOCKED and not self._may_read_on(
            lane, now
        ):
            return
        order, n = lane.order, lane.stock.fetch()
        if self._is_time_to_order(lane, now):
            self._order_units(lane)
        longest = order.table if order.longest_first else None
        self._run.commands.append(commands.Fetch(lane.key, n, longest, order.lengths is not None))

    def _may_read_on(self, lane: LaneState, now: float) -> bool:
        """Whether a lane reads further units although many wait for others."""
        stock = lane.stock
        stock.waits_until = NEVER
        if lane.in_flight or lane.queue.ready:
            return False
        if self._run.out and now < stock.read_on_at:
            stock.waits_until = stock.read_on_at
            return False
        stock.read_on_at = now + READ_ON_S
        return True

    def units(self, event: events.Units, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.stock.fetched(lane.pace_at(now), more=event.more, left=event.left)
        for unit in event.units:
            self._take_in(unit, now)
        if lane.order.lengths is not None:
            lane.order.fetched(event.left, event.largest)
            self.check_order(lane, now)
        self._run.dirty[lane.key] = lane

    def check_order(self, lane: LaneState, now: float) -> None:
        """More units are in memory, or more is known of how long units take: put them in order, where that is wanted."""
        order = lane.order
        if order.due:
            order.renew()
            if order.longest_first:
                self._order_units(lane)
        if self._is_time_to_order(lane, now):
            self._order_units(lane)
            if not lane.stock.exhausted:
                self.refill(lane, now)
                order.choosing = lane.stock.fetching
        if order.longest_first:
            lane.stock.set_apart(lane.queue.shorter_than(order.longest_s))

    def _is_time_to_order(self, lane: LaneState, now: float) -> bool:
        """Whether the longest units are to go first from now on."""
        order = lane.order
        if not order.undecided:
            return False
        left = order.left + len(lane.queue)
        rest_s = lane_eta_s(lane, left, now)
        if rest_s is None and not lane.window.open:
            rest_s = left * order.table.mean_s / max(1, lane.window.size)
        return order.decide(rest_s)

    @staticmethod
    def _order_units(lane: LaneState) -> None:
        lane.order.renew()
        lane.queue.order_by(lane.order.table)

    def extra_units(self, event: events.ExtraUnits, now: float) -> None:
        """Units out of turn: what is known of an earlier end is forgotten, and each goes into its lane's queue."""
        self._run.done = False
        for unit in event.units:
            self._run.waiting.forget(unit.index)
            self._run.unwanted.discard(unit.index)
        for lane in {unit.lane: self._run.lanes[unit.lane] for unit in event.units}.values():
            lane.queue.purge()
            self._run.dirty[lane.key] = lane
        for unit in event.units:
            self._take_in(unit, now)

    def serial_units(self, event: events.SerialUnits, now: float) -> None:
        """The next units of the serial phase; none: the phase is over."""
        self._run.fetching_serial = False
        if not event.units:
            self._run.serial_phase = False
            self._run.free_all(now)
        for unit in event.units:
            entry = self._take_in(unit, now)
            self._run.serial = None if entry is None or entry.waits_for else entry

    def rendered(self, event: events.Rendered, now: float) -> None:
        """The request of a late unit is known, and with it the unit's size: it takes its place in the queue again."""
        entry = self._run.rendering.pop(event.index, None)
        if entry is None:
            return
        lane = entry.lane
        lane.rendering -= 1
        self._run.dirty[lane.key] = lane
        if entry.status is not Status.PENDING:
            return  # It was cancelled, or the deadline passed.
        if event.unit is None:
            self._moves.end(entry, Move.FAIL, Kind.INVALID, event.message)
            return
        entry.unit, entry.fits = event.unit, None
        lane.unit_costs.estimate(entry)
        lane.queue.push(entry)

    def _take_in(self, unit: Unit, now: float) -> Entry | None:
        """Make room for a unit: in its lane's queue, or among those that wait for others."""
        lane = self._run.lanes[unit.lane]
        entry = lane.entry(unit)
        entry.since = now
        if self._run.unwanted and unit.index in self._run.unwanted:
            self._moves.end(entry, Move.CANCEL, "interrupted", "cancelled")
            return None
        if unit.after:
            upstream = self._run.waiting.failed(entry)
            if upstream is not None:
                self._moves.skip(entry, upstream)
                return None
            if self._run.waiting.block(entry):
                return entry
        lane.queue.push(entry)
        return entry
