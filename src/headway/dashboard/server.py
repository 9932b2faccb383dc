"""Runs the dashboard: binds its port, says where it is, and ends with the first Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn

from headway.dashboard.access.address import BindAddress
from headway.dashboard.access.bounded_connection import IDLE_S, MOST_CONNECTIONS, BoundedConnection
from headway.dashboard.application import Dashboard
from headway.errors import UsageError
from headway.runtime.loops import new_loop
from headway.runtime.signals import stop_signals

#: Connections that wait to be accepted.
_BACKLOG: Final = 128
#: How long streams have to end when the server does.
_END_S: Final = 0.5


class _PlainServer(uvicorn.Server):
    """uvicorn without its signal handlers: ours end the server at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        #: Whether requests are answered.
        self.is_ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_ready.set()


def listening_socket(address: BindAddress) -> socket.socket:
    """The socket of an address. Raises UsageError, with what to do, if it cannot be had."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address.host, address.port))
        server.listen(_BACKLOG)
    except OSError as error:
        server.close()
        raise _bind_error(address, error) from error
    server.set_inheritable(False)
    return server


def _bind_error(address: BindAddress, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            f"port {address.port} is in use, perhaps by another 'headway ui'",
            hint=f"--port {address.port + 1 if address.port < 65_535 else 8484} uses another, --port 0 any free one",
        )
    if error.errno == errno.EACCES:
        return UsageError(f"port {address.port} needs more rights", hint="use one from 1024 on: --port 8484")
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"cannot listen on {address.host}: {reason}", hint="--host names an address of this machine"
    )


def serve(dashboard: Dashboard, listener: socket.socket, announce: Callable[[], Callable[[], None]]) -> None:
    """Serve until a signal comes. `announce` is called when requests are answered; what it returns is called at the end."""
    loop = new_loop()
    try:
        loop.run_until_complete(_serve(dashboard, listener, announce))
    finally:
        loop.close()


async def _serve(
    dashboard: Dashboard, listener: socket.socket, announce: Callable[[], Callable[[], None]]
) -> None:
    config = uvicorn.Config(
        dashboard.application,
        log_config=None,
        log_level="critical",  # It warns of every request that is none; errors of the dashboard are reported by itself.
        access_log=False,
        lifespan="off",
        ws="none",
        http=BoundedConnection,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=1,
    )
    server = _PlainServer(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    serving = asyncio.create_task(server.serve([listener]))
    ready, stopping = asyncio.create_task(server.is_ready.wait()), asyncio.create_task(stop.wait())
    tidy: Callable[[], None] | None = None
    try:
        await asyncio.wait({serving, ready, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            tidy = announce()
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if tidy is not None:
            tidy()
        dashboard.close()
        server.should_exit = server.force_exit = True
        await asyncio.wait({serving}, timeout=_END_S)
        for task in (serving, ready, stopping):
            task.cancel()


def port_of(listener: socket.socket) -> int:
    """The port that was bound, also where any was asked for."""
    port: int = listener.getsockname()[1]
    return port
