"""The connection to Ray: the only module on this side that imports it, and only when a provider needs it.

One process has one connection, which all users share. One that the program made itself is used as it is, and left open. Ray prints
nothing: neither the output of its workers nor its own messages reach our terminal.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.errors import ConfigError
from headway.executors.on_ray.address import is_endpoint, known_address, silence
from headway.executors.on_ray.left_out import left_out
from headway.executors.on_ray.resources import Resources
from headway.install_hint import install_command
from headway.providers.error_messages import describe_exception

#: A cluster of this process alone.
LOCAL: Final = "local"
#: How Ray behaves for us: no messages, no telemetry.
_VARIABLES: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_SCHEDULER_EVENTS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
#: Characters of Ray's explanation that are shown.
LONGEST: Final = 400
_TOO_LARGE: Final = "exceeds the maximum size"
_NOT_PACKED: Final = "working_dir"


class ClusterSettings(msgspec.Struct, frozen=True):
    """Where the cluster is, and what travels to it: the folder `root`, if `travels`, without `exclude`."""

    address: str = "auto"
    root: str = ""
    travels: bool = True
    exclude: tuple[str, ...] = ()


def missing_package() -> str:
    """The error if Ray is not installed; "" if it is."""
    if find_spec("ray") is not None:
        return ""
    return 'executor = "ray" needs the package ray'


def require_package() -> None:
    """Raise with the command that installs Ray, if it is missing."""
    if text := missing_package():
        raise ConfigError(text, hint=install_command("ray"))


def is_connected() -> bool:
    """Whether this process uses a connection already."""
    return _CONNECTION.users > 0


class Cluster:
    """A connection. Make one with `connect`, and close it."""

    def __init__(self, ray: Any, *, travels: bool) -> None:
        self._ray = ray
        #: Whether the folder travelled. It does not if the program had connected to Ray before.
        self.travels = travels

    @classmethod
    async def connect(cls, settings: ClusterSettings) -> Cluster:
        """Connect, unless this process is connected already. Raises ConfigError."""
        require_package()
        opened = _opened(settings)
        try:
            ray, travels = await asyncio.shield(opened)
        except asyncio.CancelledError:
            opened.add_done_callback(_leave)
            raise
        return cls(ray, travels=travels)

    def actor(self, cls: type, resources: Resources) -> Any:
        """Start an actor. It may wait for resources as long as it likes, and is never restarted."""
        options = resources.options()
        remote = self._ray.remote(
            max_restarts=0, max_task_retries=0, max_concurrency=1000, scheduling_strategy="SPREAD", **options
        )
        return remote(cls).remote()

    def kill(self, actor: Any) -> None:
        """End an actor at once."""
        with suppress(Exception):
            self._ray.kill(actor, no_restart=True)

    async def room(self, resources: Resources) -> tuple[int | None, bool]:
        """How many more fit into what is free now (None: any number), and whether any node could ever take one."""

        def look() -> tuple[int | None, bool]:
            free: Mapping[str, float] = self._ray.available_resources()
            nodes = [node["Resources"] for node in self._ray.nodes() if node.get("Alive")]
            possible = any(resources.fitting(node) != 0 for node in nodes)
            return resources.fitting(free), possible

        return await asyncio.to_thread(look)

    async def close(self) -> None:
        """Leave the cluster, if this was the last user of our own connection."""
        await asyncio.to_thread(_CONNECTION.close)


class _Connection:
    """The connection of this process, and how many use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.users = 0
        self._is_ours = False
        self._travels = False

    def open(self, settings: ClusterSettings) -> tuple[Any, bool]:
        with self._lock:
            with _quiet(), _token_mode(settings.address):
                try:
                    import ray
                except ImportError as error:
                    raise ConfigError(
                        f"the package ray is damaged: {error}", hint=install_command("ray")
                    ) from None
                if not ray.is_initialized():
                    self._init(ray, settings)
            self.users += 1
            return ray, self._travels

    def _init(self, ray: Any, settings: ClusterSettings) -> None:
        options: dict[str, Any] = {
            "address": settings.address,
            "log_to_driver": False,
            "logging_level": logging.CRITICAL,
            "namespace": "headway",
        }
        if settings.address == LOCAL:
            options["include_dashboard"] = False
        self._travels = settings.travels and settings.address != LOCAL
        if self._travels:
            options["runtime_env"] = {
                "working_dir": settings.root,
                "excludes": left_out(settings.root, settings.exclude),
            }
        address = known_address(settings.address)
        if is_endpoint(address) and (why := silence(address)):
            raise _explained(settings, why if address == settings.address else f"{address}: {why}")
        try:
            ray.init(**options)
        except Exception as error:
            text = " ".join(describe_exception(error).split())[:LONGEST]
            raise _explained(settings, text) from None
        self._is_ours = True
        _silence()

    def close(self) -> None:
        with self._lock:
            self.users -= 1
            if self.users or not self._is_ours:
                return
            self._is_ours = False
            import ray

            with _quiet(), suppress(Exception):
                ray.shutdown()


