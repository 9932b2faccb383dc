"""Agents in worktrees of one repository: some are killed, and so is the engine, twice. Every unit has its result and its diff, and
nothing is left over.

`make crash` runs 50 units, of which ten are killed; a test run has a smaller sample.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage, started, wait_for
from tests.figures import count

WHOLE = "HEADWAY_CRASH_KILLS" in os.environ
UNITS, KILLED = (50, 10) if WHOLE else (10, 3)

#: Edits a file and adds one, half of it before it is killed. `STATE` counts attempts, so that a unit is killed only once.
AGENT = """
import os, pathlib, signal, subprocess, sys
number = int(sys.stdin.read().split()[-1])
tries = pathlib.Path({state!r}) / f"{{number}}-{{os.urandom(4).hex()}}"
first = not list(tries.parent.glob(f"{{number}}-*"))
tries.touch()
pathlib.Path("shared.txt").write_text(f"line {{number}}\\n" * 3)
if number < {killed} and first:
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path(f"new-{{number}}.bin").write_bytes(bytes([number, 0, 255]) * 100)
if number % 2:  # Of an attempt that was killed after this, the next one has nothing to commit.
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", f"unit {{number}}"], stdout=2)
print("done", number)
"""


def git(*arguments: str, cwd: Path, data: bytes | None = None) -> str:
    done = subprocess.run(("git", *arguments), cwd=cwd, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def headway(root: Path, *arguments: str) -> Any:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started("-m", "headway", *arguments, cwd=root, **pipes) as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out) if "--json" in arguments else out


def processes_in(place: Path) -> list[str]:
    """Processes that work below a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            directory = os.readlink(process / "cwd")
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if (directory == str(place) or directory.startswith(f"{place}/")) and process.name != str(
            os.getpid()
        ):
            found.append(f"{process.name} {command!r}")
    return found


def test_agents_and_engine_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if address := Stage.new_address():
        monkeypatch.setenv("HEADWAY_DB", address)
    root, state = tmp_path / "repo", tmp_path / "state"
    root.mkdir()
    state.mkdir()
    git("init", "--quiet", "--initial-branch=main", cwd=root)
    (root / "shared.txt").write_text("start\n")
    (tmp_path / "agent.py").write_text(AGENT.format(state=str(state), killed=KILLED))
    command = json.dumps([sys.executable, str(tmp_path / "agent.py")])
    (root / "headway.toml").write_text(f'[providers.agent]\nkind = "command"\ncommand = {command}\n')
    (root / ".gitignore").write_text("out.jsonl\n")
    git("add", "--all", cwd=root)
    git("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message=start", cwd=root)
    rows = [{"id": f"unit/{number}", "prompt": f"do {number}"} for number in range(UNITS)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = ("run", str(tmp_path / "in.jsonl"), "--worktree", "--out", "out.jsonl", "--quiet")

    for part in (1, 2):
        _killed_after(part * UNITS // 3, run, root, state)
    headway(root, *run)

    results = [json.loads(line) for line in (root / "out.jsonl").read_text().splitlines()]
    assert [result["custom_id"] for result in results] == [row["id"] for row in rows]
    assert {result["headway"]["status"] for result in results} == {"succeeded"}
    tries = [path.name.partition("-")[0] for path in state.iterdir()]
    assert all(tries.count(str(number)) >= 2 for number in range(KILLED)), "a killed unit was not tried again"
    _every_diff_applies(root, tmp_path)
    _nothing_is_left(root)
    count("worktrees", kills=KILLED + 2, units=UNITS)


def _killed_after(attempts: int, run: tuple[str, ...], root: Path, state: Path) -> None:
    """Kill the engine after so many attempts of all runs."""
    with started("-m", "headway", *run, cwd=root, stderr=subprocess.PIPE) as engine:
        wait_for("attempts", lambda: len(list(state.iterdir())) >= attempts or engine.poll() is not None, 90)
        assert engine.poll() is None, "the run ended before it could be killed"
        engine.send_signal(signal.SIGKILL)
    wait_for("the end of all agents", lambda: not processes_in(root))


def _every_diff_applies(root: Path, tmp_path: Path) -> None:
    kept = headway(root, "worktrees", "--json")
    job = kept[0]["job"]
    assert sorted(one["unit"] for one in kept) == sorted(f"unit/{number}" for number in range(UNITS))
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--branch=main", str(root), str(clone), cwd=tmp_path)
    for number in range(UNITS):
        diff = headway(root, "worktrees", "show", job, f"unit/{number}")
        git("apply", "-", cwd=clone, data=diff.encode())
        assert (clone / "shared.txt").read_text() == f"line {number}\n" * 3
        assert (clone / f"new-{number}.bin").read_bytes() == bytes([number, 0, 255]) * 100
        git("reset", "--hard", "--quiet", cwd=clone)
        git("clean", "-fdq", cwd=clone)


def _nothing_is_left(root: Path) -> None:
    assert processes_in(root) == []
    assert list((root / ".git").rglob("*.lock")) == []
    assert git("status", "--porcelain", cwd=root) == ""
    removed = headway(root, "worktrees", "remove", "--force", "--json")
    assert len(removed["removed"]) == UNITS
    assert git("worktree", "list", "--porcelain", cwd=root).count("worktree ") == 1
    assert git("branch", "--format=%(refname:short)", cwd=root).split() == ["main"]
    assert not (root / ".headway" / "worktrees").exists()
    assert not (root / ".git" / "worktrees").exists()
    git("fsck", "--no-dangling", cwd=root)
