"""Several clients on one key: each has its share of the units and believes that it is alone."""

from __future__ import annotations

from collections.abc import Sequence

from headway.core.commands import Command, Done, Wake
from headway.core.events import Admitted, Cancelled, Event, Finished
from headway.core.model import Unit
from headway.sim.world import Policy


class Crowd:
    """Joins clients into one policy; none of them sees what another is told."""

    def __init__(self, clients: Sequence[Policy], units: Sequence[Unit]) -> None:
        self.clients = clients
        self.owner = {unit.index: place % len(clients) for place, unit in enumerate(units)}
        self.wakes = [0.0] * len(clients)
        self.done = [False] * len(clients)

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The scheduler's contract: each event to its client, the first wake-up of all."""
        told: list[list[Event]] = [[] for _ in self.clients]
        for event in happened:
            if isinstance(event, Admitted | Finished | Cancelled):
                told[self.owner[event.index]].append(event)
        commands: list[Command] = []
        for place, client in enumerate(self.clients):
            if told[place] or self.wakes[place] <= now:
                self.wakes[place] = float("inf")
                commands += self._kept(place, client.handle(told[place], now))
        if all(self.done):
            commands.append(Done("complete"))
        elif min(self.wakes) < float("inf"):
            commands.append(Wake(min(self.wakes)))
        return commands

    def _kept(self, place: int, commands: list[Command]) -> list[Command]:
        """Wake-ups and ends are this one's own; the rest goes out."""
        for command in commands:
            if isinstance(command, Wake):
                self.wakes[place] = command.at
            elif isinstance(command, Done):
                self.done[place] = True
        return [command for command in commands if not isinstance(command, Wake | Done)]
