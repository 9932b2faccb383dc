"""The smallest engine there is: a heap of answers, a clock that jumps, one scheduler. Everything it does is data.

How an attempt ends and how long it takes is looked up by unit and attempt, never by when or beside whom it ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from headway.core import commands, events
from headway.core.commands import Command
from headway.core.events import Event
from headway.core.model import SUCCESS, LaneSpec, Outcome, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource

#: Far more calls than any run here needs: beyond it the scheduler spins.
MOST_CALLS = 50_000


@dataclass(frozen=True)
class Answer:
    """How one attempt goes: first headers after `admitted_s`, if there are any, the end after `latency_s`."""

    latency_s: float = 1.0
    outcome: Outcome = SUCCESS
    admitted_s: float | None = None


@dataclass(frozen=True)
class Script:
    """The answer to each attempt of each unit."""

    answers: tuple[Answer, ...] = (Answer(),)

    def of(self, index: int, attempt: int) -> Answer:
        return self.answers[(index * 31 + attempt * 7) % len(self.answers)]


@dataclass(frozen=True)
class Said:
    """Something that an outsider asks for at an instant."""

    at: float
    event: Event


@dataclass(frozen=True)
class Call:
    """One call of the scheduler."""

    now: float
    happened: tuple[Event, ...]
    told: tuple[Command, ...]


@dataclass
class Loop:
    """Drives a scheduler until nothing is awaited or the horizon is reached, and keeps every call."""

    fed: FedScheduler
    script: Script
    now: float = 0.0
    calls: list[Call] = field(default_factory=list)
    done: bool = False
    _heap: list[tuple[float, int, int, int, Event]] = field(default_factory=list)
    _wake_at: float | None = None

    @property
    def scheduler(self) -> Scheduler:
        return self.fed.scheduler

    def say(self, said: Iterable[Said]) -> None:
        for number, one in enumerate(said):
            heappush(self._heap, (one.at, -1, number, 0, one.event))

    def run(self, horizon: float) -> Loop:
        """Follow answers and wake-ups until there are none; nothing happens after the horizon."""
        self._call(())
        for _ in range(MOST_CALLS):
            due = [item[0] for item in self._heap[:1]] + ([] if self._wake_at is None else [self._wake_at])
            if not due or min(due) > horizon:
                return self
            self.now = max(self.now, min(due))
            self._call(tuple(self._due()))
        raise AssertionError("the scheduler spins")

    def _due(self) -> Iterable[Event]:
        while self._heap and self._heap[0][0] <= self.now:
            yield heappop(self._heap)[-1]

    def _call(self, happened: tuple[Event, ...]) -> None:
        told = self.fed.handle(happened, self.now)
        self.calls.append(Call(self.now, happened, tuple(told)))
        self._wake_at = None
        for command in told:
            match command:
                case commands.Start(unit, attempt):
                    self._send(unit, attempt)
                case commands.Wake(at):
                    self._wake_at = at
                case commands.Done():
                    self.done = True

    def _send(self, unit: Unit, attempt: int) -> None:
        answer = self.script.of(unit.index, attempt)
        key = (unit.index, attempt)
        if answer.admitted_s is not None and answer.admitted_s < answer.latency_s:
            admitted = events.RequestAccepted(unit.index, answer.outcome.hint)
            heappush(self._heap, (self.now + answer.admitted_s, *key, 0, admitted))
        finished = events.Finished(unit.index, answer.outcome)
        heappush(self._heap, (self.now + answer.latency_s, *key, 1, finished))


def loop_of(
    specs: Sequence[LaneSpec], units: Iterable[Unit], script: Script, settings: Settings, start: float = 0.0
) -> Loop:
    """A fresh scheduler over these units, and a loop around it."""
    return Loop(FedScheduler(Scheduler(specs, settings, start), ListSource(units)), script, start)


def story_of(loop: Loop, lane: str) -> list[tuple[float, Command]]:
    """Everything that was decided about one lane and its units, and when."""
    return [(call.now, command) for call in loop.calls for command in call.told if _about(command) == lane]


def _about(command: Command) -> str | None:
    match command:
        case commands.Notice(lane=lane):
            return lane
        case (
            commands.Start(unit)
            | commands.Requeue(unit)
            | commands.Finish(unit)
            | commands.CancelAttempt(unit)
        ):
            return unit.lane
        case _:
            return None
