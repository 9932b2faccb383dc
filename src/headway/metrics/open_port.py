"""The value of `--metrics`, and the port that it opens. It is opened before anything is read: a taken port is an error at once."""

from __future__ import annotations

import socket
from typing import Final

import msgspec

from headway.errors import UsageError

PATH: Final = "/metrics"
LOOPBACK: Final = "127.0.0.1"
#: How many connections are served at a time.
MOST_CONNECTIONS: Final = 16
_LARGEST_PORT: Final = 65_535


class MetricsAddress(msgspec.Struct, frozen=True):
    """Where the metrics of a run are served."""

    host: str
    port: int

    @property
    def shown(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> MetricsAddress:
    """The value of --metrics: PORT on loopback, or HOST:PORT. Port 0 is any free one."""
    host, mark, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > _LARGEST_PORT or (mark and not host.strip("[]")):
        raise UsageError(
            f"--metrics {text}: expected PORT or HOST:PORT", hint="for example 9464, which is 127.0.0.1:9464"
        )
    return MetricsAddress(host.strip("[]") or LOOPBACK, int(port))


class MetricsSocket:
    """An open port that is not served yet: whether a port is free is known before anything is sent."""

    def __init__(self, address: MetricsAddress) -> None:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((address.host, address.port))
            self.socket.listen(MOST_CONNECTIONS)
        except OSError as error:
            self.socket.close()
            raise UsageError(
                f"--metrics {address.shown} cannot be opened: {error.strerror or error}",
                hint="name another port, or 0 for any free one",
            ) from None
        self.address = MetricsAddress(address.host, self.socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address of the metrics."""
        return f"http://{self.address.shown}{PATH}"

    def close(self) -> None:
        """Close the port. Does no harm if it is closed already."""
        self.socket.close()
