"""Which host runs which unit, and how many hosts there are.

A host is an actor with the resources of its units. Hosts are asked for when units wait: as many as the cluster has room for, and
`ask_ahead` beyond that, so that Ray's autoscaler learns of the demand and a node that joins is used at once. One that has nothing to do
for a while gives its resources back.

Ray only places them. Which unit starts when is decided by the scheduler, which knows from `places` how many can run.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final

import msgspec

from headway.executors.on_ray.cluster import Cluster, ClusterSettings
from headway.executors.on_ray.host_link import HostLink, death_text
from headway.executors.on_ray.messages import HostSetup, Process
from headway.executors.on_ray.resources import Resources
from headway.executors.on_ray.unit_host import UnitHost
from headway.providers.attempt_log import WorkerWatcher

#: A host that has not started after this time waits for resources.
STARTS_IN_S: Final = 5.0
#: How often the cluster's free resources are read.
LOOK_S: Final = 1.0
#: How long a host may be idle before its resources are given back.
IDLE_S: Final = 30.0
#: Hosts that fail in a row before they are ready: then none will.
FAILURES: Final = 3
#: Units of less than this time are sent to a host ahead, so that it does not wait for the next one.
SHORT_S: Final = 0.05
#: How many of such units a host has at once, for each that it can run.
AHEAD: Final = 16
#: How many of its units say how long they take.
SAMPLE: Final = 5
#: The numbers of processes on a node are below this one.
_MOST_PIDS: Final = 1 << 22


class NoHosts(Exception):
    """No host can be started."""


class HostSettings(msgspec.Struct, frozen=True):
    """`size` is the most units at once, `units` how many a host runs, `ask_ahead` how many further hosts a full cluster is asked for."""

    cluster: ClusterSettings
    resources: Resources = Resources()
    size: int = 1_000
    units: int = 1
    ask_ahead: int = 1
    #: Variables that go to the nodes.
    environ: dict[str, str] = {}


class RayHosts:
    """The hosts of one provider. `setup` makes their first message once the connection is known. Use it on one loop, and close it."""

    def __init__(self, settings: HostSettings, setup: Callable[[Cluster], HostSetup], name: str) -> None:
        self.settings = settings
        self._make_setup, self._name = setup, name
        self._cluster: Cluster | None = None
        self._connecting: asyncio.Task[Cluster] | None = None
        self._setup: HostSetup | None = None
        self._hosts: list[HostLink] = []
        self._creating: dict[asyncio.Task[None], float] = {}
        self._waiting: deque[asyncio.Future[HostLink]] = deque()
        self._ticker: asyncio.Task[None] | None = None
        self._resources = settings.resources.times(settings.units)
        #: How many more hosts there is room for, as it was read last; None: any number.
        self._room: int | None = 1
        self._possible = True
        self._failures = 0
        self.broken = ""
        self.proven = False
        self._closing = False
        self._mean_s: float | None = None
        self._samples = 0
        self.watcher: WorkerWatcher | None = None
        #: Numbers of living processes by host and by their number there; the numbers of nodes.
        self._pids: dict[HostLink, dict[int, int]] = {}
        self._nodes: dict[str, int] = {}
        self.numbers = count(1)

    # -- the cluster ------------------------------------------------------------------------------------------------

    async def connect(self) -> Cluster:
        """The connection, made by the first caller. Raises ConfigError."""
        if self._cluster is not None:
            return self._cluster
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> Cluster:
        cluster = await Cluster.connect(self.settings.cluster)
        self._cluster, self._setup = cluster, self._make_setup(cluster)
        await self._look()
        self._ticker = asyncio.ensure_future(self._tick())
        return cluster

    @property
    def places(self) -> int:
        """How many units can run, or could soon; at least 1, so that the cluster is asked."""
        if self._cluster is None:
            return 1
        ready = len(self._hosts)
        room = self.settings.size if self._room is None else self._room
        hosts = ready + max(room, len(self._creating), self.settings.ask_ahead)
        return max(1, min(self.settings.size, hosts * self.settings.units) * self._depth)

    @property
    def waits_for(self) -> str:
        """What units wait for, if the cluster has no room for them; "" otherwise."""
        waiting = any(not wait.done() for wait in self._waiting)
        if not waiting or self._cluster is None or self._room != 0 or self.broken:
            return ""
        now = asyncio.get_running_loop().time()
        if not any(now - asked_at > STARTS_IN_S for asked_at in self._creating.values()):
            return ""  # It is about to start.
        if not self._possible:
            return f"no node of the Ray cluster has what one of its units takes ({self._resources}): it waits for one that has"
        running = sum(host.taken for host in self._hosts)
        return f"the Ray cluster has no free resources for more ({self._resources} each): {running:,} in flight, others wait"

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs there."""
        return not any(host.taken for host in self._hosts)

    @property
    def _depth(self) -> int:
        """How many units a host has for each that it can run."""
        short = self._samples >= SAMPLE and self._mean_s is not None and self._mean_s < SHORT_S
        return AHEAD if short else 1

    def took(self, seconds: float) -> None:
        """A unit ran for so long."""
        self._samples += 1
        self._mean_s = seconds if self._mean_s is None else 0.8 * self._mean_s + 0.2 * seconds

    # -- hosts for units --------------------------------------------------------------------------------------------

    async def acquire(self) -> HostLink:
        """A host that can take a unit. Waits while there is none; raises `NoHosts` or ConfigError."""
        await self.connect()
        if self.broken:
            raise NoHosts(self.broken)
        if (host := self._best()) is None:
            wait: asyncio.Future[HostLink] = asyncio.get_running_loop().create_future()
            self._waiting.append(wait)
            self._ask()
            try:
                return await wait
            except asyncio.CancelledError:
                if wait.done() and not wait.cancelled() and wait.exception() is None:
                    self.release(wait.result())
                raise
        host.taken += 1
        return host

    def _best(self) -> HostLink | None:
        """The host with most room; of several the one that was used last, so that others become idle."""
        most = self._depth * self.settings.units
        usable = [host for host in self._hosts if host.taken < most]
        return min(usable, key=lambda host: (host.taken, -host.used_at)) if usable else None

    def release(self, host: HostLink) -> None:
        """A unit of this host has ended."""
        host.taken -= 1
        host.used_at = asyncio.get_running_loop().time()
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
                continue
            host = self._best()
            if host is None:
                return
            host.taken += 1
            self._waiting.popleft().set_result(host)

    # -- more and fewer of them -------------------------------------------------------------------------------------

    @property
    def _wanted(self) -> int:
        """Hosts for all units that are here. Those that were sent ahead to a host would run at once on another."""
        waiting = sum(not wait.done() for wait in self._waiting)
        return -(-(waiting + sum(host.taken for host in self._hosts)) // self.settings.units)

    def _ask(self) -> None:
        """Ask Ray for hosts, as many as are needed and there is room for, and `ask_ahead` more."""
        if self._cluster is None or self._closing or self.broken:
            return
        needed = self._wanted - len(self._hosts)
        most = -(-self.settings.size // self.settings.units) - len(self._hosts)
        room = most if self._room is None else max(self._room, self.settings.ask_ahead)
        for _ in range(min(needed, most, room) - len(self._creating)):
            task = asyncio.ensure_future(self._create(self._cluster))
            self._creating[task] = asyncio.get_running_loop().time()
            task.add_done_callback(self._created)

    async def _create(self, cluster: Cluster) -> None:
        assert self._setup is not None
        actor = cluster.actor(UnitHost, self._resources)
        link = HostLink(actor, self._gone, self._process, self._hosts)
        try:
            ready = await link.set_up(self._setup)
        except asyncio.CancelledError:
            cluster.kill(actor)
            raise
        except Exception as error:
            cluster.kill(actor)
            self._failed(_why_not_started(error))
            return
        if ready.why:
            cluster.kill(actor)
            self._failed(_why_not_ready(ready.why, ready.address, is_setup=ready.is_setup), ours=True)
            return
        self._failures, self.proven = 0, True
        link.begin()
        self._hosts.append(link)
        self._hand_out()

    def _created(self, task: asyncio.Task[None]) -> None:
        del self._creating[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(f"the hosts of Ray cannot start: {error}")
        elif not task.cancelled():
            self._ask()

    def _failed(self, why: str, *, ours: bool = False) -> None:
        """A host could not start. One that says why itself would say it again."""
        self._failures += 1
        if (ours and not self.proven) or self._failures >= FAILURES:
            self._break(why)

    def _break(self, why: str) -> None:
        self.broken = self.broken or why
        while self._waiting:
            wait = self._waiting.popleft()
            if not wait.done():
                wait.set_exception(NoHosts(self.broken))

    def _gone(self, host: HostLink) -> None:
        """A host has died, or is silent."""
        if host in self._hosts:
            self._hosts.remove(host)
        for number in self._pids.pop(host, {}).values():
            if self.watcher is not None:
                self.watcher.ended(number, failed=True)
        if self._cluster is not None and not self._closing:
            # Ray itself may wait for its answer when the node is gone.
            asyncio.get_running_loop().run_in_executor(None, self._cluster.kill, host.actor)
        self._ask()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with suppress(Exception):  # Ray is busy, or away: the hosts say more.
                await self._look()
            now = asyncio.get_running_loop().time()
            if not any(not wait.done() for wait in self._waiting):
                idle = [one for one in self._hosts if not one.taken and now - one.used_at > IDLE_S]
                for host in idle:
                    self._hosts.remove(host)
                await asyncio.gather(*map(self._retire, idle))
                if self._wanted <= len(self._hosts):
                    for task in list(self._creating):
                        task.cancel()
            self._ask()

    async def _look(self) -> None:
        assert self._cluster is not None
        self._room, self._possible = await self._cluster.room(self._resources)

    async def _retire(self, host: HostLink) -> None:
        await host.close()
        for number in self._pids.pop(host, {}).values():
            if self.watcher is not None:
                self.watcher.ended(number, failed=False)
        if self._cluster is not None:
            await asyncio.to_thread(self._cluster.kill, host.actor)

    # -- processes --------------------------------------------------------------------------------------------------

    def watch(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process on the nodes."""
        self.watcher = watcher
        for host, pids in self._pids.items():
            for number in pids.values():
                watcher.started(number, self._process_name(host, ""))

    def number_of(self, host: HostLink, pid: int) -> int:
        """The number of a process in the records: its own on the first node. Those of other nodes have the node's number above it."""
        known = self._pids.get(host, {}).get(pid)
        return self._number(host, pid) if known is None else known

    def _number(self, host: HostLink, pid: int) -> int:
        node = self._nodes.setdefault(host.ready.node, len(self._nodes))
        return node * _MOST_PIDS + pid

    def _process_name(self, host: HostLink, name: str) -> str:
        return f"{name or self._name} on {host.ready.address}"

    def _process(self, host: HostLink, event: Process) -> None:
        pids = self._pids.setdefault(host, {})
        if not event.ended:
            number = pids[event.pid] = self._number(host, event.pid)
            if self.watcher is not None:
                self.watcher.started(number, self._process_name(host, event.name))
        elif (number := pids.pop(event.pid, 0)) and self.watcher is not None:
            self.watcher.ended(number, failed=event.failed)

    # -- the end ----------------------------------------------------------------------------------------------------

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes on all nodes."""
        return [number for pids in self._pids.values() for number in pids.values()]

    async def close(self) -> None:
        """End everything on the nodes, and leave the cluster."""
        self._closing = True
        self._break("the pool is closed")
        for task in [*self._creating, *([self._ticker] if self._ticker is not None else [])]:
            task.cancel()
        if self._connecting is not None and self._cluster is None:
            self._connecting.cancel()
        if self._creating:
            await asyncio.wait(list(self._creating))
        hosts = self._hosts[:]
        self._hosts.clear()
        await asyncio.gather(*(self._retire(host) for host in hosts))
        if self._cluster is not None:
            cluster, self._cluster = self._cluster, None
            await cluster.close()


def _why_not_started(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "No module named 'headway" in text or "No module named 'msgspec'" in text:
        from headway import __version__

        return (
            f"a node of the Ray cluster has no Headway: run pip install 'headway[ray]=={__version__}' there"
        )
    if "runtime_env" in text or "RuntimeEnv" in type(error).__name__:
        return f"Ray cannot bring the files to a node: {text[:400]}"
    return f"Ray cannot start a host: {death_text(error)}"


def _why_not_ready(why: str, address: str, *, is_setup: bool) -> str:
    if not is_setup:
        return why
    from headway import __version__

    return (
        f"the node {address} has another version ({why}): run pip install 'headway[ray]=={__version__}' there"
    )
