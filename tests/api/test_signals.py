"""Signals that arrive while the main thread blocks, or just before it does."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import headway
from headway.api import interrupts
from headway.runtime.signals import wait_condition, wait_future, wait_item, wait_thread


@pytest.fixture
def handled() -> Iterator[threading.Event]:
    """Set once the handler of SIGUSR1 has run."""
    event = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: event.set())
    yield event
    signal.signal(signal.SIGUSR1, before)


class Waits:
    """One way to block, and how it ends."""

    def __init__(self, kind: str) -> None:
        self.future: Future[bool] = Future()
        self.items: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.condition = threading.Condition()
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.done.wait, args=(20,), daemon=True)
        self.thread.start()
        self.wait: Callable[[], Any] = {
            "future": lambda: wait_future(self.future),
            "queue": lambda: wait_item(self.items),
            "thread": lambda: wait_thread(self.thread),
            "condition": self._wait_condition,
        }[kind]

    def _wait_condition(self) -> None:
        with self.condition:
            wait_condition(self.condition, self.done.is_set)

    def end(self) -> None:
        """Let all of them return."""
        self.done.set()
        self.future.set_result(True)
        self.items.put(True)
        with self.condition:
            self.condition.notify_all()


@pytest.mark.parametrize("kind", ["future", "queue", "thread", "condition"])
def test_a_signal_that_does_not_wake_the_main_thread_is_handled_while_it_waits(
    kind: str, handled: threading.Event
) -> None:
    """Received by another thread, it wakes the main thread as little as one that arrives just before it blocks.

    Several of them: the first may come before the main thread waits at all.
    """
    waits, in_time = Waits(kind), []

    def other() -> None:
        for _ in range(5):
            handled.clear()
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            in_time.append(handled.wait(5))
        waits.end()

    thread = threading.Thread(target=other)
    thread.start()
    waits.wait()
    thread.join()
    assert in_time == [True] * 5


def test_waiting_for_a_condition_ends_after_its_timeout() -> None:
    condition = threading.Condition()
    with condition:
        assert not wait_condition(condition, lambda: False, 0.01)
        assert wait_condition(condition, lambda: True, 0.0)


def test_ctrl_c_stops_a_map_whose_thread_received_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stopping = threading.Event()
    monkeypatch.setattr(interrupts, "say", lambda *_: stopping.set())

    async def call(item: int) -> bool:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if stopping.is_set():
                return True
        return False

    async def inside_a_loop() -> None:
        headway.map(call, [1], progress=False)

    with pytest.raises(KeyboardInterrupt) as stopped:
        asyncio.run(inside_a_loop())
    assert [result.value for result in stopped.value.results] == [True]  # type: ignore[attr-defined]
