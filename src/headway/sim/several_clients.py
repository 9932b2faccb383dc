"""Several clients on one account, each with a part of the units: independent ones, or jobs that share by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.commands import Command, Done, Wake
from headway.core.events import Cancelled, Delayed, Event, Finished, RequestAccepted, Share, Written
from headway.core.lanes.job_share import TURN_S, Claim, Grant, claim_of, grant_of, promised
from headway.core.model import Unit
from headway.core.unit_source import FedScheduler
from headway.sim.world import Policy

#: How often jobs of one store read each other's claims.
CLAIMS_EVERY_S: Final = 0.2


class SeparateClients:
    """Independent clients as one policy. Each sees only the events of its own units."""

    def __init__(self, clients: Sequence[Policy], units: Sequence[Unit]) -> None:
        self.clients = clients
        self.owner = {unit.index: place % len(clients) for place, unit in enumerate(units)}
        self.wakes = [0.0] * len(clients)
        self.done = [False] * len(clients)

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """Pass each event to its client; wake at the earliest of their wake-ups."""
        events: list[list[Event]] = [[] for _ in self.clients]
        for event in happened:
            if isinstance(event, Delayed | Written | RequestAccepted | Finished | Cancelled):
                events[self.owner[event.index]].append(event)
        commands: list[Command] = []
        for place, client in enumerate(self.clients):
            if events[place] or self.wakes[place] <= now:
                self.wakes[place] = float("inf")
                commands += self._forwarded(place, client.handle(events[place], now))
        if all(self.done):
            commands.append(Done("complete"))
        elif min(self.wakes) < float("inf"):
            commands.append(Wake(min(self.wakes)))
        return commands

    def _forwarded(self, place: int, commands: list[Command]) -> list[Command]:
        """Remember a client's wake-up and end; return its other commands."""
        for command in commands:
            if isinstance(command, Wake):
                self.wakes[place] = command.at
            elif isinstance(command, Done):
                self.done[place] = True
        return [command for command in commands if not isinstance(command, Wake | Done)]


class SharingJobs(SeparateClients):
    """Clients that share lanes by weight, as the jobs of one store do.

    Each client records its claims and reads those of the others at instants of its own, so what it reads is up to an interval old.
    """

    def __init__(
        self, clients: Sequence[FedScheduler], weights: Sequence[float], units: Sequence[Unit]
    ) -> None:
        super().__init__(clients, units)
        self.schedulers = [client.scheduler for client in clients]
        self.weights = weights
        self.claims: dict[str, dict[int, Claim]] = {}
        self.looks = [CLAIMS_EVERY_S * place / len(clients) for place in range(len(clients))]
        self._granted: dict[tuple[int, str], Grant] = {}

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The same, with an exchange of claims at intervals."""
        if not self.claims:
            self._announce(now)
        commands: list[Command] = []
        for place, client in enumerate(self.clients):
            if now >= self.looks[place] and not self.done[place]:
                self.looks[place] += CLAIMS_EVERY_S
                news = self._look(place, now)
                if news:
                    commands += self._forwarded(place, client.handle(news, now))
        commands += super().handle(happened, now)
        if any(isinstance(command, Done) for command in commands):
            return commands
        looks = [at for at, done in zip(self.looks, self.done, strict=True) if not done]
        wake = min(*looks, *self.wakes, float("inf"))
        return [*(command for command in commands if not isinstance(command, Wake)), Wake(wake)]

    def _announce(self, now: float) -> None:
        """Record the claims of all clients before the first start, and give them their first shares."""
        for lane in self.schedulers[0].lanes:
            self.claims[lane] = {
                place: claim_of(scheduler, scheduler.lanes[lane], place, self.weights[place], now)
                for place, scheduler in enumerate(self.schedulers)
            }
        for place, scheduler in enumerate(self.schedulers):
            for share in self._look(place, now):
                scheduler.lanes[share.lane].share(share.grant, now)

    def _look(self, place: int, now: float) -> list[Share]:
        """Renew the claims of one client; returns its changed shares."""
        news: list[Share] = []
        for name, lane in self.schedulers[place].lanes.items():
            mine = claim_of(self.schedulers[place], lane, place, self.weights[place], now)
            others = [
                claim for other, claim in self.claims[name].items() if other != place and not self.done[other]
            ]
            grant = grant_of(mine, others, lane.limits.settings.max_concurrency, turn=int(now // TURN_S))
            self.claims[name][place] = promised(mine, lane, grant)
            if grant.differs(self._granted.get((place, name), Grant())):
                self._granted[place, name] = grant
                news.append(Share(name, grant))
        return news
