"""Values that take a scan of all units of a job: kept until they have changed, and made anew at most for a small part of the time.

A job with a million units takes a second for such a value. So the caller gets an older one, if there is one and its own time is not over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, NamedTuple, TypeVar

Value = TypeVar("Value")
#: A value is used for so many times as long as it took to make: making it takes a few percent of the time.
_TIMES: Final = 30.0
#: The most values that are kept.
_MOST: Final = 200


class _Kept(NamedTuple):
    state: Hashable
    value: Any
    made_at: float
    took_s: float


class SlowValues:
    """Keeps values by a name. Several threads may use it."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, name: Hashable, state: Hashable, make: Callable[[], Value]) -> Value:
        """The value of this name. It is right as long as `state` stays the same; otherwise it may be a little old."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        kept = self._kept.get(name)
        if kept is None or not self._serves(kept, state):
            with making:  # Others wait for the first value, and do not make it, too.
                kept = self._kept.get(name)
                if kept is None or not self._serves(kept, state):
                    kept = self._make(name, state, make)
        value: Value = kept.value
        return value

    def _serves(self, kept: _Kept, state: Hashable) -> bool:
        return kept.state == state or time.monotonic() - kept.made_at < _TIMES * kept.took_s

    def _make(self, name: Hashable, state: Hashable, make: Callable[[], Any]) -> _Kept:
        began = time.monotonic()
        value = make()
        kept = _Kept(state, value, time.monotonic(), time.monotonic() - began)
        with self._lock:
            self._kept.pop(name, None)
            while len(self._kept) >= _MOST:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._making.pop(oldest, None)
            self._kept[name] = kept
        return kept
