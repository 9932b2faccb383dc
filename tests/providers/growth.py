"""How time grows with size: measured as a ratio within one process, so that no speed of a machine matters."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time

#: Four times the work in four times the time is linear; in sixteen times, quadratic. Between them, and nearer to linear
#: for a busy machine's sake.
LINEAR = 8.0


def growth(work: Callable[[int], object], size: int, tries: int = 5) -> float:
    """How much longer the work takes for four times the size: the best of a few of each."""
    return min(_cpu_s(work, 4 * size) for _ in range(tries)) / min(_cpu_s(work, size) for _ in range(tries))


def _cpu_s(work: Callable[[int], object], size: int) -> float:
    began = thread_time()
    work(size)
    return max(thread_time() - began, 1e-6)
