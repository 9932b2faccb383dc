"""SIGKILL while files are taken in and while requests with files are sent: nothing is lost, stored twice or left behind."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from tests.batch.attachment_files import pdf, png
from tests.crash.stage import Stage, Witness, plain
from tests.crash.test_random_kills import kill_until_done

from headway.fake.process import FakeProcess

ROWS = 40
IMAGES = 4


def staged(root: Path, fake: FakeProcess, tag: str) -> Stage:
    """Rows that share four images and a document."""
    root.mkdir(exist_ok=True)
    stage = Stage(root, fake, f"{tag}-{os.getpid()}-{root.parent.name}", ROWS)
    stage.configure("max_concurrency = 4")
    for n in range(IMAGES):
        (root / f"{n}.png").write_bytes(png(100 + n, 100, b"x" * 50_000))
    (root / "d.pdf").write_bytes(pdf(2))
    rows = []
    for index in range(ROWS):
        files = [f"{index % IMAGES}.png", *(["d.pdf"] if index % 5 == 0 else [])]
        rows.append(stage.row(index, attachments=files))
    stage.write_input(rows)
    return stage


@pytest.fixture
def whole(tmp_path: Path, quick_fake: FakeProcess) -> list[dict[str, Any]]:
    """The rows of an uninterrupted run."""
    stage = staged(tmp_path / "whole", quick_fake, "whole")
    done = stage.run("run", "in.jsonl", "-q")
    assert done.returncode == 0, done.stderr
    return plain(stage.rows())


def stored(stage: Stage) -> tuple[int, int, int]:
    """Files, uses of files, and uses whose job is gone."""
    [row] = stage.query(
        "SELECT (SELECT count(*) FROM attachments), (SELECT count(*) FROM attachment_uses), "
        "(SELECT count(*) FROM attachment_uses WHERE job NOT IN (SELECT id FROM jobs))"
    )
    return int(row[0]), int(row[1]), int(row[2])


@pytest.mark.parametrize("at", ["add_attachment", "use_attachment"])
def test_killed_while_files_are_taken_in(
    tmp_path: Path, quick_fake: FakeProcess, whole: list[dict[str, Any]], at: str
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, f"at-{at}")
    for n, when in ((1, "before"), (2, "after"), (IMAGES + 1, "after")):
        stage.ends_by_kill("run", "in.jsonl", faults={"kill": {"at": at, "when": when, "n": n}})
        assert stored(stage) == (0, 0, 0)
        assert not stage.committed()
    done = stage.run("run", "in.jsonl", "-q")
    assert done.returncode == 0, done.stderr
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)
    assert plain(stage.rows()) == whole
    assert [stage.sent(index) for index in range(ROWS)] == [1] * ROWS


def test_what_a_killed_intake_leaves_is_removed_with_its_files(
    tmp_path: Path, quick_fake: FakeProcess
) -> None:
    """Killed after the files are committed, before the job is ready; then one image changes."""
    stage = staged(tmp_path / "left", quick_fake, "left")
    stage.ends_by_kill("run", "in.jsonl", faults={"kill": {"at": "seal_job", "when": "before", "n": 1}})
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)
    stage.ends_by_kill(
        "run", "in.jsonl", faults={"kill": {"at": "forget_attachments", "when": "after", "n": 1}}
    )
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)
    done = stage.run("run", "in.jsonl", "-q")
    assert done.returncode == 0, done.stderr
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)
    assert stage.query("SELECT count(*) FROM jobs") == [(1,)]


@pytest.mark.parametrize("at", ["intend", "note_running", "add_answer"])
def test_killed_while_requests_with_files_are_sent(
    tmp_path: Path, quick_fake: FakeProcess, whole: list[dict[str, Any]], at: str
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, f"sent-{at}")
    witness = Witness(stage)
    for row, when in ((1, "before"), (ROWS // 2, "after")):
        stage.ends_by_kill("run", "in.jsonl", faults={"kill": {"at": at, "when": when, "row": row}})
        unknown = witness.note_crash()
    done = stage.run("run", "in.jsonl", "--progress", "json")
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(whole)
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)


def test_killed_at_random_moments(
    tmp_path: Path, quick_fake: FakeProcess, whole: list[dict[str, Any]]
) -> None:
    stage = staged(tmp_path / "killed", quick_fake, "random")
    kill_until_done(random.Random(3), stage, 3, whole, "input")
    assert stored(stage) == (IMAGES + 1, IMAGES + 1, 0)
