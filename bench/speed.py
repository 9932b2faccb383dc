"""CPU of the scheduler per unit, and how it grows from ten thousand units to a million.

The driver is as small as possible: it answers every start after a fixed virtual latency, all answers that are due at
once, and keeps nothing. Its own CPU counts as the scheduler's.

The speed of a shared machine varies by a third for seconds at a time. So the long run is measured in slices with a
whole short run after each: both see the same machine, and their ratio is meaningful.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from headway.core.commands import Done, Start, Wake
from headway.core.events import Event, Finished, RequestAccepted
from headway.core.lanes.queueing.unit_lengths import LengthTable
from headway.core.model import (
    Dimension,
    Estimate,
    Hint,
    LaneLimits,
    LaneSpec,
    LimitReport,
    Outcome,
    Unit,
    Usage,
)
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler

#: Microseconds per unit, and how much more a unit of a long run may take.
CPU_BAR_US = 20.0
GROWTH_BAR = 1.2
LANES = 20
LATENCY_S = 2.0
SMALL, LARGE = 10_000, 1_000_000


class Endless:
    """A source that makes units when they are taken, so that only the queues hold any."""

    def __init__(self, count: int) -> None:
        self.left = {f"lane{number}": range(number, count, LANES) for number in range(LANES)}
        self.estimate = Estimate(input_tokens=300.0, output_tokens=200.0, max_output_tokens=400.0)

    def take(self, lane: str, n: int, longest: LengthTable | None = None) -> Sequence[Unit]:
        rest = self.left[lane]
        self.left[lane] = rest[n:]
        return [Unit(index, lane, self.estimate) for index in rest[:n]]

    def largest(self, lane: str) -> Sequence[Unit]:
        return ()

    def take_serial(self, n: int) -> Sequence[Unit]:
        return ()

    def drain(self, n: int) -> Sequence[Unit]:
        raise NotImplementedError

    def remaining(self, lane: str) -> int:
        return len(self.left[lane])


class SpeedResult(msgspec.Struct, frozen=True):
    """One measurement."""

    units: int
    cpu_us: float
    peak_queued: int
    calls: int
    peak_mb: float


class Run:
    """A run over twenty lanes that can be driven in slices. It sums its CPU seconds."""

    def __init__(self, units: int, *, headers: bool, batched: bool) -> None:
        # A small burst: a large one would matter only in a short run.
        limits = LaneLimits(rpm=6_000, tpm=6_000_000, burst_s=0.1)
        source = Endless(units)
        self.units = units
        self.scheduler = Scheduler([LaneSpec(key, limits) for key in source.left])
        self.handle = FedScheduler(self.scheduler, source).handle
        self.cpu_s = 0.0
        self.calls = self.peak_queued = self.answered = 0
        #: CPU per unit of each whole slice.
        self.slices_us: list[float] = []
        self._driver = self._drive(headers=headers, batched=batched)

    def go_on(self) -> bool:
        """Drive until the next ten thousand units are answered. Returns whether any are left."""
        began, before = time.process_time(), self.answered
        more = next(self._driver, False)
        took_s = time.process_time() - began
        self.cpu_s += took_s
        if more:
            self.slices_us.append(took_s / (self.answered - before) * 1e6)
        return more

    def _drive(self, *, headers: bool, batched: bool) -> Iterator[bool]:
        """Answer all starts until the scheduler is done."""
        outcome = Outcome(usage=Usage(310.0, 180.0))
        hint = Hint(
            (
                LimitReport(Dimension.REQUESTS, 6_000, 90.0, 0.1),
                LimitReport(Dimension.TOKENS, 6_000_000, 90_000.0, 0.1),
            )
        )
        scheduler = self.scheduler
        answers: deque[tuple[float, int]] = deque()
        now, answered = 0.0, 0
        events: list[Event] = []
        while True:
            wake_at = None
            for command in self.handle(events, now):
                kind = type(command)
                if kind is Start:
                    answers.append((now + LATENCY_S, command.unit.index))  # type: ignore[union-attr]
                elif kind is Wake:
                    wake_at = command.at  # type: ignore[union-attr]
                elif kind is Done:
                    return
            self.calls += 1
            if self.calls % 100 == 0:
                queued = sum(len(lane.queue) for lane in scheduler.lanes.values())
                self.peak_queued = max(self.peak_queued, queued)
            if answered >= SMALL:
                answered = 0
                yield True
            now = min(
                answers[0][0] if answers else float("inf"), wake_at if wake_at is not None else float("inf")
            )
            events = []
            while answers and answers[0][0] <= now:
                index = answers.popleft()[1]
                answered += 1
                self.answered += 1
                if headers:
                    events.append(RequestAccepted(index, hint))
                events.append(Finished(index, outcome))
                if not batched:
                    break


def measure(*, headers: bool, batched: bool) -> tuple[SpeedResult, SpeedResult]:
    """CPU of a hundred short runs and of a long one, in turns: the median of the runs, and of the long run's slices."""
    long = Run(LARGE, headers=headers, batched=batched)
    shorts_us: list[float] = []
    small_mb = 0.0
    while True:
        gc.collect()
        more = long.go_on()
        gc.collect()
        short = Run(SMALL, headers=headers, batched=batched)
        while short.go_on():
            pass
        shorts_us.append(short.cpu_s / SMALL * 1e6)
        small_mb = small_mb or peak_mb()
        if not more:
            break
    long_us = median(long.slices_us)
    return (
        SpeedResult(SMALL, median(shorts_us), short.peak_queued, short.calls, small_mb),
        SpeedResult(LARGE, long_us, long.peak_queued, long.calls, peak_mb()),
    )


