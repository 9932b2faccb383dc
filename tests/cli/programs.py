"""A stage whose units are programs: each prompt is a shell script, and what it started is known by its process ids."""

from __future__ import annotations

import json
from pathlib import Path

from tests.crash.stage import Stage

from headway.fake.process import FakeProcess

#: Runs the prompt, and writes the ids of the shell and of a process below it to a file of its own.
SCRIPT = 'read script; (sh -c "$script") & echo "$$ $!" >> pids/all; wait $!'


def program_stage(root: Path, scripts: list[str], *, at_once: int = 4) -> Stage:
    """A folder with a unit `u0`, `u1` … for each script."""
    stage = Stage(root, FakeProcess("", 0, 0), "programs", len(scripts))
    (root / "pids").mkdir()
    (root / "headway.toml").write_text(
        f'[providers.sh]\nkind = "command"\npreflight = "none"\ncommand = ["sh", "-c", {json.dumps(SCRIPT)}]\n'
        f"[providers.sh.limits]\nmax_concurrency = {at_once}\n",
        encoding="utf-8",
    )
    stage.write_input([{"id": f"u{n}", "prompt": script} for n, script in enumerate(scripts)])
    return stage


def pids_of(stage: Stage) -> list[int]:
    """Every process that the programs started."""
    file = stage.root / "pids" / "all"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def alive(pid: int) -> bool:
    """Whether a process runs. One that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def all_gone(stage: Stage) -> bool:
    """Whether nothing that the programs started is left."""
    return not any(map(alive, pids_of(stage)))
