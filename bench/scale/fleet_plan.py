"""What is simulated: engines, lanes, work, and what goes wrong when."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec

from bench.scale.virtual_database import ServerCosts
from headway.sim.scenario import KnownLimits, LaneWork, Latency, Lognormal, ProviderSpec, Scenario, SimLane

#: The weights of jobs, in turn.
WEIGHTS: Final = (1.0, 2.0, 1.0, 4.0)
#: Requests per minute of the lanes, in turn; and how many may be in flight, of a lane that limits those.
RPM: Final = (300, 600, 1_200, 2_400, 4_800)
SLOTS: Final = (25, 50, 100, 150, 250)
DEPTHS_S: Final = (10.0, 1.0)
#: What a lane's provider says, in turn.
KINDS: Final = ("headers", "configured", "tokens", "slots")
OUTPUT_TOKENS: Final = 150.0
LATENCY: Final = Latency(first_token_s=0.4, per_token_s=0.01)
MEAN_ANSWER_S: Final = 0.4 + 0.01 * OUTPUT_TOKENS + 0.1


class Trouble(msgspec.Struct, frozen=True):
    """At an instant so many hosts lose the database, for a while; or, without an end, they die."""

    at_s: float
    hosts: int
    lasts_s: float | None = None


class FleetPlan(msgspec.Struct, frozen=True):
    """One simulation. Each host begins with one engine, which runs one job with units on every lane."""

    engines: int = 100
    lanes: int = 50
    #: The work of each lane would keep it busy for so long.
    work_s: float = 120.0
    kinds: tuple[str, ...] = KINDS
    #: Whether one engine has used the lanes before; otherwise all begin at once without knowing anything.
    warm: bool = True
    #: Engines begin within this time of each other.
    begin_within_s: float = 5.0
    #: A dead engine's job goes on elsewhere after this time without a sign of life.
    lease_s: float = 12.0
    #: Partitions that are shorter and longer than a lease, and deaths.
    troubles: tuple[Trouble, ...] = (
        Trouble(30.0, 5),
        Trouble(45.0, 10, 8.0),
        Trouble(60.0, 5, 25.0),
        Trouble(75.0, 5),
    )
    server: ServerCosts = ServerCosts()
    seed: int = 1

    @property
    def weights(self) -> list[float]:
        """The weight of each job."""
        return [WEIGHTS[job % len(WEIGHTS)] for job in range(self.engines)]

    def scenario(self) -> Scenario:
        """The lanes and their providers."""
        return Scenario({f"{kind}-{place}": lane for place, (kind, lane) in enumerate(self._lanes())})

    def _lanes(self) -> list[tuple[str, SimLane]]:
        kinds = [self.kinds[place % len(self.kinds)] for place in range(self.lanes)]
        return [(kind, self._lane(kind, place // len(self.kinds))) for place, kind in enumerate(kinds)]

    def _lane(self, kind: str, place: int) -> SimLane:
        rpm, depth_s = RPM[place % len(RPM)], DEPTHS_S[place % len(DEPTHS_S)]
        if kind == "slots":
            slots = SLOTS[place % len(SLOTS)]
            provider = ProviderSpec(max_concurrency=slots, retry_after="none", latency=LATENCY)
            return SimLane(self._work(slots * self.work_s / MEAN_ANSWER_S), provider, "truth")
        tokens = kind == "tokens"
        provider = ProviderSpec(
            rpm=rpm * 2.0 if tokens else rpm,
            tpm=rpm * 1_000.0 if tokens else 0.0,
            depth_s=depth_s,
            headers="none" if kind == "configured" else "openai",
            latency=LATENCY,
        )
        told: KnownLimits | Literal["truth"] = "truth" if kind == "configured" else KnownLimits()
        return SimLane(self._work(rpm / 60.0 * (self.work_s + depth_s)), provider, told)

    def _work(self, units: float) -> LaneWork:
        """Requests of about a thousand tokens, `max_tokens` included."""
        spread = Lognormal(OUTPUT_TOKENS, 0.4)
        return LaneWork(round(units), Lognormal(700.0, 0.4, 3_000.0), spread, max_tokens=300.0)

    def jobs_of(self, units: int) -> list[int]:
        """Which job each of a lane's units belongs to, by weight, mixed evenly."""
        weights = self.weights
        total = sum(weights)
        places = [
            ((place + 0.5) * total / (weight * units), job)
            for job, weight in enumerate(weights)
            for place in range(round(units * weight / total) + 1)
        ]
        return [job for _, job in sorted(places)[:units]]

    def chosen_hosts(self) -> list[tuple[Trouble, list[int]]]:
        """The hosts of each trouble; no host has two."""
        order = Random(f"{self.seed}/hosts").sample(range(self.engines), self.engines)
        chosen = []
        for trouble in self.troubles:
            chosen.append((trouble, order[: trouble.hosts]))
            order = order[trouble.hosts :]
        return chosen