def peak_mb() -> float:
    """Peak memory of this process (getrusage would include its parent's before the exec)."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024.0
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"## CPU of the scheduler per unit, {LANES} lanes, requests and tokens metered"
    yield ""
    yield "Including the driver that answers. *Batched*: all answers of an instant in one call, as in the engine;"
    yield "*single*: one call for each answer. The long run is measured in a hundred slices with a whole short run after each, so"
    yield "that both see the same machine. Both figures are medians: of the hundred slices, and of the hundred short runs."
    yield ""
    yield "| units | headers | calls | µs per unit | against 10,000 | most units in the queues | peak MB |"
    yield "|---|---|---|---|---|---|---|"
    for headers in (False, True):
        for batched in (True, False):
            yield from _speed_rows(missed, headers=headers, batched=batched)
    yield ""


def _speed_rows(missed: list[str], *, headers: bool, batched: bool) -> Iterator[str]:
    small, large = _in_own_process(headers=headers, batched=batched)
    for result in (small, large):
        growth = result.cpu_us / small.cpu_us
        yield (
            f"| {result.units:,} | {'yes' if headers else 'no'} | {'batched' if batched else 'single'} "
            f"| {result.cpu_us:.1f} | {growth:.2f} | {result.peak_queued:,} | {result.peak_mb:.0f} |"
        )
        if result.cpu_us > CPU_BAR_US:
            missed.append(
                f"{result.units:,} units: {result.cpu_us:.1f} µs per unit, the bar is {CPU_BAR_US:.0f}"
            )
    if large.cpu_us > small.cpu_us * GROWTH_BAR:
        missed.append(
            f"CPU per unit grows {large.cpu_us / small.cpu_us:.2f} × to a million, the bar is {GROWTH_BAR}"
        )


def _in_own_process(*, headers: bool, batched: bool) -> tuple[SpeedResult, SpeedResult]:
    print(f"speed: headers {headers}, batched {batched} …", flush=True)
    command = [sys.executable, "-m", "bench.speed", str(int(headers)), str(int(batched))]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=tuple[SpeedResult, SpeedResult])


if __name__ == "__main__":
    print(msgspec.json.encode(measure(headers=sys.argv[1] == "1", batched=sys.argv[2] == "1")).decode())
