"""Runs a policy against virtual providers in virtual time.

A policy is anything with the scheduler's one method, `handle(events, now) → commands`: the scheduler itself, and the
baselines. The world carries requests to the providers and answers back. It makes no decision of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from random import Random
from typing import Protocol, runtime_checkable

import msgspec

from headway.core.commands import CancelAttempt, Command, Done, Finish, Start, Wake
from headway.core.events import Cancelled, Delayed, Event, Finished, RequestAccepted, Written
from headway.core.model import Hint, Kind, Outcome, Unit, Usage
from headway.core.unit_states import GOOD
from headway.sim.scenario import Scenario
from headway.sim.virtual_provider import OUTPUT_STEPS, VirtualProvider
from headway.sim.workload import Truth, Workload


class Policy(Protocol):
    """Decides when units start."""

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """Take events; return commands."""


@runtime_checkable
class OpensAhead(Protocol):
    """A policy whose client opens connections before they are needed."""

    def connections_ahead(self, lane: str, now: float) -> int:
        """How many connections a lane should have open beyond those in use."""


class LaneLog:
    """The times of one lane's starts, admissions (with the unit), refusals, answers and finished units."""

    def __init__(self) -> None:
        self.started: list[float] = []
        self.admitted: list[tuple[float, int]] = []
        self.refused: list[float] = []
        self.answered: list[float] = []
        self.finished: list[float] = []
        self.succeeded: list[int] = []
        self.failed = 0


