"""A lane's queue: priority, then the longest or the first; those that wait hold nothing."""

from __future__ import annotations

from tests.unit.drive import entry_of, one_lane

from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import NEVER, Entry, Queue
from headway.core.lanes.queueing.unit_lengths import NOTHING_KNOWN
from headway.core.model import Unit
from headway.core.unit_states import Status


def pushed(*units: Unit, longest: bool = False) -> Queue:
    lane, queue = one_lane(), Queue()
    if longest:
        queue.order_by(NOTHING_KNOWN)
    for unit in units:
        queue.push(entry_of(lane, unit))
    return queue


def drained(queue: Queue) -> list[int]:
    indices = []
    while (entry := queue.head()) is not None:
        indices.append(entry.unit.index)
        queue.pop()
    return indices


def delayed(lane: LaneState, index: int, until: float) -> Entry:
    entry = entry_of(lane, Unit(index, "a"))
    entry.not_before = until
    return entry


def test_input_order_for_any_order_of_arrival() -> None:
    assert drained(pushed(Unit(2, "a"), Unit(0, "a"), Unit(1, "a"))) == [0, 1, 2]


def test_a_higher_priority_goes_first_and_input_order_decides_among_equals() -> None:
    queue = pushed(
        Unit(0, "a"), Unit(1, "a", priority=5), Unit(2, "a", priority=-1), Unit(3, "a", priority=5)
    )
    assert drained(queue) == [1, 3, 0, 2]


def test_the_longest_expected_goes_first_if_configured() -> None:
    units = (Unit(0, "a", expected_s=1.0), Unit(1, "a", expected_s=9.0), Unit(2, "a", expected_s=1.0))
    assert drained(pushed(*units, longest=True)) == [1, 0, 2]
    assert drained(pushed(*units)) == [0, 1, 2]


def test_a_new_order_holds_for_what_is_in_the_queue() -> None:
    queue = pushed(*(Unit(index, "a", expected_s=float(index + 1)) for index in range(5)))
    queue.order_by(NOTHING_KNOWN)
    assert queue.shorter_than(4.0) == 3
    assert drained(queue) == [4, 3, 2, 1, 0]


def test_priority_comes_before_length() -> None:
    units = (Unit(0, "a", expected_s=9.0), Unit(1, "a", priority=1, expected_s=1.0))
    assert drained(pushed(*units, longest=True)) == [1, 0]


def test_a_delayed_one_comes_when_its_instant_has_come() -> None:
    lane, queue = one_lane(), Queue()
    queue.delay(delayed(lane, 0, 5.0))
    queue.delay(delayed(lane, 1, 3.0))
    assert queue.head() is None
    assert queue.next_at() == 3.0
    queue.ripen(4.0)
    assert drained(queue) == [1]
    queue.ripen(5.0)
    assert drained(queue) == [0]
    assert queue.next_at() == NEVER


def test_a_retry_goes_back_to_its_place_in_the_input() -> None:
    lane, queue = one_lane(), pushed(Unit(1, "a"), Unit(2, "a"))
    queue.delay(delayed(lane, 0, 5.0))
    queue.ripen(5.0)
    assert drained(queue) == [0, 1, 2]


def test_one_that_has_ended_meanwhile_is_passed_over() -> None:
    lane, queue = one_lane(), Queue()
    ready, waiting = entry_of(lane, Unit(0, "a")), delayed(lane, 1, 3.0)
    queue.push(ready)
    queue.delay(waiting)
    ready.status = waiting.status = Status.CANCELLED
    assert list(queue.entries()) == []
    assert queue.head() is None
    queue.ripen(0.0)
    assert len(queue) == 0


def test_its_entries_are_those_ready_and_those_delayed() -> None:
    lane, queue = one_lane(), pushed(Unit(7, "a"))
    queue.delay(delayed(lane, 3, 9.0))
    assert sorted(entry.unit.index for entry in queue.entries()) == [3, 7]
    assert len(queue) == 2


def test_ended_units_are_not_counted() -> None:
    lane, queue = one_lane(), Queue()
    gone = entry_of(lane, Unit(0, "a"))
    queue.push(gone)
    queue.push(entry_of(lane, Unit(1, "a")))
    queue.delay(delayed(lane, 2, 3.0))
    gone.status = Status.CANCELLED
    assert queue.counts() == (1, 1)
