"""The writing thread, with a store whose commits last as long as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import pytest

from headway.errors import StoreError
from headway.stores.records import JobEvent
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch
from headway.stores.writer import Writer

SOON_S = 10.0


class SlowStore(Store):
    """Each commit says that it began, and ends when it is let go."""

    def __init__(self) -> None:
        super().__init__(SqliteMemory())
        self.began: SimpleQueue[WriteBatch] = SimpleQueue()
        self.may_end = threading.Semaphore(0)
        self.error: Exception | None = None
        self.threads: set[int] = set()
        self.closed = False

    def commit(self, batch: WriteBatch) -> None:
        self.threads.add(threading.get_ident())
        self.began.put(batch)
        assert self.may_end.acquire(timeout=SOON_S)
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed = True


class Desk:
    """The engine's side: a loop that runs what other threads hand it, when the test says so."""

    def __init__(self, store: SlowStore) -> None:
        self.store = store
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.committed: list[list[str]] = []
        self.failures: list[Exception] = []
        self.writer = Writer(
            self._open, lambda: WriteBatch(1), self.calls.put, self._committed, self.failures.append
        )

    def _open(self) -> Store:
        return self.store

    def _committed(self, batch: WriteBatch) -> None:
        self.committed.append(texts(batch))
        self.writer.kick()

    def note(self, text: str) -> None:
        self.writer.batch.events.append(JobEvent(0.0, None, "note", text))

    def begun(self) -> list[str]:
        """The commit that begins next."""
        return texts(self.store.began.get(timeout=SOON_S))

    def turn(self) -> None:
        """Run the next thing that the writer asks for."""
        self.calls.get(timeout=SOON_S)()

    def finish(self) -> None:
        """Let the commit end that is under way, and hear of it."""
        self.store.may_end.release()
        self.turn()


def texts(batch: WriteBatch) -> list[str]:
    return [event.text for event in batch.events]


@contextmanager
def writing() -> Iterator[Desk]:
    desk = Desk(SlowStore())
    desk.writer.start()
    try:
        yield desk
    finally:
        desk.store.may_end.release(1_000)
        desk.writer.close()


def test_what_comes_during_a_commit_shares_the_next_one() -> None:
    with writing() as desk:
        desk.note("a")
        desk.writer.kick()
        assert desk.begun() == ["a"]
        for text in "bcd":
            desk.note(text)
            desk.writer.kick()
        desk.finish()
        assert desk.begun() == ["b", "c", "d"]
        desk.finish()
        assert desk.committed == [["a"], ["b", "c", "d"]]
        assert desk.writer.commits == 2


def test_an_urgent_change_does_not_wait_for_the_loop_and_the_rest_shares_one_commit() -> None:
    with writing() as desk:
        desk.note("a")
        desk.writer.kick()
        assert desk.begun() == ["a"]
        for text in "bcde":
            desk.note(text)
            desk.writer.kick(urgent=True)
        desk.store.may_end.release()
        assert desk.begun() == ["b"], "it begins before the loop has heard of the commit before"
        desk.turn()
        desk.finish()
        assert desk.begun() == ["c", "d", "e"]
        desk.finish()
        assert desk.committed == [["a"], ["b"], ["c", "d", "e"]]


def test_a_change_is_told_of_after_its_commit_and_only_through_the_given_call() -> None:
    with writing() as desk:
        desk.note("a")
        desk.writer.kick()
        desk.begun()
        assert desk.calls.empty()
        desk.store.may_end.release()
        act = desk.calls.get(timeout=SOON_S)
        assert desk.committed == []
        act()
        assert desk.committed == [["a"]]
        assert desk.store.threads.isdisjoint({threading.get_ident()})


def test_nothing_is_committed_for_an_empty_batch() -> None:
    with writing() as desk:
        desk.writer.kick(urgent=True)
        desk.note("a")
        desk.writer.kick()
        assert desk.begun() == ["a"]
        desk.finish()
        assert desk.writer.commits == 1


def test_close_commits_what_is_left_and_closes_the_store() -> None:
    desk = Desk(SlowStore())
    desk.writer.start()
    desk.note("a")
    desk.writer.kick()
    assert desk.begun() == ["a"]
    desk.note("b")
    desk.writer.kick()
    desk.note("c")
    desk.store.may_end.release(1_000)
    desk.writer.close()

    left = []
    while not desk.store.began.empty():
        left += desk.begun()
    assert left == ["b", "c"]
    assert desk.store.closed
    while not desk.calls.empty():
        desk.turn()
    assert [text for batch in desk.committed for text in batch] == ["a", "b", "c"]
    assert desk.store.began.empty()


def test_close_without_any_change_ends_the_thread() -> None:
    desk = Desk(SlowStore())
    desk.writer.start()
    desk.writer.close()
    assert desk.store.closed
    assert desk.writer.commits == 0


def test_a_failure_is_told_once_and_ends_the_writing() -> None:
    with writing() as desk:
        desk.store.error = StoreError("no space is left")
        desk.note("a")
        desk.writer.kick()
        desk.begun()
        desk.note("b")
        desk.writer.kick(urgent=True)
        desk.finish()
        assert [str(error) for error in desk.failures] == ["no space is left"]
        desk.note("c")
        desk.writer.kick(urgent=True)
    assert desk.committed == []
    assert desk.calls.empty()
    assert desk.store.began.empty(), "nothing is tried after a failure"
    assert desk.store.closed


def test_a_store_that_does_not_open_is_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(SlowStore())

    def refuse() -> Store:
        raise StoreError("locked")

    monkeypatch.setattr(desk.writer, "_open", refuse)
    desk.writer.start()
    desk.turn()
    desk.writer.close()
    assert [str(error) for error in desk.failures] == ["locked"]


def test_a_loop_that_hears_of_a_commit_at_once_can_hand_over_the_next() -> None:
    with writing() as desk:
        desk.writer._call = lambda act: act()
        desk.note("a")
        desk.writer.kick()
        assert desk.begun() == ["a"]
        desk.note("b")
        desk.writer.kick()
        desk.store.may_end.release()
        assert desk.begun() == ["b"]


def test_what_close_took_is_not_handed_over_again() -> None:
    desk = Desk(SlowStore())
    desk.writer.start()
    desk.note("a")
    desk.writer.kick()
    assert desk.begun() == ["a"]
    desk.note("b")
    closing = threading.Thread(target=desk.writer.close)
    closing.start()
    desk.store.may_end.release()
    desk.turn()
    assert desk.begun() == ["b"]
    desk.writer.kick(urgent=True)
    desk.store.may_end.release(1_000)
    closing.join()
    assert desk.writer.commits == 2
