"""The page "thirty agents overnight": all of its commands, in order, with a script in the place of Claude Code."""

from __future__ import annotations

import csv
import os
import pty
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "thirty-agents-overnight.md"
SCRIPT = Path(__file__).with_name("scripted_claude.py")
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
UNITS = 30


def blocks(kind: str) -> list[str]:
    """The blocks of the page in one language, without their indentation."""
    found = [text for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if language == kind]
    return ["\n".join(line.strip() for line in text.splitlines()) for text in found]


class Night:
    """A repository with the files of the page."""

    def __init__(self, root: Path) -> None:
        self.repository, self.stage, programs = root / "repository", root / "stage", root / "bin"
        for folder in (self.repository, self.stage, programs):
            folder.mkdir()
        claude = programs / "claude"
        claude.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {SCRIPT} "$@"\n')
        claude.chmod(0o755)
        headway = programs / "headway"
        headway.write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
        headway.chmod(0o755)
        private = ("HEADWAY_CONFIG", "HEADWAY_DB", "ANTHROPIC_API_KEY")
        self.environ = {name: value for name, value in os.environ.items() if name not in private}
        self.environ |= {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "SCRIPTED_CLAUDE": str(self.stage),
            "HOME": str(root),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        self._write_files()

    def _write_files(self) -> None:
        (toml,), (table,), (prompt,) = blocks("toml"), blocks("csv"), blocks("markdown")
        rows = table.splitlines()
        rows += [f"t{number},file{number}.py,Something is wrong" for number in range(len(rows), UNITS + 1)]
        (self.repository / "headway.toml").write_text(toml, encoding="utf-8")
        (self.repository / "tasks.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (self.repository / "fix.md").write_text(prompt, encoding="utf-8")
        for row in csv.DictReader(rows):
            (self.repository / row["file"]).write_text("x\n", encoding="utf-8")
        author = "-c user.name=a -c user.email=a@example.org"
        assert self.run(f"git init -q . && git add . && git {author} commit -qm start") == ""

    def run(self, line: str, code: int = 0) -> str:
        """Run a line of the page; returns what it printed on standard output."""
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.repository, env=self.environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_on_terminal(self, line: str, answer: str) -> str:
        """Run a line that asks a question."""
        ours, theirs = pty.openpty()
        shown, asked = b"", False
        process = subprocess.Popen(
            ["bash", "-c", line],
            cwd=self.repository,
            env={**self.environ, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        with os.fdopen(ours, "r+b", buffering=0) as screen, process:
            os.close(theirs)
            with suppress(OSError):  # The terminal is closed when the command ends.
                while piece := screen.read(65_536):
                    shown += piece
                    if b"[y/N]" in shown and not asked:
                        asked = True
                        screen.write(f"{answer}\n".encode())
        assert asked, shown.decode()
        return shown.decode()

    def change_prompt(self) -> None:
        """Edit the prompt after a trial."""
        with (self.repository / "fix.md").open("a", encoding="utf-8") as file:
            file.write("Be brief.\n")

    def attempts(self) -> list[tuple[float, float, str]]:
        """When attempts began and ended, and how. The script itself may begin much later on a busy machine."""
        with closing(sqlite3.connect(self.repository / ".headway" / "headway.db")) as store:
            return store.execute("SELECT started_utc, finished_utc, outcome FROM attempts").fetchall()

    def runs(self) -> list[tuple[float, str]]:
        """When the script was started, and for which file."""
        lines = (self.stage / "runs").read_text(encoding="utf-8").splitlines()
        return [(float(at), file) for at, file in map(str.split, lines)]


@pytest.mark.timeout(240)
def test_every_command_of_the_page(tmp_path: Path) -> None:
    night = Night(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    (night.stage / "refuses").write_text("file9.py")
    printed: dict[str, str] = {}
    for line in lines:
        if "--confirm" in line:
            printed[line] = night.run_on_terminal(line, "n")
            assert [file for _, file in night.runs()] == ["parser.py"], "one unit, then a question"
            assert "+fixed" in printed[line], "its diff is shown"
            night.change_prompt()
            again = night.run_on_terminal(line, "n")
            assert [file for _, file in night.runs()] == ["parser.py"] * 2, "the new prompt, in a new job"
            assert "+fixed" in again
            continue
        if line.startswith("headway retry"):
            (night.stage / "refuses").unlink()
        # Attached until the job ends, with its exit code: a unit has failed.
        printed[line] = night.run(line, 1 if line.startswith("headway attach") else 0)
    assert len(lines) == len(printed) == 13

    status = printed["headway status night"]
    assert f"{UNITS - 1} of {UNITS} succeeded" in status
    reset = float((night.stage / "reset").read_text())
    attempts = night.attempts()
    refused_at = min(ended for _, ended, outcome in attempts if outcome == "throttled")
    late = [began for began, *_ in attempts if refused_at + 0.1 < began < reset]
    assert late == [], "nothing starts between the refusal and the reset"
    assert "I fix dates.py." in printed["headway show night t2"]
    assert "headway/night/t2" in printed["headway worktrees"]
    assert "fixed" in (night.repository / "dates.py").read_text(), "the diff was applied"
    assert "headway/night/" not in night.run("headway worktrees"), "only those of the trials are left"
    with (night.repository / "tasks.night.results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["succeeded"] * UNITS
    assert rows[8]["answer"] == "Fixed file9.py."
