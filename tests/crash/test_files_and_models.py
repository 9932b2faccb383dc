"""SIGKILL while answers are written as files, and while several models run: nothing is lost, and nothing finished is sent again."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import PATIENCE_S, Stage, plain
from tests.crash.test_random_kills import moment

KILLS = 5
FILES = 80
MODELS = ("gpt-a", "gpt-b")


def attempts_of_good_units(stage: Stage) -> dict[str, int]:
    """The number of recorded attempts of every unit that has succeeded."""
    rows = stage.query(
        "SELECT custom_id, (SELECT count(*) FROM attempts WHERE attempts.uid = units.uid) FROM units WHERE status = 'succeeded'"
    )
    return dict(rows)


def killed_until_done(rng: random.Random, stage: Stage, *command: str) -> int:
    """Kill the processes of a job some times, then let it end; returns how often it was killed."""
    kills = 0
    good: dict[str, int] = {}
    while True:
        with stage.process(*command) as process:
            if kills < KILLS:
                moment(rng, stage, process)
                process.kill()
            _, err = process.communicate(timeout=PATIENCE_S)
        if stage.has_records():
            now = attempts_of_good_units(stage)
            assert good.items() <= now.items(), "an answer was lost, or a finished unit was sent again"
            good = now
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, err
            return kills
        kills += 1
        check_answer_files(stage)


def check_answer_files(stage: Stage) -> None:
    """Every answer file is complete, and belongs to a unit that has succeeded."""
    out = stage.root / "docs" / "out"
    good = attempts_of_good_units(stage) if stage.has_records() else {}
    for path in out.rglob("*.answer.md"):
        name = str(path.relative_to(out)).removesuffix(".answer.md")
        assert name in good
        assert path.read_text() == f"echo: say text of {Path(name).name}\n"


@pytest.mark.parametrize("seed", range(2))
def test_answer_files_survive_kills(stage: Stage, seed: int) -> None:
    docs = stage.root / "docs"
    docs.mkdir()
    for number in range(FILES):
        (docs / f"{number:03d}.txt").write_text(f"text of {number:03d}.txt")
    stage.configure("max_concurrency = 4")
    command = ("run", "docs/**/*", "--prompt", "say {{text}}", "--out-dir", "docs/out", "-q")
    kills = killed_until_done(random.Random(seed), stage, *command)
    assert kills > 0
    check_answer_files(stage)
    assert len(list((docs / "out").rglob("*.answer.md"))) == FILES
    assert not [path for path in (docs / "out").rglob(".*") if path.is_file()], (
        "no lock or temporary file stays"
    )
    assert stage.query("SELECT count(*) FROM jobs") == [(1,)], "its own answers did not change the input"


def rows(stage: Stage) -> list[dict[str, Any]]:
    found = []
    for index in range(30):
        row = stage.row(index)
        if index % 3 == 0:
            row["conversation"] = f"c{index % 2}"
        if index % 7 == 2:
            row["store_as"] = "last"
        if index % 5 == 4:
            row["prompt"] += ", {{last}}"
        found.append(row)
    return found


def test_several_models_survive_kills(stage: Stage) -> None:
    stage.write_input(rows(stage))
    stage.configure("max_concurrency = 4")
    flags = [word for model in MODELS for word in ("--model", model)]
    done = stage.run(
        "run", "in.jsonl", *flags, "--serial", "-q", "--db", "other.db", "--out", "expected.jsonl"
    )
    assert done.returncode == 0, done.stderr
    killed_until_done(random.Random(7), stage, "run", "in.jsonl", *flags, "-q")
    expected = [json.loads(line) for line in (stage.root / "expected.jsonl").read_text().splitlines()]
    assert plain(stage.rows()) == plain(expected)
    assert [row["custom_id"] for row in stage.rows()] == [
        f"u{index}@{model}" for index in range(30) for model in MODELS
    ]


def test_texts_only_survive_kills(stage: Stage) -> None:
    killed_until_done(random.Random(3), stage, "run", "in.jsonl", "--text-only", "-q")
    texts = [json.loads(line) for line in stage.out.read_text().splitlines()]
    assert texts == [{"id": f"u{index}", "text": f"echo: say {index}"} for index in range(stage.units)]


def test_reused_answers_survive_kills(stage: Stage) -> None:
    """Rows without ids are matched by their requests, in a temporary table: a killed process leaves nothing of it."""
    rows = [{**stage.row(index), "id": None} for index in range(6)]
    stage.write_input(rows)
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    stage.write_input([{**stage.row(99), "id": None}, *rows])
    for at in ("add_reusable", "take_reusable"):
        for when in ("before", "after"):
            stage.ends_by_kill("run", "in.jsonl", "-q", faults={"kill": {"at": at, "when": when, "n": 1}})
    done = stage.run("run", "in.jsonl", "--out", "in.results.jsonl", "--force")
    assert done.returncode == 0, done.stderr
    assert [row["headway"]["text"] for row in stage.rows()] == [
        f"echo: say {index}" for index in (99, 0, 1, 2, 3, 4, 5)
    ]
    assert [stage.sent(index) for index in (99, 0, 1, 2, 3, 4, 5)] == [1] * 7, (
        "no finished unit is sent again"
    )
