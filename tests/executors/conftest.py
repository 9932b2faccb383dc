"""Pools of real processes, and a check that a process is gone."""

from __future__ import annotations

import os
import pickle
import select
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.executors.entry_point import EntryPoint
from headway.executors.process_pool import ProcessPool
from headway.executors.work_result import WorkResult

HERE = Path(__file__).parent
#: Longer than anything takes here: a test that waits this long has failed.
LONG_S = 60.0


@pytest.fixture(autouse=True)
def _functions_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def gone_within(pid: int, seconds: float) -> bool:
    """Whether a process has ended, or ends within that time."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(seconds * 1000.0))
    finally:
        os.close(descriptor)


class Pool:
    """A pool whose units call `unit_functions`."""

    def __init__(self, pool: ProcessPool) -> None:
        self.pool = pool

    async def do(
        self, what: str, timeout_s: float = LONG_S, *, fresh: bool = False, **given: Any
    ) -> WorkResult:
        return await self.pool.run(msgspec.json.encode({"do": what, **given}), timeout_s, fresh=fresh)


Make = Callable[..., Pool]


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes pools, and closes them at the end of the test."""
    made: list[ProcessPool] = []

    def make(entry: str = "serve", size: int = 1, **choices: Any) -> Pool:
        pool = ProcessPool(EntryPoint(f"unit_functions:{entry}", pickle.dumps(())), size, **choices)
        made.append(pool)
        return Pool(pool)

    yield make
    for pool in made:
        pids = pool.pids
        await pool.close()
        assert all(gone_within(pid, 2.0) for pid in pids)
