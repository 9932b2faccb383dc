"""A connection that must send a request soon: no program of this machine can keep the dashboard from answering with connections that say nothing.

`limit_concurrency` of uvicorn counts all connections. So where there are too many, the one that has waited longest without a request ends.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections at once; more requests are answered with 503.
MOST_CONNECTIONS: Final = 256
#: A connection without a request is closed after this long, also if parts of one have arrived.
IDLE_S: Final = 15


class BoundedConnection(H11Protocol):
    """One connection."""

    #: Closes the connection, while it waits for the head of a request.
    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # As uvicorn declares it.
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) >= MOST_CONNECTIONS:
            waiting = [
                each for each in self.connections if isinstance(each, BoundedConnection) and each._closing
            ]
            min(waiting, key=lambda each: each._closes_at)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Read what has arrived. With the head of a request the wait is over."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """The next request may be here already."""
        before = self.cycle
        super().on_response_complete()
        if self.cycle is before and not self.transport.is_closing():
            self._wait_for_request()

    @property
    def _closes_at(self) -> float:
        return 0.0 if self._closing is None else self._closing.when()

    def _wait_for_request(self) -> None:
        self._stop_waiting()
        self._closing = self.loop.call_later(IDLE_S, self._end)

    def _end(self) -> None:
        self._stop_waiting()
        self.connections.discard(self)  # It does not count any more, even before the loop has closed it.
        self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
