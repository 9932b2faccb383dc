"""A server on loopback whose connections take as long to open as a remote one's: TLS, begun after a delay, in front of a plain server.

It runs in a thread of its own and forwards bytes. The certificate is made by openssl, for 127.0.0.1 alone; a client trusts it with
SSL_CERT_FILE.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import uvloop

#: A whole burst is accepted at once.
BACKLOG: Final = 4096
CHUNK: Final = 65_536


class SlowServer(msgspec.Struct):
    """Where it listens, the certificate to trust, and how many connections were opened."""

    url: str
    certificate: Path
    opened: int = 0


def has_openssl() -> bool:
    """Whether a certificate can be made."""
    return shutil.which("openssl") is not None


def make_certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1, with its key in the same file."""
    path = folder / "loopback.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", folder / "only.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + (folder / "only.pem").read_bytes())
    return path


@contextmanager
def slow_tls(port: int, delay_s: float, folder: Path) -> Iterator[SlowServer]:
    """TLS in front of a server on loopback. A handshake begins `delay_s` after the connection was accepted."""
    certificate = make_certificate(folder)
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    server = SlowServer(f"https://127.0.0.1:{listener.getsockname()[1]}", certificate)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(_serve(listener, port, delay_s, server),))
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(_stop, loop)
        thread.join()
        loop.close()
        listener.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


async def _serve(listener: socket.socket, port: int, delay_s: float, server: SlowServer) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.certificate)
    loop = asyncio.get_running_loop()
    with suppress(asyncio.CancelledError):
        async with asyncio.TaskGroup() as connections:
            while True:
                accepted, _ = await loop.sock_accept(listener)
                server.opened += 1
                connections.create_task(_forward(accepted, port, delay_s, context))


async def _forward(accepted: socket.socket, port: int, delay_s: float, context: ssl.SSLContext) -> None:
    # The way behind it is open before the handshake, so that a request is forwarded as soon as it is here.
    behind, to_behind = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.sleep(delay_s)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        with suppress(OSError, ssl.SSLError):
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=context)
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            try:
                await asyncio.gather(_pump(reader, to_behind), _pump(behind, writer))
            finally:
                transport.abort()
    finally:
        to_behind.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
    finally:
        target.close()
