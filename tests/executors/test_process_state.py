"""A unit that changes its process so that the next unit would be harmed costs its worker, and nothing else."""

from __future__ import annotations

import json
import pickle
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.executors.conftest import Pool, gone_within

from headway.executors.entry_point import EntryPoint
from headway.executors.process_pool import ProcessPool


def made(entry: str = "serve") -> Pool:
    return Pool(ProcessPool(EntryPoint(f"fork_functions:{entry}", pickle.dumps(())), 1))


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = made()
    yield pool
    await pool.pool.close()


HARMFUL = [
    "address space",
    "CPU time",
    "data",
    "file size",
    "open files",
    "processes",
    "hard limit",
    "alarm",
    "timer",
    "directory",
    "ignored children",
    "closed stdout",
    "no stderr",
]
HARMLESS = ["nothing", "cancelled alarm", "more core", "captured stdout", "handler", "open files are kept"]


@pytest.mark.parametrize("what", HARMFUL)
async def test_a_spoiled_worker_is_replaced(pool: Pool, what: str) -> None:
    result = await pool.do("change", change=what)
    assert result.end == "value", "the unit itself succeeded"
    # Longer than the timer that one of the changes sets.
    after = await pool.do("wait", seconds=0.5 if what == "timer" else 0.0)
    assert after.end == "value", after.outcome.message
    assert after.value != result.value


@pytest.mark.parametrize("what", HARMLESS)
async def test_a_worker_is_kept_after_a_harmless_change(pool: Pool, what: str) -> None:
    result = await pool.do("change", change=what)
    assert (await pool.do("change", change="nothing")).value == result.value


async def test_limits_set_while_a_worker_starts_do_not_spoil_it() -> None:
    pool = made("serve_with_fewer_files")
    pids = {(await pool.do("wait", seconds=0.0)).value for _ in range(3)}
    await pool.pool.close()
    assert len(pids) == 1


async def test_processes_started_by_a_spoiled_worker_end_with_it(pool: Pool, tmp_path: Path) -> None:
    """The worker cannot open files any more, so it cannot find them itself."""
    result = await pool.do("stray_and_lower", file=str(tmp_path / "pid"))
    assert result.end == "value"
    await pool.pool.close()
    assert gone_within(json.loads((tmp_path / "pid").read_text()), 2.0)
