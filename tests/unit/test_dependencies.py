"""Units that wait for other units: who may go, and who never will."""

from __future__ import annotations

from tests.unit.drive import entry_of, one_lane

from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Unit
from headway.core.scheduling.dependencies import Dependencies
from headway.core.unit_states import Status


def follower(index: int, *after: int) -> Entry:
    return entry_of(one_lane(), Unit(index, "a", after=after))


def freed(waiting: Dependencies, index: int, *, good: bool) -> list[int]:
    return [entry.unit.index for entry in waiting.ended(index, good=good)]


def test_one_that_waits_for_two_goes_after_the_second() -> None:
    waiting = Dependencies()
    assert waiting.block(follower(2, 0, 1))
    assert waiting.count == 1
    assert freed(waiting, 1, good=True) == []
    assert freed(waiting, 0, good=True) == [2]
    assert waiting.count == 0


def test_nothing_to_wait_for_where_all_have_succeeded_already() -> None:
    waiting = Dependencies()
    freed(waiting, 0, good=True)
    assert not waiting.block(follower(1, 0))
    assert waiting.count == 0


def test_only_those_that_have_not_ended_are_waited_for() -> None:
    waiting = Dependencies()
    freed(waiting, 0, good=True)
    assert waiting.block(follower(2, 0, 1))
    assert freed(waiting, 1, good=True) == [2]


def test_the_first_failure_decides() -> None:
    waiting = Dependencies()
    waiting.block(follower(2, 0, 1))
    assert freed(waiting, 0, good=False) == [2]
    assert freed(waiting, 1, good=True) == []
    assert waiting.count == 0


def test_a_failure_before_the_follower_was_read_is_remembered() -> None:
    waiting = Dependencies()
    freed(waiting, 0, good=True)
    freed(waiting, 1, good=False)
    assert waiting.failed(follower(2, 0, 1)) == 1
    assert waiting.failed(follower(3, 0)) is None
    assert waiting.failed(follower(4, 9)) is None


def test_all_followers_of_one_unit_are_freed_together() -> None:
    waiting = Dependencies()
    for index in (1, 2, 3):
        waiting.block(follower(index, 0))
    assert freed(waiting, 0, good=True) == [1, 2, 3]


def test_each_waiting_unit_is_listed_once() -> None:
    waiting = Dependencies()
    waiting.block(follower(5, 0, 1, 2))
    assert [entry.unit.index for entry in waiting.entries()] == [5]


def test_one_that_was_cancelled_waits_no_longer() -> None:
    waiting, entry = Dependencies(), follower(5, 0)
    waiting.block(entry)
    waiting.drop(entry)
    entry.status = Status.CANCELLED
    assert waiting.count == 0
    assert list(waiting.entries()) == []
    assert freed(waiting, 0, good=True) == []


def test_dropping_one_twice_counts_once() -> None:
    waiting, entry = Dependencies(), follower(5, 0)
    waiting.block(follower(6, 0))
    waiting.block(entry)
    waiting.drop(entry)
    waiting.drop(entry)
    assert waiting.count == 1
