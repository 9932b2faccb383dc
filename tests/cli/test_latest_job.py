"""Which job a command without a name chooses: the one that was started last; and that it says which."""

from __future__ import annotations

import json
import sqlite3

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.batch.job_kind import BatchKind
from headway.jobs.kinds import KINDS


@pytest.fixture
def two_jobs(stage: Stage, headway: Headway) -> tuple[str, str]:
    """The names of two jobs; `b` was started after `a`."""
    names = []
    for name in ("a", "b"):
        (stage.root / f"{name}.jsonl").write_text(
            f'{{"id": "{name}1", "prompt": "say {name}", "model": "alpha/gpt-x"}}\n'
        )
        names.append(json.loads(headway("run", f"{name}.jsonl", "--json", "-q").out)["job"])
    return names[0], names[1]


def _killed(stage: Stage, job: str) -> None:
    """Leave a job as `kill -9` leaves it: recorded as running, without a process."""
    with sqlite3.connect(stage.root / ".headway" / "headway.db") as db:
        db.execute("UPDATE jobs SET state = 'running', finished_utc = NULL WHERE name = ?", (job,))


def test_a_killed_job_is_not_the_latest_if_another_was_started_later(
    stage: Stage, headway: Headway, two_jobs: tuple[str, str]
) -> None:
    first, second = two_jobs
    _killed(stage, first)
    assert json.loads(headway("status", "--json").out)["job"] == second
    [row] = headway("export").out.splitlines()
    assert json.loads(row)["custom_id"] == "b1"


def test_a_job_that_is_resumed_becomes_the_latest(
    headway: Headway, two_jobs: tuple[str, str], stage: Stage
) -> None:
    first, _ = two_jobs
    _killed(stage, first)
    assert headway("resume", first, "-q").code == 0
    assert json.loads(headway("status", "--json").out)["job"] == first


def test_a_command_says_which_job_it_chose_on_stderr(headway: Headway, two_jobs: tuple[str, str]) -> None:
    _, second = two_jobs
    said = f"using {second}, the latest of 2 jobs\n"
    for command in ("status", "export", "resume"):
        assert said in headway(command).err, command
        assert said not in headway(command, "--json").err, command
        assert said not in headway(command, second).err, f"{command}: it was named"
    for command in ("pause", "cancel"):
        assert said in headway(command).err, command
    assert said in headway("retry", "--failed").err
    assert said not in headway("resume", "-q").err


def test_the_only_job_needs_no_line(headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    assert headway("status").err == ""


def test_a_kind_that_is_not_chosen_by_default_has_to_be_named(
    stage: Stage, headway: Headway, two_jobs: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class AsideKind(BatchKind):
        name = "aside"
        chosen_by_default = False

    first, second = two_jobs
    monkeypatch.setitem(KINDS, "aside", AsideKind())
    with sqlite3.connect(stage.root / ".headway" / "headway.db") as db:
        db.execute("UPDATE jobs SET kind = 'aside' WHERE name = ?", (second,))
    assert json.loads(headway("status", "--json").out)["job"] == first
    assert json.loads(headway("status", second, "--json").out)["job"] == second
    with sqlite3.connect(stage.root / ".headway" / "headway.db") as db:
        db.execute("UPDATE jobs SET kind = 'aside'")
    assert "there are no jobs yet, only questions" in headway("status", "--json").err
