"""Values that take a scan of all units of a job: made by threads beside the requests, and kept until they have changed.

A job with a million units takes a second for such a value. A request waits for it only for a moment; then it gets the value before, or
none. A value that changes all the time is made anew for a small part of the time only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from headway.stores.records import Job
from headway.stores.store import Store

Value = TypeVar("Value")
#: A value is used for so many times as long as it took to make: making it takes 3 % of the time.
_TIMES: Final = 30.0
#: How long a request waits for its first value.
PATIENCE_S: Final = 0.08
#: Units that are scanned in less.
_QUICK_UNITS: Final = 100_000
#: The longest wait of a request that cannot do without the value.
LONGEST_S: Final = 60.0
#: Two, so that a large job does not keep small ones waiting.
_THREADS: Final = 2
#: The most values that are kept.
_MOST: Final = 200


def patience_for(units: int) -> float:
    """How long a request waits for a value of a job with so many units: not at all for one that takes long."""
    return PATIENCE_S if units <= _QUICK_UNITS else 0.0


def name_of(kind: str, job: Job) -> Hashable:
    """The name of a value of a job. In records that replaced others, a job may have the number of another one."""
    return kind, job.id, job.name, job.created_utc


class _KeptValue(NamedTuple):
    state: Hashable
    value: Any
    made_at: float
    took_s: float

    def serves(self, state: Hashable) -> bool:
        """Whether it is right, or not old enough to be made anew."""
        return self.state == state or time.monotonic() - self.made_at < _TIMES * self.took_s


class _Making(NamedTuple):
    """A value that is being made, or will be. `error` has the exception, if there was one."""

    name: Hashable
    state: Hashable
    make: Callable[[Store], Any]
    done: threading.Event
    error: list[Exception]


class SlowValues:
    """Keeps values by a name. Several threads may use it."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store
        self._kept: dict[Hashable, _KeptValue] = {}
        self._making: dict[Hashable, _Making] = {}
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Making] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def get(
        self,
        name: Hashable,
        state: Hashable,
        make: Callable[[Store], Value],
        default: Value,
        patience_s: float = PATIENCE_S,
    ) -> Value:
        """The value of this name. It is right as long as `state` stays the same; otherwise it may be a little old. Without one
        that is ready in time: `default`.
        """
        kept = self._kept.get(name)
        if kept is None or not kept.serves(state):
            making = self._begin(name, state, make)
            is_quick = kept is None or kept.took_s < patience_s
            if is_quick and making.done.wait(patience_s) and making.error:
                raise making.error[0]
            kept = self._kept.get(name)
        value: Value = default if kept is None else kept.value
        return value

    def _begin(self, name: Hashable, state: Hashable, make: Callable[[Store], Any]) -> _Making:
        """Have a value made, unless it is being made."""
        with self._lock:
            making = self._making.get(name)
            if making is None:
                making = self._making[name] = _Making(name, state, make, threading.Event(), [])
                self._queue.put(making)
            if len(self._threads) < _THREADS:
                thread = threading.Thread(target=self._work, name="headway-slow", daemon=True)
                self._threads.append(thread)
                thread.start()
            return making

    def _work(self) -> None:
        while True:
            self._make(self._queue.get())

    def _make(self, making: _Making) -> None:
        began = time.monotonic()
        try:
            with self._open_store() as store:
                value = making.make(store)
        except Exception as error:
            making.error.append(error)
        else:
            now = time.monotonic()
            with self._lock:
                self._kept.pop(making.name, None)
                while len(self._kept) >= _MOST:
                    del self._kept[next(iter(self._kept))]
                self._kept[making.name] = _KeptValue(making.state, value, now, now - began)
        with self._lock:
            del self._making[making.name]
        making.done.set()
