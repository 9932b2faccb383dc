"""All engines as one policy of the simulator's world; partitions, deaths and leases.

A host that dies takes its engines with it. A host that loses the database keeps them, but they start nothing. A job whose owner gave no
sign of life for a lease goes on in a new engine on another host, with what is not recorded as ended; the old owner's commits are
refused from then on. (That is what leases of jobs do; here they are a model, not their code.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Final

import msgspec

from bench.scale.fleet_plan import FleetPlan
from bench.scale.virtual_database import VirtualDatabase
from bench.scale.virtual_engine import EngineCpu, VirtualClock, VirtualEngine
from headway.core.commands import CancelAttempt, Command, Done, Wake
from headway.core.events import Cancelled, Event, Finished, RequestAccepted
from headway.core.lanes.lane_memory import export_lane
from headway.core.model import LaneSpec, Unit
from headway.core.scheduler import Scheduler
from headway.sim.scenario import Scenario
from headway.sim.workload import Workload

#: How often engines look for jobs without an owner.
POLL_S: Final = 1.0


class Fleet:
    """The engines. It passes on events and commands, and keeps their agenda."""

    def __init__(
        self, plan: FleetPlan, scenario: Scenario, workload: Workload, records: Mapping[str, bytes]
    ) -> None:
        self.plan = plan
        #: What an earlier run recorded of the lanes.
        self.records = records
        self.cpu = EngineCpu()
        self.clock = VirtualClock()
        self.database = VirtualDatabase(plan.server, self.later, list(scenario.lanes))
        self._specs = lane_specs(scenario)
        #: The job of each unit, and the units of each job.
        self.job_of = _dealt(plan, workload.units)
        self.units: list[list[Unit]] = [[] for _ in range(plan.engines)]
        for unit in workload.units:
            self.units[self.job_of[unit.index]].append(unit)
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._wakes: list[tuple[float, int, VirtualEngine]] = []
        self._seq = 0
        self._due: dict[VirtualEngine, None] = {}
        self._commands: list[Command] = []
        self._random = Random(f"{plan.seed}/fleet")
        self._hosts: list[list[VirtualEngine]] = [[] for _ in range(plan.engines)]
        self._dead: set[int] = set()
        #: The engine that owns each job; and how many jobs have ended.
        self.owners: list[VirtualEngine] = []
        self.jobs_ended = self.takeovers = self.fenced = self.notes = 0
        #: Requests of engines that had lost the database longer ago than a grant lasts.
        self.late_starts = 0
        self._begin()

    def _begin(self) -> None:
        for job in range(self.plan.engines):
            self._own(job, job, 0.0)
            self.later(self._random.uniform(0.0, self.plan.begin_within_s), self._beginning(self.owners[job]))
        for trouble, hosts in self.plan.chosen_hosts():
            for host in hosts:
                if trouble.lasts_s is None:
                    self.later(trouble.at_s, self._death(host))
                else:
                    self.later(trouble.at_s, self._partition(host, trouble.lasts_s))

    def _own(self, job: int, host: int, now: float) -> VirtualEngine:
        """A new engine for a job, on a host."""
        left = [unit for unit in self.units[job] if not self.database.ended[unit.index]]
        engine = VirtualEngine(job, self.plan.weights[job], self._specs, left, now, self.clock)
        self._hosts[host].append(engine)
        self.owners[job : job + 1] = [engine]
        return engine

    def _beginning(self, engine: VirtualEngine) -> Callable[[float], None]:
        return lambda now: engine.begin(self, now)

    # -- what goes wrong -------------------------------------------------------------------------------

    def _death(self, host: int) -> Callable[[float], None]:
        def die(now: float) -> None:
            self._dead.add(host)
            for engine in self._hosts[host]:
                self._stop(engine, now)
                self.later(self._lease_end(now), self._takeover(engine))

        return die

    def _partition(self, host: int, lasts_s: float) -> Callable[[float], None]:
        def lose(now: float) -> None:
            for engine in self._hosts[host]:
                if not engine.gone:
                    engine.lose_database(now)
                    self.later(self._lease_end(now), self._takeover(engine))
                    self.later(now + lasts_s, self._regain(engine))

        return lose

    def _regain(self, engine: VirtualEngine) -> Callable[[float], None]:
        return lambda now: None if engine.gone else engine.regain_database(now)

    def _lease_end(self, now: float) -> float:
        return now + self.plan.lease_s + self._random.uniform(0.0, POLL_S)

    def _takeover(self, engine: VirtualEngine) -> Callable[[float], None]:
        def take_over(now: float) -> None:
            if self.owners[engine.job] is not engine or not (engine.gone or engine.away) or not engine.left:
                return
            self.takeovers += 1
            self.database.epochs[engine.job] += 1
            engine.lose_job()
            self._cancel_attempts(engine)
            host = self._random.choice([host for host in range(self.plan.engines) if host not in self._dead])
            self._own(engine.job, host, now).begin(self, now)

        return take_over

    def _stop(self, engine: VirtualEngine, now: float) -> None:
        engine.gone = True
        self._due.pop(engine, None)
        self.cpu.ran_s += now - engine.began_at
        self._cancel_attempts(engine)

    def _cancel_attempts(self, engine: VirtualEngine) -> None:
        """Its answers are lost. The provider has counted its requests."""
        self._commands += [CancelAttempt(entry.unit) for entry in engine.scheduler.out.values()]

    # -- what engines call ---------------------------------------------------------------------------------

    def later(self, at: float, act: Callable[[float], None]) -> None:
        """Call a function at an instant."""
        self._seq += 1
        heappush(self._agenda, (at, self._seq, act))

    def call(self, engine: VirtualEngine) -> None:
        """Its scheduler has something to do now."""
        self._due[engine] = None

    def lost_job(self, engine: VirtualEngine, now: float) -> None:
        """A commit was refused: another engine owns the job."""
        self.fenced += 1
        engine.gone = True
        self._due.pop(engine, None)
        self.cpu.ran_s += now - engine.began_at

    def ended(self, engine: VirtualEngine, now: float) -> None:
        """All units of its job are recorded."""
        self.jobs_ended += 1
        engine.gone = True
        self.cpu.ran_s += now - engine.began_at
        self.database.forget_claims(engine.job)

    def learned(self, now: float) -> Mapping[str, bytes]:
        """What the engines have recorded of the lanes."""
        running = (one for one in self.owners if one.ready and not one.gone and not one.away)
        engine = next(running, None)
        return self.records if engine is None else records_of(engine.scheduler, now, now)

    def ran_s(self, now: float) -> float:
        """How long all engines ran together."""
        return self.cpu.ran_s + sum(now - engine.began_at for engine in self.owners if not engine.gone)

    # -- the world ------------------------------------------------------------------------------------------

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """Pass on events, do what is due, and call the engines that have something to do."""
        self.clock.now = now
        for event in happened:
            self._pass_on(event)
        while self._agenda and self._agenda[0][0] <= now:
            heappop(self._agenda)[2](now)
        while self._wakes and self._wakes[0][0] <= now:
            at, _, engine = heappop(self._wakes)
            if engine.wake_at == at and not engine.gone:
                self._due[engine] = None
        while self._due:
            engine = next(iter(self._due))
            del self._due[engine]
            if engine.ready and not engine.gone:
                self._commands += engine.handle(now)
                if engine.wake_at < float("inf"):
                    self._seq += 1
                    heappush(self._wakes, (engine.wake_at, self._seq, engine))
        commands, self._commands = self._commands, []
        if self.jobs_ended == self.plan.engines:
            return [*commands, Done("complete")]
        return [*commands, Wake(self._next_at())]

    def _pass_on(self, event: Event) -> None:
        if isinstance(event, RequestAccepted | Finished | Cancelled):
            engine = self.owners[self.job_of[event.index]]
            if not engine.gone and event.index in engine.scheduler.out:
                engine.events.append(event)
                self._due[engine] = None

    def _next_at(self) -> float:
        return min(
            self._agenda[0][0] if self._agenda else float("inf"),
            self._wakes[0][0] if self._wakes else float("inf"),
        )


def records_of(scheduler: Scheduler, now: float, utc: float) -> dict[str, bytes]:
    """What a scheduler has learned of its lanes, as the store keeps it."""
    return {key: msgspec.json.encode(export_lane(lane, now, utc)) for key, lane in scheduler.lanes.items()}


def lane_specs(scenario: Scenario) -> list[LaneSpec]:
    """The lanes as each engine knows them from its configuration."""
    return [
        LaneSpec(name, lane.limits, counting=lane.provider.core_counting, follow_throughput=True)
        for name, lane in scenario.lanes.items()
    ]


def _dealt(plan: FleetPlan, units: Sequence[Unit]) -> list[int]:
    """The job of each unit, by weight on each lane."""
    by_lane: dict[str, list[int]] = {}
    for unit in units:
        by_lane.setdefault(unit.lane, []).append(unit.index)
    jobs = [0] * len(units)
    for indexes in by_lane.values():
        for index, job in zip(indexes, plan.jobs_of(len(indexes)), strict=True):
            jobs[index] = job
    return jobs
