"""Several clients on one account, each with a part of the units: independent ones, or jobs that share by weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headway.core.commands import Command, Done, Wake
from headway.core.events import Cancelled, Event, Finished, RequestAccepted, Share
from headway.core.lanes.job_share import TURN_S, Grant, claim_of, grant_of
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
            if isinstance(event, RequestAccepted | Finished | Cancelled):
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
    """Clients that share lanes by weight, as the jobs of one store do."""

    def __init__(
        self, clients: Sequence[FedScheduler], weights: Sequence[float], units: Sequence[Unit]
    ) -> None:
        super().__init__(clients, units)
        self.schedulers = [client.scheduler for client in clients]
        self.weights = weights
        self.next_claims_at = 0.0
        self._granted: dict[tuple[int, str], Grant] = {}

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The same, with an exchange of claims at intervals."""
        commands: list[Command] = []
        if now >= self.next_claims_at:
            self.next_claims_at = now + CLAIMS_EVERY_S
            for place, events in enumerate(self._grants(now)):
                if events:
                    commands += self._forwarded(place, self.clients[place].handle(events, now))
        commands += super().handle(happened, now)
        if any(isinstance(command, Done) for command in commands):
            return commands
        wake = min(self.next_claims_at, *self.wakes)
        return [*(command for command in commands if not isinstance(command, Wake)), Wake(wake)]

    def _grants(self, now: float) -> list[list[Event]]:
        """The changed shares of each client, over all lanes."""
        news: list[list[Event]] = [[] for _ in self.schedulers]
        for lane in self.schedulers[0].lanes:
            claims = [
                claim_of(scheduler, scheduler.lanes[lane], place, self.weights[place], now)
                for place, scheduler in enumerate(self.schedulers)
            ]
            for place, mine in enumerate(claims):
                others = claims[:place] + claims[place + 1 :]
                most = self.schedulers[place].lanes[lane].limits.max_concurrency
                grant = grant_of(mine, others, most, turn=int(now // TURN_S))
                if not self.done[place] and grant.differs(self._granted.get((place, lane), Grant())):
                    self._granted[place, lane] = grant
                    news[place].append(Share(lane, grant))
        return news
