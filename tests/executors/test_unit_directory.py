"""The adapter that gives units their directories: what it records, and what a cancelled attempt leaves."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.providers.wire import Admissions

from headway.core.model import Kind, Outcome
from headway.executors.worktrees import unit_directory
from headway.executors.worktrees.unit_directory import (
    DirectorySettings,
    UnitDirectoryAdapter,
    diff_fields,
    diff_of,
)
from headway.executors.worktrees.unit_worktrees import UnitWorktrees
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.scrubber import Scrubber

SECRET = "sk-secret-0123456789abcdef"


class Program:
    """The adapter of a program that does `act` in its directory."""

    has_sessions = True

    def __init__(self, act: Callable[[Path], Outcome]) -> None:
        self._act = act
        self.closed = False

    async def open(self) -> None: ...

    async def close(self) -> None:
        self.closed = True

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        directory = json.loads(request.body)["agent"]["directory"]
        return Answer(self._act(Path(directory)), 200, body=b'"done"', note=b'{"stdout":"x"}')


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    for arguments in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run(("git", "-c", "user.name=n", "-c", "user.email=e", *arguments), cwd=root, check=True)
    return root


def adapter_of(tmp_path: Path, act: Callable[[Path], Outcome], **more: Any) -> UnitDirectoryAdapter:
    worktrees = UnitWorktrees(tmp_path / "w", tmp_path / "j" / "worktrees", "job")
    settings = DirectorySettings(
        lambda row: str(tmp_path / "repo"), lambda index: f"u{index}", worktrees, files=lambda unit: tmp_path / "files" / unit, **more
    )  # fmt: skip
    return UnitDirectoryAdapter(Program(act), settings, Scrubber([SECRET]))


async def send(adapter: UnitDirectoryAdapter) -> dict[str, Any]:
    request = Request("command", b'{"prompt":"p"}', session="job 1 0", attempt=1)
    answer = await adapter.send(request, 10.0, Admissions())
    return dict(json.loads(answer.note)) if answer.note else {"message": answer.outcome.message}


def test_details_of_the_program_are_kept(repository: Path, tmp_path: Path) -> None:
    def act(place: Path) -> Outcome:
        (place / "new.txt").write_text(f"key {SECRET}\n")
        return Outcome()

    async def main() -> None:
        adapter = adapter_of(tmp_path, act)
        assert adapter.has_sessions
        details = await send(adapter)
        assert details["stdout"] == "x"
        assert details["git_status"] == "?? new.txt"
        assert "+key" in details["diff"]
        assert SECRET not in details["diff"]
        await adapter.close()

    asyncio.run(main())


def test_secrets_and_bytes_in_names_of_files_and_in_commits(repository: Path, tmp_path: Path) -> None:
    def act(place: Path) -> Outcome:
        (place / SECRET).write_text("x")
        (place / os.fsdecode(b"\xff.txt")).write_text("x")
        commit = ("commit", "-q", "--allow-empty", "-m", f"uses {SECRET}")
        subprocess.run(("git", "-c", "user.name=n", "-c", "user.email=e", *commit), cwd=place, check=True)
        return Outcome()

    async def main() -> None:
        adapter = adapter_of(tmp_path, act, collect=("*",))
        details = await send(adapter)
        assert SECRET not in json.dumps(details)
        assert details["commits"][0].endswith("uses ***")
        assert len(details["files"]) == 2
        await adapter.close()

    asyncio.run(main())


def test_files_that_cannot_be_collected_do_not_cost_the_answer(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unit_directory, "collect_files", full)

    async def main() -> None:
        adapter = adapter_of(tmp_path, lambda place: Outcome(), collect=("*",))
        assert "No space left" in (await send(adapter))["remarks"][0]
        await adapter.close()

    asyncio.run(main())


def test_a_failed_attempt_keeps_its_worktree_until_the_end_of_the_run(
    repository: Path, tmp_path: Path
) -> None:
    places: list[Path] = []

    def act(place: Path) -> Outcome:
        places.append(place)
        assert place.is_dir()
        return Outcome(Kind.TRANSIENT, message="failed")

    async def main() -> None:
        adapter = adapter_of(tmp_path, act)
        await send(adapter)
        assert places[0].is_dir()
        await send(adapter)
        assert places[0] == places[1]
        await adapter.close()
        assert not places[0].exists()

    asyncio.run(main())


def test_an_attempt_that_is_cancelled_while_its_worktree_is_made_leaves_none(
    repository: Path, tmp_path: Path
) -> None:
    async def main() -> None:
        adapter = adapter_of(tmp_path, lambda place: Outcome())
        task = asyncio.ensure_future(send(adapter))
        await asyncio.sleep(0)  # It has begun.
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))
        assert task.cancelled()
        await adapter.close()
        assert not (tmp_path / "w").exists()
        assert not (tmp_path / "j" / "worktrees").exists()

    asyncio.run(main())


def test_a_directory_without_a_repository_fails_the_attempt_with_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "repo").mkdir()
        adapter = adapter_of(tmp_path, lambda place: Outcome())
        assert "not a git repository" in (await send(adapter))["message"]
        await adapter.close()

    asyncio.run(main())


@pytest.mark.parametrize("agent", ["[]", "7", '"x"', "null", '{"directory": 5}'])
def test_a_wrong_row_gets_no_directory_and_is_for_the_program_to_refuse(
    repository: Path, tmp_path: Path, agent: str
) -> None:
    bodies: list[bytes] = []

    class Refusing(Program):
        async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
            bodies.append(request.body)
            return Answer(Outcome(Kind.INVALID))

    async def main() -> None:
        adapter = adapter_of(tmp_path, lambda place: Outcome())
        adapter._inner = Refusing(lambda place: Outcome())
        body = f'{{"prompt":"p","agent":{agent}}}'.encode()
        answer = await adapter.send(Request("command", body, session="job 1 0"), 10.0, Admissions())
        assert (answer.outcome.kind, bodies) == (Kind.INVALID, [body])
        assert not (tmp_path / "w").exists()
        await adapter.close()

    asyncio.run(main())


@pytest.mark.parametrize("diff", [b"", b"+text\n", b"+zw\xf6lf\n"])
def test_a_diff_comes_back_byte_for_byte(diff: bytes) -> None:
    assert diff_of(json.loads(json.dumps(diff_fields(diff)))) == diff
