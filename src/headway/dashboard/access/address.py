"""The address that the dashboard listens on, and which `Host` headers it accepts.

A page of another site can make a browser send requests here under a name of its own that resolves to this machine (DNS rebinding). Such a
request has that name as its host, so only names that always mean this machine are accepted. The port does not matter: `ssh -L` changes it.
"""

from __future__ import annotations

import socket
from ipaddress import IPv6Address, ip_address
from typing import Final

import msgspec

from headway.errors import UsageError

LOCAL_NAME: Final = "localhost"
#: The host of a public bind that names none: every interface.
ANY_HOST: Final = "0.0.0.0"  # a public bind needs a flag of its own
LOOPBACK: Final = "127.0.0.1"


class BindAddress(msgspec.Struct, frozen=True):
    """Where the dashboard listens. `is_public`: other machines can reach it."""

    host: str
    port: int
    is_public: bool = False

    @property
    def url(self) -> str:
        """The address for a browser on this machine, or on another if a host was named."""
        host = LOOPBACK if self.host in (ANY_HOST, "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def accepts(self, header: str) -> bool:
        """Whether a request with this `Host` header is meant for the dashboard."""
        name = host_name(header)
        if name is None:
            return False
        if name in (LOCAL_NAME, self.host.lower()) or _is_loopback(name):
            return True
        # A numeric address is never resolved, so DNS cannot redirect it.
        return self.is_public and (_is_address(name) or name in _own_names())


def bind_address(host: str | None, port: int, *, public: bool) -> BindAddress:
    """The address that flags name. Raises UsageError if it is public and the flags do not say so."""
    if host is None:
        host = ANY_HOST if public else LOOPBACK
    name = host.strip("[]").lower()
    is_public = not (name == LOCAL_NAME or _is_loopback(name))
    if is_public and not public:
        raise UsageError(
            f"--host {host}: other machines could reach the dashboard",
            hint="add --public if they should: whoever has its URL sees prompts and answers and can steer jobs",
        )
    return BindAddress(name, port, is_public)


def host_name(header: str) -> str | None:
    """The name or address of a `Host` header, without its port; None if it is not one."""
    text = header.strip().lower()
    if text.startswith("["):
        address, bracket, port = text[1:].partition("]")
        is_one = bool(bracket) and (not port or (port[0] == ":" and port[1:].isdecimal()))
        return address if is_one and ":" in address and _is_address(address) else None
    name, colon, port = text.partition(":")
    if not name or (colon and not port.isdecimal()):
        return None
    return name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _own_names() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0]}
