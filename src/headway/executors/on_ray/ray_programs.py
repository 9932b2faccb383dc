"""Stands for `run_program`: programs on the nodes of a Ray cluster. Their lines come back while they run."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Final

import msgspec

from headway.errors import ConfigError
from headway.executors.commands.command_adapter import ProgramLost
from headway.executors.commands.output_lines import LineReader
from headway.executors.commands.program import Program, ProgramEnd
from headway.executors.on_ray.host_link import HostLink, HostUnit
from headway.executors.on_ray.hosts import HostSettings, NoHosts, RayHosts
from headway.executors.on_ray.messages import ProgramEnded, ProgramSetup, ProgramTask
from headway.executors.on_ray.ray_pool import host_setup, run_on
from headway.executors.pool_health import STARTS

#: Variables that belong to one run. All others are those of the node.
_OF_THE_RUN: Final = (b"TRACEPARENT",)


class RayPrograms:
    """Runs programs on a cluster. `setup` says which variables they get."""

    def __init__(self, settings: HostSettings, setup: ProgramSetup) -> None:
        self.hosts = RayHosts(
            settings, lambda cluster: host_setup(settings, setup, cluster), setup.cli or "program"
        )

    async def run(
        self, program: Program, reader: LineReader | None, started: Callable[[int], None]
    ) -> ProgramEnd:
        """Run a program; `started` is called with the number of its process. Raises OSError if it cannot be started, and `ProgramLost`."""
        for last in (*(False,) * (STARTS - 1), True):
            try:
                host = await self.hosts.acquire()
            except (NoHosts, ConfigError) as error:
                raise ProgramLost(str(error), not_started=True) from None
            end = await self._on(host, program, reader, started, last=last)
            if end is not None:
                return end
        raise AssertionError("the last try has an end")

    async def _on(
        self,
        host: HostLink,
        program: Program,
        reader: LineReader | None,
        started: Callable[[int], None],
        *,
        last: bool,
    ) -> ProgramEnd | None:
        hosts = self.hosts
        unit = HostUnit(asyncio.get_running_loop(), lambda pid: started(hosts.number_of(host, pid)), reader)
        began_at = time.monotonic()
        try:
            end = await run_on(host, _task(next(hosts.numbers), program, reader), unit)
        finally:
            hosts.release(host)
        if isinstance(end, ProgramEnded) and end.error is not None:
            number, text, name = end.error
            raise OSError(number, text, name) if number else ProgramLost(text)
        if isinstance(end, ProgramEnded) and end.end:
            made = msgspec.convert(end.end, ProgramEnd)
            return msgspec.structs.replace(made, pid=hosts.number_of(host, made.pid))
        if not unit.began and not last:
            return None
        raise ProgramLost(
            f"{host.lost or 'its host is gone'} ({host.ready.address}) after {time.monotonic() - began_at:.1f} s"
        )

    async def close(self) -> None:
        """End everything on the nodes."""
        await self.hosts.close()


def _task(number: int, program: Program, reader: LineReader | None) -> ProgramTask:
    environ = {
        os.fsdecode(name): os.fsdecode(value)
        for name, value in program.environ.items()
        if name in _OF_THE_RUN
    }
    return ProgramTask(
        number, tuple(program.argv), program.stdin, program.directory, environ, program.mark, program.timeout_s,
        program.max_output, reader is not None,
    )  # fmt: skip
