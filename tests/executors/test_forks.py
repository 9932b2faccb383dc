"""Units that fork or write into Headway's pipe: every reply belongs to its unit, and the pool goes on."""

from __future__ import annotations

import json
import pickle
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.executors.conftest import Pool

from headway.core.model import Kind, Usage
from headway.executors.entry_point import EntryPoint
from headway.executors.process_pool import ProcessPool


async def pool_of(entry: str) -> AsyncIterator[Pool]:
    pool = ProcessPool(EntryPoint(f"fork_functions:{entry}", pickle.dumps(())), 1)
    yield Pool(pool)
    await pool.close()


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async for made in pool_of("serve"):
        yield made


async def value(pool: Pool, what: str, **given: Any) -> Any:
    result = await pool.do(what, **given)
    assert result.end == "value", result.outcome.message
    return json.loads(result.value)


async def test_a_forked_child_that_returns_sends_no_reply(pool: Pool) -> None:
    pids = set()
    for n in range(0, 40, 2):
        got, first = await value(pool, "return_twice", n=n)
        assert got == n
        got, second = await value(pool, "pid", n=n + 1)
        assert got == n + 1
        pids |= {first, second}
    assert pids == set(pool.pool.pids), "nothing happened to the worker"


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("raise", 1), ("in C", 0)])
async def test_a_forked_child_that_returns_first_exits_like_a_script(pool: Pool, how: str, code: int) -> None:
    for n in range(3):
        result = await pool.do("child_first", n=n, how=how)
        assert (result.end, json.loads(result.value)) == ("value", [n, code])
        assert (b"ValueError: in the child" in result.stderr) == (how == "raise")
        assert (await value(pool, "pid", n=-n))[0] == -n


async def test_a_failed_exec_in_a_child_does_not_affect_the_unit(pool: Pool) -> None:
    for n in range(3):
        assert await value(pool, "missing_program", n=n) == [n, 1, True]


async def test_a_daemon_that_returns_exits(pool: Pool) -> None:
    for n in range(3):
        (pid,) = {(await value(pool, "daemon", n=n))[1], (await value(pool, "pid"))[1]}
        assert pid in pool.pool.pids


async def test_a_child_runs_no_exit_handlers_and_prints_no_buffer_of_its_parent(
    pool: Pool, tmp_path: Path
) -> None:
    result = await pool.do("unfinished_line", path=str(tmp_path / "exits"))
    assert result.stdout == b"half a line"
    assert not (tmp_path / "exits").exists()
    await pool.pool.close()
    assert (tmp_path / "exits").read_text() == "x"


async def test_usage_of_a_child_does_not_count_for_its_parent(pool: Pool) -> None:
    result = await pool.do("child_first", n=1, how="usage")
    assert (result.end, result.outcome.usage) == ("crash", None)


async def test_multiprocessing_works_within_a_unit(pool: Pool) -> None:
    assert [await value(pool, "multiprocessing", n=n) for n in range(3)] == [0, 1, 4]
    assert len(pool.pool.pids) == 1


async def test_a_child_forked_during_setup_exits() -> None:
    async for pool in pool_of("forks_at_start"):
        assert [(await value(pool, "pid", n=n))[0] for n in range(5)] == [0, 1, 2, 3, 4]


async def test_programs_started_by_a_unit_inherit_none_of_our_descriptors(pool: Pool) -> None:
    found = await value(pool, "inherited")
    assert str(stat.S_IFSOCK) not in found
    assert str(stat.S_IFREG) not in found


# -- the pipe -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 32, 4096, 150_000])
async def test_bytes_in_the_pipe_fail_only_the_unit_that_wrote_them(pool: Pool, size: int) -> None:
    first = (await value(pool, "pid"))[1]
    result = await pool.do("junk", size=size)
    assert (result.end, result.outcome.kind) == ("crash", Kind.CRASH)
    assert "it replied to a message that it was not sent" in result.outcome.message
    n, second = await value(pool, "pid", n=7)
    assert (n, second == first) == (7, False)


async def test_a_truncated_page_does_not_harm_the_owner(pool: Pool) -> None:
    result = await pool.do("truncate")
    assert result.end == "crash"
    assert (await value(pool, "pid", n=7))[0] == 7


async def test_no_reply_is_written_into_a_file_of_the_unit(pool: Pool, tmp_path: Path) -> None:
    result = await pool.do("replace_pipe", path=str(tmp_path / "own"))
    assert result.end == "crash"
    assert (tmp_path / "own").read_bytes() == b""
    assert (await value(pool, "pid", n=7))[0] == 7


async def test_a_child_keeps_a_file_at_the_pipes_descriptor(pool: Pool, tmp_path: Path) -> None:
    assert await value(pool, "replace_pipe_and_fork", path=str(tmp_path / "own")) == "put back"
    assert (tmp_path / "own").read_bytes() == b"from the child"


# -- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [0.0, 7.0])
async def test_a_thread_of_an_earlier_unit_adds_no_usage_to_the_next(pool: Pool, tokens: float) -> None:
    await pool.do("leave_thread")
    result = await pool.do("die_after_thread", tokens=tokens)
    assert (result.end, result.outcome.usage) == ("crash", Usage(tokens, 0.0) if tokens else None)
