"""What `headway doctor` says of the Ray cluster, if a provider uses one: the package, and whether the address answers. Ray is not started."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from headway.cli.doctor_checks import Check, ok
from headway.config import Config
from headway.install_hint import install_command

PATIENCE_S: Final = 3.0
#: Where `ray start` notes the address of the cluster that runs on this machine.
_NOTE: Final = "ray/ray_current_cluster"


def cluster_checks(config: Config) -> Iterator[Check]:
    """The checks, if any provider has `executor = "ray"`."""
    users = [
        one.name for one in config.providers.values() if getattr(one.kind_settings, "executor", "") == "ray"
    ]
    if not users:
        return
    try:
        found = version("ray")
    except PackageNotFoundError:
        text = f"{users[0]} runs on Ray, and the package ray is not installed"
        yield Check("ray", "problem", text, install_command("ray"))
        return
    yield ok("ray", f"version {found}")
    yield _address(config.ray.address)


def _address(configured: str) -> Check:
    if configured == "local":
        return ok("ray cluster", "each run starts one on this machine")
    address = configured
    if configured == "auto":
        address = os.environ.get("RAY_ADDRESS", "") or _noted()
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not (host and port.isdecimal()):
        hint = 'ray start --head, or set [ray] address = "local" or "ray://HOST:10001"'
        return Check(
            "ray cluster", "problem", f"no Ray cluster is known on this machine ({configured})", hint
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
    except OSError as error:
        text = f"{address} does not answer: {(error.strerror or str(error)).lower()}"
        return Check("ray cluster", "problem", text, "start it, or correct [ray] address")
    return ok("ray cluster", f"{address} answers")


def _noted() -> str:
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    try:
        return Path(folder, _NOTE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        return ""
