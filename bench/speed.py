"""What one unit costs the scheduler: CPU a unit, and how that grows from ten thousand units to a million.

The driver is as small as it can be: it answers every start after a fixed virtual latency, in batches of
whatever is due, and keeps nothing. Everything it does is counted against the scheduler.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headway.core.commands import Done, Start, Wake
from headway.core.events import Admitted, Event, Finished
from headway.core.model import Dimension, Estimate, Hint, LaneSpec, Limits, Outcome, Report, Unit, Usage
from headway.core.scheduler import Scheduler

LANES = 20
LATENCY_S = 2.0
#: Every measurement schedules so many, in as many runs as that takes.
ALL_UNITS = 1_000_000


class Endless:
    """A source that makes its units when they are taken, so that only the queues hold any."""

    def __init__(self, count: int) -> None:
        self.left = {f"lane{number}": range(number, count, LANES) for number in range(LANES)}
        self.estimate = Estimate(input_tokens=300.0, output_tokens=200.0, max_output_tokens=400.0)

    def take(self, lane: str, n: int) -> Sequence[Unit]:
        rest = self.left[lane]
        self.left[lane] = rest[n:]
        return [Unit(index, lane, self.estimate) for index in rest[:n]]

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


def measure(units: int, *, headers: bool, batched: bool = True) -> SpeedResult:
    """Schedule so many units over twenty lanes; CPU seconds of the whole loop, per unit."""
    limits = Limits(
        rpm=6_000, tpm=6_000_000, burst_s=0.1
    )  # No burst at first that only a short run would notice.
    source = Endless(units)
    scheduler = Scheduler([LaneSpec(key, limits) for key in source.left], source)
    gc.collect()
    began = time.process_time()
    calls, peak = drive(scheduler, headers=headers, batched=batched)
    spent = time.process_time() - began
    return SpeedResult(units, spent / units * 1e6, peak, calls, peak_mb())


def peak_mb() -> float:
    """The most memory that this process has had (getrusage would count its parent's before the exec)."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024.0
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def drive(scheduler: Scheduler, *, headers: bool, batched: bool) -> tuple[int, int]:
    """Answer whatever is started until the scheduler is done; returns its calls and the most that was queued."""
    outcome = Outcome(usage=Usage(310.0, 180.0))
    hint = Hint(
        (Report(Dimension.REQUESTS, 6_000, 90.0, 0.1), Report(Dimension.TOKENS, 6_000_000, 90_000.0, 0.1))
    )
    answers: deque[tuple[float, int]] = deque()
    now, calls, peak = 0.0, 0, 0
    told: list[Event] = []
    while True:
        commands = scheduler.handle(told, now)
        calls += 1
        wake_at = None
        for command in commands:
            kind = type(command)
            if kind is Start:
                answers.append((now + LATENCY_S, command.unit.index))  # type: ignore[union-attr]
            elif kind is Wake:
                wake_at = command.at  # type: ignore[union-attr]
            elif kind is Done:
                return calls, peak
        if calls % 100 == 0:
            peak = max(peak, sum(len(lane.queue) for lane in scheduler.lanes.values()))
        now = min(
            answers[0][0] if answers else float("inf"), wake_at if wake_at is not None else float("inf")
        )
        told = []
        while answers and answers[0][0] <= now:
            index = answers.popleft()[1]
            if headers:
                told.append(Admitted(index, hint))
            told.append(Finished(index, outcome))
            if not batched:
                break


if __name__ == "__main__":
    units, headers, batched = int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3] == "1"
    results = [measure(units, headers=headers, batched=batched) for _ in range(max(1, ALL_UNITS // units))]
    mean_us = sum(result.cpu_us for result in results) / len(results)
    print(msgspec.json.encode(msgspec.structs.replace(results[-1], cpu_us=mean_us)).decode())