_CONNECTION: Final = _Connection()


def _opened(settings: ClusterSettings) -> asyncio.Future[tuple[Any, bool]]:
    """Connect in a thread for which the end of this process does not wait: Ray may try for minutes."""
    loop = asyncio.get_running_loop()
    opened: asyncio.Future[tuple[Any, bool]] = loop.create_future()

    def run() -> None:
        try:
            connection = _CONNECTION.open(settings)
        except BaseException as error:
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(opened.set_exception, error)
            return
        try:
            loop.call_soon_threadsafe(opened.set_result, connection)
        except RuntimeError:
            _CONNECTION.close()

    threading.Thread(target=run, name="headway-ray-connect", daemon=True).start()
    return opened


def _leave(opened: asyncio.Future[tuple[Any, bool]]) -> None:
    """The one who asked for this connection is gone."""
    if not opened.cancelled() and opened.exception() is None:
        threading.Thread(target=_CONNECTION.close, daemon=True).start()


def _silence() -> None:
    """Ray prints the deaths of workers on our standard output, and has no setting against it. We report them ourselves."""
    with suppress(ImportError, AttributeError):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def _token_mode(address: str) -> Iterator[None]:
    """Ray Client does not look for a token by itself, although the cluster may ask for one. Ray reads this when it is imported."""
    names = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    has_token = any(name in os.environ for name in names) or (Path.home() / ".ray" / "auth_token").exists()
    if not address.startswith("ray://") or "RAY_AUTH_MODE" in os.environ or not has_token:
        yield
        return
    os.environ["RAY_AUTH_MODE"] = "token"
    try:
        yield
    finally:
        del os.environ["RAY_AUTH_MODE"]


@contextmanager
def _quiet() -> Iterator[None]:
    """Settings that Ray reads when it starts. What the user has set wins."""
    added = {name: value for name, value in _VARIABLES.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _explained(settings: ClusterSettings, text: str) -> ConfigError:
    if _TOO_LARGE in text:
        return ConfigError(
            f"{settings.root} is too large to travel to the nodes of Ray: {text}",
            hint="leave folders out with [ray] exclude = […], or set travel = false if the nodes see the same folder",
        )
    if _NOT_PACKED in text or "RuntimeEnv" in text:
        return ConfigError(
            f"{settings.root} cannot travel to the nodes of Ray: {text}",
            hint="leave such files out with [ray] exclude = […], or set travel = false if the nodes see the same folder",
        )
    if settings.address == "auto":
        return ConfigError(
            f"no Ray cluster runs on this machine: {text}",
            hint='start one (ray start --head), name one ([ray] address = "ray://HOST:10001"), or set address = "local"',
        )
    return ConfigError(
        f"the Ray cluster {settings.address} cannot be reached: {text}",
        hint="check the address, and that Ray and Python have the same versions there",
    )
