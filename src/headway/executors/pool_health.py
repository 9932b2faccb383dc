"""Decides when a pool is broken: its workers cannot start, or all of them keep dying.

A worker that cannot start is not the fault of a unit: a start is tried three times. A pool is broken, too, when all its
workers died three times over, for ten seconds, and no unit ended in between: no retry of a unit would help. Its lane then
stops with the evidence.
"""

from __future__ import annotations

import time
from typing import Final

from headway.executors.work_result import Death, last_words

#: Starts in a row that may fail.
STARTS: Final = 3
#: How often all workers may die, and the fewest deaths that count as "all": two units that always kill their worker are
#: quarantined after three deaths each, which must not break a small pool. Kills from outside (an operator, an
#: out-of-memory killer) end within seconds, so the deaths must go on for `DOOMED_S`.
ROUNDS: Final = 3
LEAST_ROUND: Final = 4
DOOMED_S: Final = 10.0


class PoolHealth:
    """Counts failed starts and deaths in a row. `broken` is why the pool starts nothing more; "" while it works."""

    def __init__(self, size: int, doomed_s: float = DOOMED_S) -> None:
        self.broken = ""
        #: Whether a worker was ever ready: then later failures are not the fault of the program that workers run.
        self.proven = False
        self._most_deaths = ROUNDS * max(size, LEAST_ROUND)
        self._doomed_s = doomed_s
        self._failed_starts = 0
        self._deaths = 0
        #: When the first of these deaths was.
        self._dying_since = 0.0

    def worker_ready(self) -> None:
        """A worker has started."""
        self._failed_starts = 0
        self.proven = True

    def start_failed(self, death: Death, stderr: bytes, *, too_slow: bool) -> str:
        """A worker died before it was ready. Returns why the pool is broken, or ""."""
        self._failed_starts += 1
        if too_slow:  # Another worker would take as long.
            return f"the workers cannot start: {death}"
        if self._failed_starts < STARTS:
            return ""
        text = f"the workers cannot start: {STARTS} in a row died at once, the last: {death}"
        last = last_words(stderr)
        return f"{text}; {last}" if last else text

    def unit_ended(self) -> None:
        """A unit ended without the death of its worker, or because it met a rate limit."""
        self._deaths = 0

    def worker_died(self, message: str) -> str:
        """A worker died while it ran a unit. Returns why the pool is broken, or ""."""
        now = time.monotonic()
        if not self._deaths:
            self._dying_since = now
        self._deaths += 1
        if self._deaths < self._most_deaths or now - self._dying_since < self._doomed_s:
            return ""
        return (
            f"all workers died {ROUNDS} times over ({self._deaths} deaths in a row, no unit ended in between), "
            f"the last: {message}"
        )
