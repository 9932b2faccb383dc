"""Finds idle connections that the server has closed, before a request is sent over one.

A POST is never sent twice, because the outcome of the first one is unknown. So a connection is checked before it is used again: an idle
connection with something to read is at its end. The loop may not have processed that yet; nothing has been sent then.

Each look at sockets is a system call that lets another thread run meanwhile, which costs more than the call. Many requests start in one
round of the loop, so a look also covers the connections that are used next: none for the first request of a round, then one, three, seven …
A look counts until the round ends.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headway.providers.http.connections import PooledConnection

#: Connections that one look covers, at the most.
MOST_AT_ONCE: Final = 32


class DroppedConnections:
    """Checks connections of one pool. `idle` has those that are not in use, the next one last."""

    def __init__(self, idle: Sequence[PooledConnection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._round = 1
        #: How many connections the last look of this round covered; 0: there was none.
        self._covered = 0

    def has(self, connection: PooledConnection) -> bool:
        """Whether the server has closed this connection."""
        if connection.closed:
            return True
        if connection.checked_in == self._round or connection.is_new:
            return False
        if self._covered:
            self._covered = min(MOST_AT_ONCE, 2 * self._covered)
        else:
            self._covered = 1
            self._loop.call_soon(self._end_round)
        self._look((connection, *islice(reversed(self._idle), self._covered - 1)))
        return connection.checked_in != self._round

    def _look(self, connections: Iterable[PooledConnection]) -> None:
        """Mark those that are alive."""
        poll = select.poll()
        looked_at: dict[int, PooledConnection] = {}
        for connection in connections:
            descriptor = -1 if connection.closed else connection.descriptor
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
                looked_at[descriptor] = connection
        for descriptor, _ in poll.poll(0):
            looked_at.pop(descriptor)
        for connection in looked_at.values():
            connection.checked_in = self._round

    def _end_round(self) -> None:
        self._round += 1
        self._covered = 0
