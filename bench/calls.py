"""CPU of `headway.map` per call: a no-op coroutine, without and with a store, beside an `asyncio.Semaphore`.

Each runs in its own process, in turns. CPU is that of all threads of the process between the first item and the last
result.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
import uvloop

import headway

CALLS: Final = 100_000
TURNS: Final = 3
AT_ONCE: Final = 64
BAR_US: Final = 40.0
STORE_BAR_US: Final = 100.0
WAYS: Final = ("semaphore", "map", "map with a store")


class Spent(msgspec.Struct, frozen=True):
    """One run: CPU per call, and calls per second."""

    cpu_us: float
    per_s: float


async def _nothing(number: int) -> int:
    return number


async def _semaphore(count: int) -> list[int]:
    """The usual code: a task for every item."""
    at_once = asyncio.Semaphore(AT_ONCE)

    async def call(number: int) -> int:
        async with at_once:
            return await _nothing(number)

    return await asyncio.gather(*(call(number) for number in range(count)))


def _run(way: str, count: int, folder: Path) -> list[int]:
    if way == "semaphore":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_semaphore(count))
    if way == "map":
        return headway.map(_nothing, range(count))
    return headway.map(_nothing, range(count), db=folder / "calls.db", key=str, name="calls")


def measure(way: str, count: int) -> Spent:
    """Measure in this process."""
    _run(way if way == "semaphore" else "map", 100, Path())  # Lazy imports are not measured.
    with TemporaryDirectory() as folder:
        began, began_cpu = time.monotonic(), time.process_time()
        results = _run(way, count, Path(folder))
        spent, cpu = time.monotonic() - began, time.process_time() - began_cpu
    if results != list(range(count)):
        raise RuntimeError(f"{way} returned wrong results")
    return Spent(cpu / count * 1e6, count / spent)


def in_turns(count: int = CALLS, turns: int = TURNS) -> dict[str, Spent]:
    """The median of each way."""
    runs: dict[str, list[Spent]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way in WAYS:
            command = [sys.executable, "-m", "bench.calls", way, str(count)]
            output = subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
            runs[way].append(msgspec.json.decode(output, type=Spent))
    return {
        way: Spent(median(one.cpu_us for one in spent), median(one.per_s for one in spent))
        for way, spent in runs.items()
    }


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print("calls: headway.map …", flush=True)
    spent = in_turns()
    yield f"## `headway.map` over {CALLS:,} no-op coroutines, beside an `asyncio.Semaphore`"
    yield ""
    yield f"{AT_ONCE} at once, each in its own process, in turns; the median of {TURNS}. CPU of all threads."
    yield ""
    yield "| | µs of CPU per call | calls/s | bar |"
    yield "|---|---|---|---|"
    bars = {"map": BAR_US, "map with a store": STORE_BAR_US}
    for way, one in spent.items():
        bar = bars.get(way)
        yield f"| {way} | {one.cpu_us:.1f} | {one.per_s:,.0f} | {'' if bar is None else f'≤ {bar:.0f} µs'} |"
        if bar is not None and one.cpu_us > bar:
            missed.append(f"{way}: {one.cpu_us:.1f} µs per call, the bar is {bar:.0f}")
    yield ""


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(sys.argv[1], int(sys.argv[2]))))
