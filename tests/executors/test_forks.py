"""Units that fork, and units that write into Headway's pipe: every answer belongs to its unit, and the pool goes on."""

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
    pool = ProcessPool(EntryPoint(f"fork_deeds:{entry}", pickle.dumps(())), 1)
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


async def test_a_child_that_comes_back_answers_for_nobody(pool: Pool) -> None:
    pids = set()
    for n in range(0, 40, 2):
        got, first = await value(pool, "return_twice", n=n)
        assert got == n
        got, second = await value(pool, "pid", n=n + 1)
        assert got == n + 1
        pids |= {first, second}
    assert pids == set(pool.pool.pids), "nothing happened to the worker"


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("raise", 1), ("in C", 0)])
async def test_a_child_that_comes_back_first_ends_as_a_script_would(pool: Pool, how: str, code: int) -> None:
    for n in range(3):
        result = await pool.do("child_first", n=n, how=how)
        assert (result.end, json.loads(result.value)) == ("value", [n, code])
        assert (b"ValueError: in the child" in result.stderr) == (how == "raise")
        assert (await value(pool, "pid", n=-n))[0] == -n


async def test_a_program_that_is_missing_is_the_childs_trouble(pool: Pool) -> None:
    for n in range(3):
        assert await value(pool, "missing_program", n=n) == [n, 1, True]


async def test_a_daemon_that_comes_back_ends(pool: Pool) -> None:
    for n in range(3):
        (pid,) = {(await value(pool, "daemon", n=n))[1], (await value(pool, "pid"))[1]}
        assert pid in pool.pool.pids


async def test_a_child_neither_prints_what_its_parent_has_to_say_nor_does_what_it_does_at_exit(
    pool: Pool, tmp_path: Path
) -> None:
    result = await pool.do("unfinished_line", path=str(tmp_path / "exits"))
    assert result.stdout == b"half a line"
    assert not (tmp_path / "exits").exists()
    await pool.pool.close()
    assert (tmp_path / "exits").read_text() == "x"


async def test_usage_of_a_child_is_not_its_parents(pool: Pool) -> None:
    result = await pool.do("child_first", n=1, how="usage")
    assert (result.end, result.outcome.usage) == ("crash", None)


async def test_multiprocessing_works_within_a_unit(pool: Pool) -> None:
    assert [await value(pool, "multiprocessing", n=n) for n in range(3)] == [0, 1, 4]
    assert len(pool.pool.pids) == 1


async def test_a_child_of_the_set_up_ends_too() -> None:
    async for pool in pool_of("forks_at_start"):
        assert [(await value(pool, "pid", n=n))[0] for n in range(5)] == [0, 1, 2, 3, 4]


async def test_programs_that_a_unit_starts_have_none_of_our_descriptors(pool: Pool) -> None:
    found = await value(pool, "inherited")
    assert str(stat.S_IFSOCK) not in found
    assert str(stat.S_IFREG) not in found


# -- the pipe -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 32, 4096, 150_000])
async def test_bytes_in_the_pipe_cost_the_unit_that_wrote_them(pool: Pool, size: int) -> None:
    first = (await value(pool, "pid"))[1]
    result = await pool.do("junk", size=size)
    assert (result.end, result.outcome.kind) == ("crash", Kind.CRASH)
    assert "it sent a reply to something that it was not asked" in result.outcome.message
    n, second = await value(pool, "pid", n=7)
    assert (n, second == first) == (7, False)


async def test_a_page_that_was_cut_short_does_no_harm_to_its_owner(pool: Pool) -> None:
    result = await pool.do("truncate")
    assert result.end == "crash"
    assert (await value(pool, "pid", n=7))[0] == 7


async def test_no_answer_is_written_into_a_file_of_the_unit(pool: Pool, tmp_path: Path) -> None:
    result = await pool.do("replace_pipe", path=str(tmp_path / "own"))
    assert result.end == "crash"
    assert (tmp_path / "own").read_bytes() == b""
    assert (await value(pool, "pid", n=7))[0] == 7


async def test_a_child_keeps_a_file_that_took_the_pipes_place(pool: Pool, tmp_path: Path) -> None:
    assert await value(pool, "replace_pipe_and_fork", path=str(tmp_path / "own")) == "put back"
    assert (tmp_path / "own").read_bytes() == b"from the child"


# -- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens", [0.0, 7.0])
async def test_a_thread_of_an_earlier_unit_tells_no_usage_of_the_next(pool: Pool, tokens: float) -> None:
    await pool.do("leave_thread")
    result = await pool.do("die_after_thread", tokens=tokens)
    assert (result.end, result.outcome.usage) == ("crash", Usage(tokens, 0.0) if tokens else None)
