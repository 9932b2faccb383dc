"""The writer thread, with a store whose commits end when the test allows it."""

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
    """A store that reports the begin of each commit, and blocks until the test releases it."""

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


class FakeEngine:
    """The side of the engine: a loop that runs the calls of other threads, one for each `turn`."""

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
        """The texts of the commit that begins next."""
        return texts(self.store.began.get(timeout=SOON_S))

    def turn(self) -> None:
        """Run the next call of the writer."""
        self.calls.get(timeout=SOON_S)()

    def finish(self) -> None:
        """End the current commit, and run its callback."""
        self.store.may_end.release()
        self.turn()


def texts(batch: WriteBatch) -> list[str]:
    return [event.text for event in batch.events]


@contextmanager
def writing() -> Iterator[FakeEngine]:
    engine = FakeEngine(SlowStore())
    engine.writer.start()
    try:
        yield engine
    finally:
        engine.store.may_end.release(1_000)
        engine.writer.close()


def test_changes_during_a_commit_share_the_next_one() -> None:
    with writing() as engine:
        engine.note("a")
        engine.writer.kick()
        assert engine.begun() == ["a"]
        for text in "bcd":
            engine.note(text)
            engine.writer.kick()
        engine.finish()
        assert engine.begun() == ["b", "c", "d"]
        engine.finish()
        assert engine.committed == [["a"], ["b", "c", "d"]]
        assert engine.writer.commits == 2


def test_an_urgent_change_does_not_wait_for_the_loop_and_the_rest_shares_one_commit() -> None:
    with writing() as engine:
        engine.note("a")
        engine.writer.kick()
        assert engine.begun() == ["a"]
        for text in "bcde":
            engine.note(text)
            engine.writer.kick(urgent=True)
        engine.store.may_end.release()
        assert engine.begun() == ["b"], "it begins before the loop has heard of the commit before"
        engine.turn()
        engine.finish()
        assert engine.begun() == ["c", "d", "e"]
        engine.finish()
        assert engine.committed == [["a"], ["b"], ["c", "d", "e"]]


def test_the_callback_runs_after_the_commit_through_the_given_call() -> None:
    with writing() as engine:
        engine.note("a")
        engine.writer.kick()
        engine.begun()
        assert engine.calls.empty()
        engine.store.may_end.release()
        act = engine.calls.get(timeout=SOON_S)
        assert engine.committed == []
        act()
        assert engine.committed == [["a"]]
        assert engine.store.threads.isdisjoint({threading.get_ident()})


def test_nothing_is_committed_for_an_empty_batch() -> None:
    with writing() as engine:
        engine.writer.kick(urgent=True)
        engine.note("a")
        engine.writer.kick()
        assert engine.begun() == ["a"]
        engine.finish()
        assert engine.writer.commits == 1


def test_close_commits_the_rest_and_closes_the_store() -> None:
    engine = FakeEngine(SlowStore())
    engine.writer.start()
    engine.note("a")
    engine.writer.kick()
    assert engine.begun() == ["a"]
    engine.note("b")
    engine.writer.kick()
    engine.note("c")
    engine.store.may_end.release(1_000)
    engine.writer.close()

    left = []
    while not engine.store.began.empty():
        left += engine.begun()
    assert left == ["b", "c"]
    assert engine.store.closed
    while not engine.calls.empty():
        engine.turn()
    assert [text for batch in engine.committed for text in batch] == ["a", "b", "c"]
    assert engine.store.began.empty()


def test_close_without_any_change_ends_the_thread() -> None:
    engine = FakeEngine(SlowStore())
    engine.writer.start()
    engine.writer.close()
    assert engine.store.closed
    assert engine.writer.commits == 0


def test_a_failure_is_reported_once_and_ends_the_writer() -> None:
    with writing() as engine:
        engine.store.error = StoreError("no space is left")
        engine.note("a")
        engine.writer.kick()
        engine.begun()
        engine.note("b")
        engine.writer.kick(urgent=True)
        engine.finish()
        assert [str(error) for error in engine.failures] == ["no space is left"]
        engine.note("c")
        engine.writer.kick(urgent=True)
    assert engine.committed == []
    assert engine.calls.empty()
    assert engine.store.began.empty(), "nothing is tried after a failure"
    assert engine.store.closed


def test_a_store_that_does_not_open_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine(SlowStore())

    def refuse() -> Store:
        raise StoreError("locked")

    monkeypatch.setattr(engine.writer, "_open", refuse)
    engine.writer.start()
    engine.turn()
    engine.writer.close()
    assert [str(error) for error in engine.failures] == ["locked"]


def test_a_callback_can_hand_over_the_next_batch() -> None:
    with writing() as engine:
        engine.writer._call = lambda act: act()
        engine.note("a")
        engine.writer.kick()
        assert engine.begun() == ["a"]
        engine.note("b")
        engine.writer.kick()
        engine.store.may_end.release()
        assert engine.begun() == ["b"]


def test_a_batch_taken_by_close_is_not_handed_over_again() -> None:
    engine = FakeEngine(SlowStore())
    engine.writer.start()
    engine.note("a")
    engine.writer.kick()
    assert engine.begun() == ["a"]
    engine.note("b")
    closing = threading.Thread(target=engine.writer.close)
    closing.start()
    engine.store.may_end.release()
    engine.turn()
    assert engine.begun() == ["b"]
    engine.writer.kick(urgent=True)
    engine.store.may_end.release(1_000)
    closing.join()
    assert engine.writer.commits == 2
