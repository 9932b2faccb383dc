"""How much memory one process of a provider takes: measured while it runs, at a growing interval, and guessed before.

The largest size of each process counts, and the mean over the latest of them is what the next one is expected to take. A process
that has just started is small, so a guess stands until one has ended or has run for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from headway.executors.memory.process_memory import free_bytes, tree_bytes

#: When a process is measured, in seconds after its start or after the measure before; the last one is repeated.
STEPS_S: Final = (0.5, 1.5, 3.0, 5.0, 10.0)
#: A process that has been measured so often has its usual size.
SETTLED: Final = 4
#: How many processes make the mean.
LATEST: Final = 16


class MemoryGauge:
    """What the processes of one provider take, and what they may take together."""

    def __init__(
        self, budget: float, guess: float | None, measure: Callable[[int], float] = tree_bytes
    ) -> None:
        #: Up to 1: a share of what is free now. Above: bytes. 0: no limit.
        free = free_bytes() if 0.0 < budget <= 1.0 else None
        self.budget = budget if budget > 1.0 else (None if free is None else budget * free)
        self._guess = guess
        self._measure = measure
        self._peaks: deque[float] = deque(maxlen=LATEST)
        self._running: dict[int, float] = {}
        self._settled: dict[int, int] = {}

    @property
    def each(self) -> float | None:
        """What one process is expected to take; None: not known yet."""
        settled = [self._running[pid] for pid, times in self._settled.items() if times >= SETTLED]
        known = [*self._peaks, *settled]
        if known:
            return sum(known) / len(known)
        measured = [size for size in self._running.values() if size]
        if self._guess is None:
            return max(measured, default=None)
        return max((self._guess, *measured))

    def watch(self, pid: int) -> Callable[[], None]:
        """Measure a process from now on, on the running loop; returns what ends it."""
        if self.budget is None:
            return _nothing
        loop = asyncio.get_running_loop()
        timer: list[asyncio.TimerHandle] = []
        self._running[pid], self._settled[pid] = 0.0, 0

        def look() -> None:
            loop.run_in_executor(None, self._measure, pid).add_done_callback(note)

        def note(done: asyncio.Future[float]) -> None:
            if done.cancelled() or done.exception() is not None or pid not in self._running:
                return
            self._running[pid] = max(self._running[pid], done.result())
            self._settled[pid] += 1
            timer[0] = loop.call_later(STEPS_S[min(self._settled[pid], len(STEPS_S) - 1)], look)

        timer.append(loop.call_later(STEPS_S[0], look))

        def end() -> None:
            timer[0].cancel()
            times, peak = self._settled.pop(pid, 0), self._running.pop(pid, 0.0)
            if times and peak:
                self._peaks.append(peak)

        return end


def _nothing() -> None:
    return
