"""Connections that are opened before a request needs them.

The engine says how many requests a lane is about to send (`keep`), and so many connections are kept idle or on their way. A
request that finds none idle takes the next one that is on its way. What was opened and not used within its time was too much: so many
fewer are kept, until a request finds none idle again. An error ends it until a request has opened a connection itself: a
request reports errors, this does not.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import ceil
from time import monotonic
from typing import TYPE_CHECKING, Final

from headway.core.lanes.in_flight.connections_ahead import OPENING_S

if TYPE_CHECKING:
    from headway.providers.http.connections import PooledConnection

#: Each new connection changes the mean time of opening one by this share.
LEARNING: Final = 0.2
#: Connections are kept for what is sent within so many times that mean.
TIMES: Final = 2.0


class ConnectionsAhead:
    """Opens connections to one host with `connect`, and adds them to `idle`."""

    def __init__(
        self, connect: Callable[[], Awaitable[PooledConnection]], idle: deque[PooledConnection]
    ) -> None:
        self._connect, self._idle = connect, idle
        self._expected = self._surplus = 0
        #: How many should be idle.
        self.wanted = 0
        self._took_s = OPENING_S / TIMES
        self._failed = False
        self._opening: set[asyncio.Task[PooledConnection]] = set()
        self._waiting: deque[asyncio.Future[PooledConnection | None]] = deque()

    def keep(self, n: int) -> None:
        """So many requests are sent within `OPENING_S`."""
        self._expected = n
        self._count()
        self.open()

    def _count(self) -> None:
        share = min(1.0, TIMES * self._took_s / OPENING_S)
        self.wanted = 0 if self._failed else max(0, ceil(share * self._expected) - self._surplus)

    def open(self) -> None:
        """Open what is missing."""
        loop = asyncio.get_running_loop()
        ready = len(self._idle) + len(self._opening) - len(self._waiting)
        for _ in range(self.wanted - ready):
            task = loop.create_task(self._open_one())
            self._opening.add(task)
            task.add_done_callback(self._opened)

    async def _open_one(self) -> PooledConnection:
        return await self._connect()

    def _opened(self, task: asyncio.Task[PooledConnection]) -> None:
        self._opening.discard(task)
        connection = None
        if task.cancelled() or task.exception() is not None:
            self._failed, self.wanted = True, 0
        else:
            connection = task.result()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is not None:
            connection.rest(monotonic(), new=True)
            self._idle.append(connection)

    async def next(self) -> PooledConnection | None:
        """The next connection that is on its way; None if there is none, or if it failed."""
        self._surplus = 0
        self._count()
        if len(self._opening) <= len(self._waiting):
            self.open()
            return None
        waiter: asyncio.Future[PooledConnection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self.open()
        try:
            return await waiter
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise

    def _give_up(self, waiter: asyncio.Future[PooledConnection | None]) -> None:
        """A request that waited was cancelled: the next one gets its connection."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if waiter.cancelled() or not waiter.done():
            return
        connection = waiter.result()
        if connection is not None:
            connection.rest(monotonic(), new=True)
            self._idle.append(connection)

    def connected(self, took_s: float) -> None:
        """A connection was opened in this time."""
        self._failed = False
        self._took_s += LEARNING * (took_s - self._took_s)
        self._count()

    def unused(self) -> None:
        """An idle connection was closed: it was one too many."""
        self._surplus = min(self._surplus + 1, self._expected)
        self._count()

    async def close(self) -> None:
        """Open nothing more."""
        self._expected = self.wanted = 0
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
