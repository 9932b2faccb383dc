"""A unit that leaves its process in a state that would harm the next unit spoils its worker, and nothing else."""

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
    return Pool(ProcessPool(EntryPoint(f"fork_deeds:{entry}", pickle.dumps(())), 1))


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
async def test_a_worker_that_a_unit_spoiled_is_replaced(pool: Pool, what: str) -> None:
    result = await pool.do("change", change=what)
    assert result.end == "value", "the unit itself succeeded"
    # Longer than the timer that one of them leaves behind.
    after = await pool.do("wait", seconds=0.5 if what == "timer" else 0.0)
    assert after.end == "value", after.outcome.message
    assert after.value != result.value


@pytest.mark.parametrize("what", HARMLESS)
async def test_a_worker_is_kept_after_a_change_that_harms_nobody(pool: Pool, what: str) -> None:
    result = await pool.do("change", change=what)
    assert (await pool.do("change", change="nothing")).value == result.value


async def test_limits_that_are_set_while_a_worker_starts_are_its_own() -> None:
    pool = made("serve_with_fewer_files")
    pids = {(await pool.do("wait", seconds=0.0)).value for _ in range(3)}
    await pool.pool.close()
    assert len(pids) == 1


async def test_processes_that_a_spoiled_worker_started_go_with_it(pool: Pool, tmp_path: Path) -> None:
    """It may open no files any more, so that it finds none of them itself."""
    result = await pool.do("stray_and_lower", file=str(tmp_path / "pid"))
    assert result.end == "value"
    await pool.pool.close()
    assert gone_within(json.loads((tmp_path / "pid").read_text()), 2.0)