class World:
    """One run of one policy over one workload."""

    def __init__(self, scenario: Scenario, workload: Workload, seed: int) -> None:
        self.workload = workload
        self.providers = {
            name: VirtualProvider(lane.provider, f"{seed}/{name}") for name, lane in scenario.lanes.items()
        }
        self.logs = {name: LaneLog() for name in scenario.lanes}
        #: Open connections without a request.
        self._idle = dict.fromkeys(scenario.lanes, 0)
        #: When connections that are opened ahead will be open, the earliest first.
        self._opening: dict[str, list[float]] = {name: [] for name in scenario.lanes}
        self._random = Random(f"{seed}/connections")
        self._agenda: list[tuple[float, int, str, Unit, object]] = []
        self._seq = 0
        self._in_flight: dict[int, int] = {}
        self._wake_at = float("inf")
        self._done = False
        self.ended_at = 0.0

    def run(self, policy: Policy, most_s: float) -> None:
        """Run until the policy is done, or `most_s` has passed."""
        now = 0.0
        ahead = policy if isinstance(policy, OpensAhead) else None
        self._perform(policy.handle([], now), now)
        agenda = self._agenda
        while not self._done:
            at = min(agenda[0][0] if agenda else float("inf"), self._wake_at)
            if at > most_s:
                break
            now = max(now, at)
            events: list[Event] = []
            while agenda and agenda[0][0] <= now:
                _, _, kind, unit, detail = heappop(agenda)
                event = self._process(kind, unit, detail, now)
                if event is not None:
                    events.append(event)
            if events or self._wake_at <= now:
                self._wake_at = float("inf")
                self._perform(policy.handle(events, now), now)
                if ahead is not None:
                    self._open_ahead(ahead, now)
        self.ended_at = now

    def _later(self, at: float, kind: str, unit: Unit, detail: object = None) -> None:
        self._seq += 1
        heappush(self._agenda, (at, self._seq, kind, unit, detail))

    def _perform(self, commands: list[Command], now: float) -> None:
        for command in commands:
            kind = type(command)
            if kind is Start:
                self._start(command.unit, now)  # type: ignore[union-attr]
            elif kind is Wake:
                self._wake_at = command.at  # type: ignore[union-attr]
            elif kind is Finish:
                self._finish(command, now)  # type: ignore[arg-type]
            elif kind is Done:
                self._done = True
            elif kind is CancelAttempt:
                self._in_flight.pop(command.unit.index, None)  # type: ignore[union-attr]
                self._later(now, "gone", command.unit)  # type: ignore[union-attr]

    def _start(self, unit: Unit, now: float) -> None:
        assert unit.index not in self._in_flight, f"unit {unit.index} was started while it is in flight"
        self._in_flight[unit.index] = self._seq
        self.logs[unit.lane].started.append(now)
        connected_in_s = self._connected_in_s(unit.lane, now)
        if connected_in_s:
            self._later(now, "delayed", unit)
            self._later(now + connected_in_s, "written", unit)
        at = now + connected_in_s + self._truth(unit).to_server_s
        self._later(at, "arrive", unit, self._seq)

    def _connected_in_s(self, lane: str, now: float) -> float:
        """How long a request waits for a connection; 0 if one is idle."""
        connect_s, opening = self.providers[lane].spec.latency.connect_s, self._opening[lane]
        if not connect_s:
            return 0.0
        while opening and opening[0] <= now:
            heappop(opening)
            self._idle[lane] += 1
        if self._idle[lane]:
            self._idle[lane] -= 1
            return 0.0
        return heappop(opening) - now if opening else self._opened_in_s(connect_s)

    def _opened_in_s(self, connect_s: float) -> float:
        return connect_s * self._random.uniform(0.5, 1.5)

    def _open_ahead(self, policy: OpensAhead, now: float) -> None:
        """Open as many connections as the client wants to have beyond those in use."""
        for lane, opening in self._opening.items():
            connect_s = self.providers[lane].spec.latency.connect_s
            if connect_s:
                for _ in range(policy.connections_ahead(lane, now) - self._idle[lane] - len(opening)):
                    heappush(opening, now + self._opened_in_s(connect_s))

    def _truth(self, unit: Unit) -> Truth:
        return self.workload.truths[unit.index]

    def _finish(self, command: Finish, now: float) -> None:
        log = self.logs[command.unit.lane]
        log.finished.append(now)
        if command.status in GOOD:
            log.succeeded.append(command.unit.index)
        else:
            log.failed += 1

    def _process(self, kind: str, unit: Unit, detail: object, now: float) -> Event | None:
        """Perform one entry of the agenda; returns the event that the client sees, if any."""
        if kind == "arrive":
            self._arrive(unit, now)
        elif kind == "first_token":
            counted = self.providers[unit.lane].first_token(self._truth(unit), now)
            if counted is not None:
                self._later(now + self._truth(unit).from_server_s, "headers", unit, counted)
        elif kind == "produced":
            self.providers[unit.lane].produced(self._truth(unit), now)
        elif kind == "leave":
            self._leave(self.providers[unit.lane], now)
        elif kind == "delayed":
            return Delayed(unit.index)
        elif kind == "written":
            return Written(unit.index)
        elif kind == "headers":
            return self._headers(unit, detail)  # type: ignore[arg-type]
        elif kind == "answer":
            return self._answer(unit, detail, now)  # type: ignore[arg-type]
        elif kind == "gone":
            return Cancelled(unit.index)
        return None

    def _leave(self, provider: VirtualProvider, now: float) -> None:
        """A request has ended; the first in the queue that is not refused takes its place."""
        provider.leave()
        while provider.waiting and provider.in_flight < provider.spec.max_concurrency:
            self._arrive(self.workload.units[provider.waiting.popleft()], now)

    def _headers(self, unit: Unit, hint: Hint | None) -> Event:
        """The first headers; with `used` counting (Anthropic) also the number of input tokens."""
        usage = self._truth(unit).usage
        early = self.providers[unit.lane].spec.counting == "used"
        return RequestAccepted(
            unit.index, hint, Usage(usage.input_tokens, 0.0, usage.cached_input_tokens) if early else None
        )

    def _answer(self, unit: Unit, outcome: Outcome, now: float) -> Event | None:
        if self._in_flight.pop(unit.index, None) is None:
            return None
        self._idle[unit.lane] += 1
        self.logs[unit.lane].answered.append(now)
        if outcome.kind in (Kind.RATE, Kind.CONCURRENCY):
            self.logs[unit.lane].refused.append(now)
        return Finished(unit.index, outcome)

    def _arrive(self, unit: Unit, now: float) -> None:
        truth = self._truth(unit)
        if self.providers[unit.lane].must_wait(unit.index):
            return
        provider = self.providers[unit.lane]
        answer = provider.arrive(truth, now)
        back_s = truth.from_server_s
        if isinstance(answer, Outcome):
            self._later(now + provider.spec.latency.refusal_s + back_s, "answer", unit, answer)
            return
        self.logs[unit.lane].admitted.append((now, unit.index))
        if answer.fails_after_s is not None:
            end_at = now + answer.fails_after_s
            self._later(end_at, "leave", unit)
            self._later(end_at + back_s, "answer", unit, answer.outcome)
            return
        first_at, end_at = now + truth.first_token_s, now + truth.service_s
        self._later(first_at, "first_token", unit)
        outcome = answer.outcome
        if provider.spec.whole_answers:
            outcome = msgspec.structs.replace(outcome, hint=answer.hint)
        elif not provider.spec.headers_count_answers:
            self._later(first_at + back_s, "headers", unit, answer.hint)
        for step in range(1, OUTPUT_STEPS + 1):
            self._later(first_at + (end_at - first_at) * step / OUTPUT_STEPS, "produced", unit)
        self._later(end_at, "leave", unit)
        self._later(end_at + back_s, "answer", unit, outcome)
