"""Policies that people write today, for comparison with the scheduler.

Each is a fair version of a known design. It knows the true limits if its design would know them, and it never gives a
unit up, unless its design says so:

- `GlobalPool`: one semaphore for everything, and a retry that sleeps while it holds its slot.
- `FileWorkers`: a few workers that each find every limit alone, and give a file up after five retries.
- `HalvingWindows`: one window for each lane, halved on each 429, ×1.5 after five successes; a 429 closes the lane until Retry-After.
- `KnownRate`: one bucket for each true limit, with a burst of a second; estimates are never corrected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from headway.core.commands import Command, Done, Finish, Start, Wake
from headway.core.events import Event, Finished
from headway.core.model import Kind, Outcome, RetryPolicy, Unit
from headway.core.retry import backoff_s
from headway.core.unit_states import Status
from headway.sim.scenario import ProviderSpec, Scenario
from headway.sim.virtual_bucket import VirtualBucket

#: The wait of promptfoo's scheduler after a 429 without a hint.
SILENT_429_S = 60.0
#: The waits of a worker pool for file reviews (Anatoly): 5 s, doubled each time, up to 120 s, ±20 %; after five retries the file is an error.
FILE_RETRIES = RetryPolicy(max_attempts=6, base_s=5.0, cap_s=120.0, jitter=0.2)


class Baseline(ABC):
    """What all baselines share: retries, timers, the end."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.left = len(units)
        self.units = {unit.index: unit for unit in units}
        self.tries: dict[int, int] = {}
        self.alarms: list[tuple[float, int]] = []
        self.commands: list[Command] = []

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The scheduler's contract."""
        self.commands = []
        for event in happened:
            if isinstance(event, Finished):
                self._finished(self.units[event.index], event.outcome, now)
        while self.alarms and self.alarms[0][0] <= now:
            self.due(self.units[heappop(self.alarms)[1]])
        self.advance(now)
        if not self.left:
            self.commands.append(Done("complete"))
        elif (wake_at := self.next_at(now)) is not None:
            self.commands.append(Wake(wake_at))
        return self.commands

    def _finished(self, unit: Unit, outcome: Outcome, now: float) -> None:
        if outcome.kind is None:
            self.left -= 1
            self.commands.append(Finish(unit, Status.SUCCEEDED))
            self.succeeded(unit, now)
            return
        tries = self.tries[unit.index] = self.tries.get(unit.index, 0) + 1
        wait_s = outcome.hint.retry_after_s if outcome.hint is not None else None
        if wait_s is None:
            wait_s = backoff_s(RetryPolicy(), unit.index, tries - 1)
        self.failed(unit, outcome, wait_s, now)

    def start(self, unit: Unit) -> None:
        """Start an attempt."""
        self.commands.append(Start(unit, self.tries.get(unit.index, 0) + 1))

    def remind(self, unit: Unit, at: float) -> None:
        """Call `due` for the unit at an instant."""
        heappush(self.alarms, (at, unit.index))

    def next_at(self, now: float) -> float | None:
        """When to call `handle` again."""
        return self.alarms[0][0] if self.alarms else None

    @abstractmethod
    def advance(self, now: float) -> None:
        """Start all units that may start."""

    @abstractmethod
    def succeeded(self, unit: Unit, now: float) -> None:
        """A unit succeeded."""

    @abstractmethod
    def failed(self, unit: Unit, outcome: Outcome, wait_s: float, now: float) -> None:
        """A unit failed and must be retried after `wait_s`."""

    @abstractmethod
    def due(self, unit: Unit) -> None:
        """The wait of a failed unit is over."""


class GlobalPool(Baseline):
    """`size` slots for everything; a unit that waits for its retry keeps its slot."""

    def __init__(self, units: Sequence[Unit], size: int) -> None:
        super().__init__(units)
        self.queue = deque(units)
        self.free = size

    def advance(self, now: float) -> None:
        while self.free and self.queue:
            self.free -= 1
            self.start(self.queue.popleft())

    def succeeded(self, unit: Unit, now: float) -> None:
        self.free += 1

    def failed(self, unit: Unit, outcome: Outcome, wait_s: float, now: float) -> None:
        self.remind(unit, now + wait_s)

    def due(self, unit: Unit) -> None:
        self.start(unit)


class FileWorkers(GlobalPool):
    """Workers of a file each. A worker knows nothing of the others: it sleeps by its own count of retries and reads no hint."""

    def failed(self, unit: Unit, outcome: Outcome, wait_s: float, now: float) -> None:
        tries = self.tries[unit.index]
        if tries < FILE_RETRIES.max_attempts:
            super().failed(unit, outcome, backoff_s(FILE_RETRIES, unit.index, tries - 1), now)
            return
        self.left -= 1
        self.commands.append(Finish(unit, Status.FAILED))
        self.succeeded(unit, now)


