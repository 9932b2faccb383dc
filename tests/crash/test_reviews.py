"""A review that is interrupted or killed: the reviews of files equal those of an uninterrupted run, and no answer is asked for twice."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.crash.sampling import SIDES, some
from tests.crash.stage import Stage, wait_for
from tests.crash.test_files_and_models import attempts_of_good_units

from headway.fake.process import FakeProcess, fake_process

#: A part of this project's own source: its pure core, of which the fake finds something in each file.
SOURCE: Final = Path(__file__).parents[2] / "src/headway/core/lanes"
AT_ONCE: Final = 8
ANSWERS: Final = """
answers:
  - contains: 'one thing only: Correctness.'
    turns:
      - {"findings": [{"rule": "wrong-import", "severity": "high", "confidence": 0.5, "start_line": 1, "end_line": 1,
         "quote": "from __future__ import annotations", "message": "Found.", "suggestion": ""}]}
  - contains: 'one thing only: Tests.'
    turns:
      - {"findings": [{"rule": "no-assertion", "severity": "low", "confidence": 0.5, "start_line": 900000, "end_line": 1,
         "quote": "nowhere", "message": "Not there.", "suggestion": ""}]}
  - turns: [{"findings": []}]
"""
_numbers = itertools.count()


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeProcess]:
    config = tmp_path_factory.mktemp("fake") / "fake.yaml"
    config.write_text(ANSWERS)
    with fake_process("--latency", "15ms-40ms", "--config", str(config)) as process:
        yield process


def staged(root: Path, fake: FakeProcess) -> Stage:
    shutil.copytree(SOURCE, root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    stage = Stage(root, fake, f"review-{next(_numbers)}")
    stage.configure(f"max_concurrency = {AT_ONCE}")
    return stage


def review(stage: Stage, **how: Any) -> int:
    return stage.run("review", "src", "-q", "--model", "alpha/m", "--out", "report.json", **how).returncode


def reviews(stage: Stage) -> dict[str, str]:
    """The reviews of files without times."""
    folder = stage.root / ".headway/reviews"
    return {
        str(path.relative_to(folder)): re.sub(r"20\d\d-\d\d-\d\dT[0-9:.]+Z?", "TIME", path.read_text())
        for path in sorted(folder.rglob("*.review.md"))
    }


def files_at(stage: Stage) -> dict[str, Any]:
    [path] = (stage.root / ".headway/jobs").glob("*/progress.json")
    found: dict[str, Any] = json.loads(path.read_text())["files"]
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, fake: FakeProcess) -> dict[str, str]:
    stage = staged(tmp_path_factory.mktemp("review"), fake)
    assert review(stage) == 0
    found = reviews(stage)
    assert len(found) == len(list((stage.root / "src").rglob("*.py"))) - _empty(stage)
    return found


def _empty(stage: Stage) -> int:
    return sum(not path.read_text().strip() for path in (stage.root / "src").rglob("*.py"))


def test_interrupted_and_resumed_nothing_is_asked_twice(
    tmp_path: Path, fake: FakeProcess, uninterrupted: dict[str, str]
) -> None:
    stage = staged(tmp_path, fake)
    fake.reset()
    with stage.process("review", "src", "--model", "alpha/m", "--progress", "none") as process:
        wait_for("the first reviews", lambda: len(reviews(stage)) >= 3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert re.search(r"[1-9]\d* completed, 0 errored, [1-9]\d* skipped", out)
    whole = {path for path, file in files_at(stage).items() if file["status"] == "DONE"}
    assert {path.removesuffix(".review.md") for path in reviews(stage)} == whole
    assert review(stage) == 0
    assert reviews(stage) == uninterrupted
    total = fake.stats()["total"]
    assert (total["repeats"], total["lost"]) == (0, 0)


@pytest.mark.parametrize(("at", "moments"), [("add_unit", (1,)), ("add_answer", (3, 9)), ("COMMIT", (12, 6))])
def test_killed_and_resumed(
    tmp_path: Path, fake: FakeProcess, uninterrupted: dict[str, str], at: str, moments: tuple[int, ...]
) -> None:
    stage = staged(tmp_path, fake)
    good: dict[str, int] = {}
    args = ("review", "src", "-q", "--model", "alpha/m")
    for n in moments:
        for when in some(SIDES, n % 2):
            stage.ends_by_kill(*args, faults={"kill": {"at": at, "when": when, "n": n}})
            now = attempts_of_good_units(stage)
            assert good.items() <= now.items(), "an answer was lost, or a recorded one was asked for again"
            good = now
    done = stage.run(*args)
    assert done.returncode == 0, done.stderr
    assert good.items() <= attempts_of_good_units(stage).items()
    assert good or at != "add_answer"
    assert reviews(stage) == uninterrupted
    assert {file["status"] for file in files_at(stage).values()} == {"DONE"}


def test_one_review_at_a_time_in_a_tree(tmp_path: Path, fake: FakeProcess) -> None:
    stage = staged(tmp_path, fake)
    stage.configure("max_concurrency = 1")
    args = ("review", "src", "--model", "alpha/m", "--progress", "none")
    with stage.process(*args) as process:
        wait_for("the first review", lambda: reviews(stage))
        second = stage.run("review", "src/meters", "--model", "alpha/m", "-q")
        elsewhere = ("--db", "other.db", "--out-dir", "other")
        third = stage.run("review", "src", "--model", "alpha/m", "-q", *elsewhere)
        process.kill()
        process.communicate()
    assert (second.returncode, third.returncode) == (2, 2), third.stderr
    assert "is being reviewed by job 'review-" in second.stderr
    assert "is being reviewed by another process" in third.stderr
    assert not (stage.root / "other").exists(), "nothing was begun"
    stage.configure("max_concurrency = 64")
    assert stage.run(*args).returncode == 0, "the lock ended with its process"
