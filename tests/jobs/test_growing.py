"""A job may grow while it runs: a unit's end and the units that it adds are one transaction, so a crash loses neither."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
TREE = "a 3\nb 2\nc 0\n"
#: A tree of depth d has this many units; so many lines, so many trees.
UNITS = sum(2 ** (depth + 1) - 1 + 2**depth - 1 for depth in (3, 2, 0))


def headway(
    folder: Path, *args: str, faults: dict[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HEADWAY_TEST_FAULTS": json.dumps(faults or {})}
    command = [sys.executable, "-m", "tests.jobs.tree_main", *args]
    return subprocess.run(
        command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text("[providers.e]\nkind = 'echo'\nword = 'hey'\n")
    (tmp_path / "in.tree").write_text(TREE)
    return tmp_path


def answers(folder: Path) -> dict[str, Any]:
    lines = (folder / "in.answers").read_text().splitlines()
    return {name: json.loads(body) for name, _, body in (line.partition(" ") for line in lines)}


def expected() -> dict[str, Any]:
    """What a walk over the trees gives."""
    found: dict[str, Any] = {}

    def ask(name: str, depth: int, **of: Any) -> None:
        row: dict[str, Any] = {"name": name, "depth": depth} | ({"of": of} if of else {})
        found[name] = json.loads(json.dumps(["hey", row]).upper())

    def grow(name: str, depth: int, **first: Any) -> None:
        ask(name, depth, **first)
        if depth:
            more = {} if name.startswith("a") and name == "a" else {"first": found["a"]}
            for n in (0, 1):
                grow(f"{name}{n}", depth - 1, **more)
            ask(f"{name}+", depth - 1, left=found[f"{name}0"], right=found[f"{name}1"])

    for line in TREE.splitlines():
        name, depth = line.split()
        grow(name, int(depth))
    return found


def records(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / ".headway" / "headway.db")) as db:
        return db.execute(sql).fetchall()


def test_a_growing_job_runs_until_no_units_are_added(folder: Path) -> None:
    done = headway(folder, "run", "in.tree", "-q")
    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected()
    assert len(expected()) == UNITS
    assert records(folder, "SELECT total, succeeded, state FROM jobs") == [(UNITS, UNITS, "complete")]


@pytest.mark.parametrize("flags", [("--serial",), ("--concurrency", "1")])
def test_a_growing_job_has_the_same_results_in_any_order(folder: Path, flags: tuple[str, ...]) -> None:
    done = headway(folder, "run", "in.tree", "-q", *flags)
    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected()


def test_a_finished_job_adds_nothing_again(folder: Path) -> None:
    assert headway(folder, "run", "in.tree", "-q").returncode == 0
    (folder / "in.answers").unlink()
    assert headway(folder, "resume", "-q").returncode == 0
    assert records(folder, "SELECT total, attempts FROM jobs") == [(UNITS, UNITS)]


@pytest.mark.parametrize(
    ("at", "first"), [("add_unit", 2), ("add_edge", 1), ("set_rendered", 1), ("COMMIT", 16)]
)
def test_a_killed_growing_job_continues(folder: Path, at: str, first: int) -> None:
    """Around statements that add units, and around commits."""
    for n, when in ((first, "before"), (1, "after"), (2, "before"), (3, "after")):
        fault = {"kill": {"at": at, "when": when, "n": n}}
        ended = headway(folder, "run", "in.tree", "-q", "--force", faults=fault)
        assert ended.returncode == -signal.SIGKILL, f"{fault}: {ended.stderr}"
    done = headway(folder, "run", "in.tree", "-q", "--force")
    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected()
    assert records(folder, "SELECT total, succeeded, state FROM jobs") == [(UNITS, UNITS, "complete")]
    doubles = "SELECT custom_id FROM units GROUP BY custom_id HAVING count(*) > 1"
    assert records(folder, doubles) == []


#: The units that lines make, and those that are added.
LINES = len(TREE.splitlines())


def test_a_second_job_takes_the_answers_of_the_first_when_it_grows(folder: Path) -> None:
    assert headway(folder, "run", "in.tree", "-q").returncode == 0
    done = headway(folder, "run", "in.tree", "-q", "--fresh", "--force")
    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected()
    counts = "SELECT total, succeeded, cached, attempts FROM jobs ORDER BY id"
    assert records(folder, counts) == [(UNITS, UNITS, 0, UNITS), (UNITS, LINES, UNITS - LINES, LINES)]


@pytest.mark.parametrize(("at", "when"), [("hit_unit", "before"), ("add_hit", "after"), ("add_key", "after")])
def test_a_job_that_is_killed_while_it_takes_answers_continues(folder: Path, at: str, when: str) -> None:
    assert headway(folder, "run", "in.tree", "-q").returncode == 0
    fault = {"kill": {"at": at, "when": when, "n": 2}}
    ended = headway(folder, "run", "in.tree", "-q", "--fresh", "--force", faults=fault)
    assert ended.returncode == -signal.SIGKILL, f"{fault}: {ended.stderr}"
    done = headway(folder, "resume", "-q", "--force")
    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected()
    counts = "SELECT total, succeeded, cached FROM jobs ORDER BY id DESC LIMIT 1"
    assert records(folder, counts) == [(UNITS, LINES, UNITS - LINES)]
