"""Whether anything answers at the cluster's address. Ray itself tries for a minute or longer, and prints its own messages meanwhile."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 3.0
#: Where `ray start` notes the address of the cluster that runs on this machine.
_NOTE: Final = "ray/ray_current_cluster"


def known_address(configured: str) -> str:
    """The address behind `[ray] address`; "" if "auto" finds no cluster on this machine."""
    if configured != "auto":
        return configured
    return os.environ.get("RAY_ADDRESS", "") or _noted()


def is_endpoint(address: str) -> bool:
    """Whether it has a host and a port."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    return bool(host) and port.isdecimal()


def silence(address: str) -> str:
    """Why nothing answers at a host and port; "" if something does."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""


def _noted() -> str:
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return Path(folder, _NOTE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        return ""
