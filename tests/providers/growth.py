"""How the time of some work grows with its size, robust enough for a busy machine.

Sixteen times the size: linear work takes about 16 times as long, quadratic work 256 times. The bar lies between the two,
a factor of four from either. Time is this thread's own CPU time, the best of a few.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import thread_time

FACTOR = 16
LINEAR = 64.0


def growth(work: Callable[[int], object], size: int, tries: int = 5) -> float:
    """How much longer the work takes for sixteen times the size; `size` is in the middle of the two."""
    small, large = max(1, size // 4), size // 4 * FACTOR
    return min(_cpu_s(work, large) for _ in range(tries)) / min(_cpu_s(work, small) for _ in range(tries))


def _cpu_s(work: Callable[[int], object], size: int) -> float:
    gc.collect()
    gc.disable()
    try:
        began = thread_time()
        work(size)
        return max(thread_time() - began, 1e-6)
    finally:
        gc.enable()
