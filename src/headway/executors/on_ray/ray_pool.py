"""Stands for a `ProcessPool` whose workers are on the nodes of a Ray cluster: the same calls, and the same results.

Each host has a `ProcessPool` of its own. A unit whose host died before it said that the unit began was not run, and goes to another.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec

from headway import __version__
from headway.core.model import Kind, Outcome
from headway.errors import ConfigError
from headway.executors.entry_point import EntryPoint, main_script
from headway.executors.limit_evidence import LimitDetector
from headway.executors.on_ray.cluster import Cluster
from headway.executors.on_ray.host_link import HostLink, HostUnit
from headway.executors.on_ray.hosts import HostSettings, NoHosts, RayHosts
from headway.executors.on_ray.messages import Ended, HostSetup, PoolSetup, PoolTask, ProgramSetup
from headway.executors.pool_health import STARTS, PoolHealth
from headway.executors.work_result import Death, WorkResult, crashed
from headway.executors.worker_protocol import LARGEST
from headway.providers.attempt_log import WorkerWatcher

#: How long the check before a run waits for the first worker, unless the cluster is full, which is no error.
WARM_S: Final = 60.0
LOOK_S: Final = 0.2


class RayPool:
    """A pool on a cluster. `settings` say where, `entry` what runs; the other arguments are those of `ProcessPool`."""

    def __init__(
        self,
        settings: HostSettings,
        entry: EntryPoint,
        *,
        recycle_after: int = 0,
        memory_ceiling: int = 0,
        memory_limit: int = 0,
        detector: LimitDetector | None = None,
        env: tuple[str, ...] | None = None,
        max_value: int = LARGEST,
    ) -> None:
        detector = detector or LimitDetector()
        self._work = PoolSetup(
            entry.name,
            entry.arguments,
            list(sys.path),
            list(sys.argv),
            main_script() if entry.main else None,
            entry.main,
            recycle_after,
            memory_ceiling,
            memory_limit,
            detector.exit_codes,
            detector.logs,
            os.path.abspath(detector.root),
            detector.backs_off,
            env,
            max_value,
        )
        self.hosts = RayHosts(settings, lambda cluster: host_setup(settings, self._work, cluster), "python")
        self._health = PoolHealth(settings.size)

    @property
    def proven(self) -> bool:
        """Whether a worker was ever ready."""
        return self.hosts.proven

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes of the workers."""
        return self.hosts.pids

    def watch(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process and its end."""
        self.hosts.watch(watcher)

    async def warm(self) -> str:
        """Start a worker for the first unit. Returns why none can be started, or "". Raises ConfigError if there is no cluster."""
        first = asyncio.ensure_future(self.hosts.acquire())
        try:
            give_up_at = time.monotonic() + WARM_S
            while not first.done() and time.monotonic() < give_up_at and not self.hosts.waits_for:
                await asyncio.wait((first,), timeout=LOOK_S)
            if first.done():
                self.hosts.release(first.result())
        except NoHosts as error:
            return str(error)
        finally:
            first.cancel()
        return ""

    async def run(
        self,
        payload: bytes,
        timeout_s: float,
        *,
        fresh: bool = False,
        began: Callable[[int], None] | None = None,
    ) -> WorkResult:
        """Run one unit. Whatever happens to it is a `WorkResult`; a cancellation ends it on its node."""
        if len(payload) > LARGEST:
            return WorkResult("error", outcome=Outcome(Kind.TOO_LARGE, message="larger than 4 GB"))
        for last in (*(False,) * (STARTS - 1), True):
            try:
                host = await self.hosts.acquire()
            except (NoHosts, ConfigError) as error:
                return WorkResult("error", outcome=Outcome(Kind.AUTH, message=str(error), not_started=True))
            task = PoolTask(next(self.hosts.numbers), payload, timeout_s, fresh)
            result = await self._on(host, task, began, last=last)
            if result is not None:
                break
        assert result is not None
        if result.outcome.kind is Kind.CRASH:
            self.hosts.broken = self.hosts.broken or self._health.worker_died(result.outcome.message)
        else:
            self._health.unit_ended()
        return result

    async def _on(
        self, host: HostLink, task: PoolTask, began: Callable[[int], None] | None, *, last: bool
    ) -> WorkResult | None:
        """Run a unit on this host; None if the host died before the unit began, unless this is the `last` try."""
        hosts = self.hosts
        told = None if began is None else lambda pid: began(hosts.number_of(host, pid))
        unit = HostUnit(asyncio.get_running_loop(), told)
        began_utc, began_at = time.time(), time.monotonic()
        try:
            end = await run_on(host, task, unit)
        finally:
            hosts.release(host)
        if isinstance(end, Ended) and end.result is not None:
            hosts.took(end.result.took_s)
            return msgspec.structs.replace(end.result, pid=hosts.number_of(host, end.result.pid))
        if not unit.began and not last:
            return None
        return lost(host, began_utc, time.monotonic() - began_at)

    async def close(self) -> None:
        """End every worker."""
        await self.hosts.close()


async def run_on(host: HostLink, task: object, unit: HostUnit) -> object:
    """Send a unit to a host, and wait for its end; None: the host is gone. A cancellation ends it there first."""
    if host.lost:
        return None
    host.submit(task, unit)  # type: ignore[arg-type]
    try:
        return await asyncio.shield(unit.end)
    except asyncio.CancelledError:
        await host.cancel(task.number)  # type: ignore[attr-defined]
        raise


def lost(host: HostLink, began_utc: float, took_s: float) -> WorkResult:
    """The result of a unit whose host is gone."""
    death = Death(None, f"{host.lost or 'its host is gone'} ({host.ready.address})")
    outcome = crashed(death, took_s, 0, b"")
    return WorkResult("crash", outcome=outcome, death=death, began_utc=began_utc, took_s=took_s)


def host_setup(settings: HostSettings, work: PoolSetup | ProgramSetup, cluster: Cluster) -> HostSetup:
    """The first message to every host."""
    root = settings.cluster.root
    return HostSetup(__version__, work, settings.units, root, cluster.travels, settings.environ, sys.prefix)
