"""SIGKILL in the middle of conversations: answers stay, and the result equals that of an uninterrupted serial run."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.crash.sampling import some
from tests.crash.stage import Stage, Witness, plain
from tests.crash.test_random_kills import kill_until_done

from headway.fake.process import FakeProcess, fake_process

ROWS = 60


def rows(stage: Stage) -> list[dict[str, Any]]:
    """Five conversations, two stored names, and independent rows."""
    found = []
    for index in range(ROWS):
        row = stage.row(index)
        if index % 6 < 5:
            row["conversation"] = f"c{index % 6}"
        if index % 7 == 3:
            row["store_as"] = f"r{index % 2}"
        if index % 4 == 2:
            row["prompt"] += ", {{r0}} and {{ r1 }}"
        found.append(row)
    return found


def staged(root: Path, fake: FakeProcess, tag: str) -> Stage:
    root.mkdir(exist_ok=True)
    stage = Stage(root, fake, f"{tag}-{os.getpid()}-{root.parent.name}", ROWS)
    stage.configure("max_concurrency = 4")
    stage.write_input(rows(stage))
    return stage


@pytest.fixture
def serial(tmp_path: Path, quick_fake: FakeProcess) -> list[dict[str, Any]]:
    """The rows of a serial run of the same file."""
    stage = staged(tmp_path / "serial", quick_fake, "serial")
    done = stage.run("run", "in.jsonl", "-q", "--serial")
    assert done.returncode == 0, done.stderr
    return plain(stage.rows())


@pytest.mark.parametrize("at", ["set_rendered", "add_answer", "intend", "COMMIT"])
def test_killed_at_every_statement_of_a_turn(
    tmp_path: Path, quick_fake: FakeProcess, serial: list[dict[str, Any]], at: str
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, f"at-{at}")
    witness = Witness(stage)
    first = 9 if at == "COMMIT" else 1
    points = [(first, "before"), (first, "after"), (first + 2, "after"), (first + 2, "before")]
    for n, when in some(points, at in ("intend", "add_answer")):
        stage.ends_by_kill("run", "in.jsonl", faults={"kill": {"at": at, "when": when, "n": n}})
        unknown = witness.note_crash()
    done = stage.run("run", "in.jsonl", "--progress", "json")
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(serial)


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_moments(
    tmp_path: Path, quick_fake: FakeProcess, serial: list[dict[str, Any]], seed: int
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, f"random-{seed}")
    kill_until_done(random.Random(seed), stage, 3, serial, "input")


def test_killed_while_turns_behind_a_failure_are_skipped(tmp_path: Path) -> None:
    """The names of the units that the skipped ones depend on are in the same transaction as the skips."""
    with fake_process("--fault", "5xx=1") as broken:
        stage = Stage(tmp_path, broken, "skipped", 3)
        stage.configure()
        stage.write_input([stage.row(index, conversation="c") for index in range(3)])
        for when in ("before", "after"):
            fault = {"kill": {"at": "set_message", "when": when, "n": 1}}
            stage.ends_by_kill("run", "in.jsonl", "--max-attempts", "1", faults=fault)
            assert stage.query("SELECT count(*) FROM units WHERE status = 'skipped'") == [(0,)]
        assert stage.run("run", "in.jsonl", "-q", "--max-attempts", "1").returncode == 1
    assert [row["error"]["message"] for row in stage.rows()[1:]] == [
        "unit 'u0', which it depends on, failed",
        "unit 'u1', which it depends on, was skipped",
    ]