class _Gate:
    """One lane of a `LaneBaseline`."""

    def __init__(self, size: int) -> None:
        self.queue: deque[Unit] = deque()
        self.in_flight = 0
        self.size = size
        self.most = size
        self.successes = 0
        self.closed_until = 0.0


class LaneBaseline(Baseline):
    """A queue and a window for each lane. A waiting unit holds no slot."""

    def __init__(self, units: Sequence[Unit], sizes: dict[str, int]) -> None:
        super().__init__(units)
        self.gates = {name: _Gate(size) for name, size in sizes.items()}
        for unit in units:
            self.gates[unit.lane].queue.append(unit)

    def advance(self, now: float) -> None:
        for name, gate in self.gates.items():
            while gate.queue and gate.in_flight < gate.size and now >= self.open_at(name, gate.queue[0], now):
                unit = gate.queue.popleft()
                gate.in_flight += 1
                self.charge(unit, now)
                self.start(unit)

    def next_at(self, now: float) -> float | None:
        waits = [
            self.open_at(name, gate.queue[0], now)
            for name, gate in self.gates.items()
            if gate.queue and gate.in_flight < gate.size
        ]
        if self.alarms:
            waits.append(self.alarms[0][0])
        return min(waits, default=None)

    def succeeded(self, unit: Unit, now: float) -> None:
        self.gates[unit.lane].in_flight -= 1

    def failed(self, unit: Unit, outcome: Outcome, wait_s: float, now: float) -> None:
        self.gates[unit.lane].in_flight -= 1
        self.remind(unit, now + wait_s)

    def due(self, unit: Unit) -> None:
        self.gates[unit.lane].queue.append(unit)

    def open_at(self, name: str, unit: Unit, now: float) -> float:
        """When the lane may start this unit."""
        return self.gates[name].closed_until

    def charge(self, unit: Unit, now: float) -> None:
        """Charge a unit that starts."""


class HalvingWindows(LaneBaseline):
    """Halved on each 429, ×1.5 after five successes up to the first size; the lane waits for Retry-After."""

    def __init__(self, units: Sequence[Unit], lanes: Iterable[str], size: int = 64) -> None:
        super().__init__(units, dict.fromkeys(lanes, size))

    def succeeded(self, unit: Unit, now: float) -> None:
        super().succeeded(unit, now)
        gate = self.gates[unit.lane]
        gate.successes += 1
        if gate.successes >= 5:
            gate.successes = 0
            gate.size = min(gate.most, -(-gate.size * 3 // 2))

    def failed(self, unit: Unit, outcome: Outcome, wait_s: float, now: float) -> None:
        super().failed(unit, outcome, wait_s, now)
        if outcome.kind not in (Kind.RATE, Kind.CONCURRENCY, Kind.HOLD):
            return
        gate = self.gates[unit.lane]
        gate.size = max(1, gate.size // 2)
        gate.successes = 0
        hinted = outcome.hint is not None and outcome.hint.retry_after_s is not None
        gate.closed_until = max(gate.closed_until, now + (wait_s if hinted else SILENT_429_S))


class KnownRate(LaneBaseline):
    """Paced at the true rate with a burst of a second. It corrects no estimate and learns nothing."""

    def __init__(self, units: Sequence[Unit], scenario: Scenario) -> None:
        providers = {name: lane.provider for name, lane in scenario.lanes.items()}
        super().__init__(units, {name: real.max_concurrency or 1 << 20 for name, real in providers.items()})
        self.counting = {name: real.core_counting for name, real in providers.items()}
        self.buckets = {name: _true_buckets(real) for name, real in providers.items()}

    def open_at(self, name: str, unit: Unit, now: float) -> float:
        costs = self.counting[name].reserved(unit.estimate)
        waits = [
            bucket.short_by(costs[place], now) / bucket.rate for place, bucket in self.buckets[name].items()
        ]
        return now + max(waits, default=0.0)

    def charge(self, unit: Unit, now: float) -> None:
        costs = self.counting[unit.lane].reserved(unit.estimate)
        for place, bucket in self.buckets[unit.lane].items():
            bucket.charge(costs[place], now)


def _true_buckets(real: ProviderSpec) -> dict[int, VirtualBucket]:
    """A bucket of one second for each limit, by its place among a unit's costs."""
    limits = (real.rpm, real.tpm, real.input_tpm, real.output_tpm)
    return {place: VirtualBucket(limit / 60.0, 1.0) for place, limit in enumerate(limits) if limit}
