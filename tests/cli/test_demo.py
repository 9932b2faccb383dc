"""`headway demo`: a small demo, and where it may write its files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import demo, main


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One account and a few rows, finished before the interruption."""
    monkeypatch.setattr(demo, "ACCOUNTS", {"large": (6_000, 900_000, 3, True, 10)})
    monkeypatch.setattr(demo, "INTERRUPT_S", 60.0)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.usefixtures("quick")
def test_a_demo_is_kept_in_a_new_directory_and_a_second_one_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kept" / "here"
    assert main(["demo", "--keep", str(folder)]) == 0
    assert names(folder) == demo.FILES
    config = (folder / "headway.toml").read_text()
    capfd.readouterr()
    assert main(["demo", "--keep", str(folder)]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert f"{folder} contains an earlier demo" in line
    assert "remove it" in line
    assert (folder / "headway.toml").read_text() == config


@pytest.mark.usefixtures("quick")
def test_a_demo_is_kept_in_an_empty_directory(tmp_path: Path) -> None:
    assert main(["demo", "--keep", str(tmp_path)]) == 0
    assert names(tmp_path) == demo.FILES


@pytest.mark.parametrize("name", ["headway.toml", ".env", "questions.jsonl", "notes.txt"])
def test_existing_files_are_not_replaced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    mine = tmp_path / name
    mine.write_text("mine")
    assert main(["demo", "--keep", str(tmp_path)]) == 2
    out, err = capfd.readouterr()
    [line] = err.splitlines()
    assert f"{tmp_path} is not empty ({name})" in line
    assert "name a new directory" in line
    assert out == ""
    assert names(tmp_path) == {name}
    assert mine.read_text() == "mine"


def test_a_file_instead_of_a_directory_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    assert main(["demo", "--keep", str(mine)]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert f"{mine} is not a directory" in line


def test_a_directory_that_cannot_be_created_is_an_error_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--keep", str(tmp_path / "file" / "below")]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "cannot be created: not a directory" in line


def test_the_demo_runs_to_its_end_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    """The whole demo, as `make demo` runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "headway", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = sum(account[-1] for account in demo.ACCOUNTS.values())
    assert f"done: {rows:,} of {rows:,} succeeded" in done.stdout + done.stderr
    assert "to resume: headway resume questions-" in done.stdout + done.stderr, "it was interrupted"
    assert f"{rows:,} answered" in done.stdout
    assert " 0 sent again after they had been answered" in done.stdout
    assert not any(tmp_path.iterdir()), "it leaves nothing behind"
