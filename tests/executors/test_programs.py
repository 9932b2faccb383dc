"""One program: its pipes, its lines, its exit, and what the guardian is told."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest
import uvloop
from tests.crash.stage import wait_for
from tests.executors.conftest import gone_within

from headway.core.model import Kind
from headway.executors.commands import program as program_module
from headway.executors.commands import run_outcome
from headway.executors.commands.program import Program, ProgramEnd, run_program
from headway.executors.commands.program_environment import ProgramEnvironment
from headway.executors.commands.running_programs import RunningPrograms
from headway.executors.guardian import Guardian


def program(*argv: str, stdin: bytes = b"", timeout_s: float = 30.0, max_output: int = 0) -> Program:
    return Program(argv, stdin, "/", dict(os.environb), "no-such-mark", timeout_s, max_output)


def shell(script: str, **more: float) -> Program:
    return program("sh", "-c", script, **more)  # type: ignore[arg-type]


async def run(what: Program, reader: Lines | None = None) -> ProgramEnd:
    return await run_program(what, reader, lambda pid: None)


class Lines:
    """Keeps lines. After a line "wait" it wants no other one until `go` is set."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.go = asyncio.Event()

    @property
    def is_over(self) -> bool:
        return b"over" in self.lines

    def take(self, line: bytes, left_out: int) -> Awaitable[None] | None:
        self.lines.append(line)
        return self._wait() if line == b"wait" else None

    async def _wait(self) -> None:
        await self.go.wait()


async def test_no_line_is_read_before_the_reader_is_ready_for_it() -> None:
    lines = Lines()
    task = asyncio.ensure_future(run(shell("echo a; echo wait; echo b; echo over"), lines))
    await asyncio.to_thread(wait_for, "a line", lambda: b"wait" in lines.lines)
    # The program has ended long before; its last lines wait.
    done, _ = await asyncio.wait((task,), timeout=0.5)
    assert not done
    assert lines.lines == [b"a", b"wait"]
    lines.go.set()
    assert (await task).code == 0
    assert lines.lines == [b"a", b"wait", b"b", b"over"]


async def test_a_last_line_without_its_end_counts() -> None:
    lines = Lines()
    await run(shell("printf 'a\\n\\nb'"), lines)
    assert lines.lines == [b"a", b"b"]


@pytest.mark.parametrize("size", [0, 10, 65_536, 65_537, 3_000_000])
async def test_a_prompt_of_any_size_arrives_whole(size: int) -> None:
    end = await run(program("wc", "-c", stdin=b"x" * size, max_output=100))
    assert int(end.stdout) == size


async def test_a_program_ends_at_once_when_its_last_child_has_closed_the_pipe() -> None:
    """Its child still writes after its exit: that is waited for, but not for longer than it takes."""
    end = await run(shell("(sleep 0.05; echo late) & exit 3", max_output=100))
    assert (end.code, end.stdout) == (3, b"late\n")


def test_a_program_runs_on_uvloop_that_ends_before_it_reads_its_prompt() -> None:
    async def runs() -> list[ProgramEnd]:
        return [await run(program("true", stdin=b"x" * 1_000_000)) for _ in range(20)]

    assert [end.code for end in uvloop.run(runs())] == [0] * 20


async def test_without_pidfd_a_thread_waits_for_the_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert (await run(shell("exit 4"))).code == 4
    late = await run(shell("exec sleep 1000", timeout_s=0.2))
    assert (late.late, late.code) == (True, -9)


async def test_a_killed_program_takes_its_detached_children_along(tmp_path: Path) -> None:
    """The child has left the group and keeps no pipe open: only the mark finds it."""
    child = tmp_path / "child"
    script = f"setsid sleep 1000 >/dev/null 2>&1 & echo $! > {child}; kill -9 $$"
    environ = {**os.environb, b"HEADWAY_WORKER": b"some-mark-1;"}
    end = await run(Program(("sh", "-c", script), b"", "/", environ, "some-mark-1", 30.0))
    assert end.code == -9
    assert gone_within(int(child.read_text()), 2.0)


async def test_no_descriptor_is_left_over() -> None:
    async def runs() -> None:
        await run(program("cat", stdin=b"x", max_output=10))
        await run(shell("exec sleep 1000", timeout_s=0.05))
        with pytest.raises(OSError, match="No such file"):
            await run(program("/no/such/program"))

    await runs()
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    await runs()
    assert not before or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EAGAIN])
def test_a_machine_that_has_nothing_left_does_not_stop_the_lane(code: int) -> None:
    outcome = run_outcome.not_started("agent", "/", OSError(code, os.strerror(code))).outcome
    assert outcome.kind is Kind.TRANSIENT
    assert outcome.exhausted


async def test_the_guardian_gets_one_message_for_many_short_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[list[int], bool]] = []
    monkeypatch.setattr(
        Guardian,
        "watch",
        lambda self, groups, starting=False: lines.append((sorted(groups), starting)),
    )
    programs = RunningPrograms("mark", "name")
    long = programs.begin()
    long.started(7)
    for group in range(100, 150):
        short = programs.begin()
        short.started(group)
        short.ended()
    assert lines == [([], True)], "the mark is looked for from the first start on"
    await asyncio.to_thread(wait_for, "the groups", lambda: len(lines) > 1)
    assert lines[1] == ([7], True), "what still runs is known by its group"
    long.ended()
    assert lines[2] == ([], False), "nothing runs, and nothing is to be killed"


def test_the_environment_is_made_again_only_if_it_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_WORKER", "outer-1;")
    environment = ProgramEnvironment(None, {"SECRET"}, lambda environ: {"MORE": environ["HEADWAY_WORKER"]})
    monkeypatch.setenv("SECRET", "x")
    monkeypatch.setenv("NAME", "before")
    first = environment.marked("mark-1")
    assert (first[b"NAME"], first[b"MORE"], first[b"HEADWAY_WORKER"]) == (
        b"before",
        b"outer-1;",
        b"outer-1;mark-1;",
    )
    assert b"SECRET" not in first
    monkeypatch.setenv("NAME", "after")
    assert environment.marked("mark-2")[b"NAME"] == b"after"
    monkeypatch.delenv("NAME")
    assert b"NAME" not in environment.marked("mark-3")
    assert b"SECRET" not in ProgramEnvironment((), ()).marked("mark")


@pytest.mark.parametrize("terminal", [True, False])
async def test_a_program_has_a_group_of_its_own_and_no_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_module, "has_terminal", lambda: terminal)
    code = "import os; print(os.getpid() == os.getpgid(0), os.getpid() == os.getsid(0))"
    end = await run(program(sys.executable, "-c", code, max_output=100))
    assert end.stdout.split() == [b"True", str(terminal).encode()]
