"""`headway run` in stages: the first units before all others (`--first`), and one more unit over all results (`--then`)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

#: Answers in capitals; fails while the file `broken` exists and the prompt says "bad".
PROGRAM = """
import pathlib, sys
prompt = sys.stdin.read()
with open("calls", "a") as calls:
    calls.write(prompt.split(":")[0] + "\\n")
if "bad" in prompt and pathlib.Path("broken").exists():
    sys.exit(4)
print(prompt.upper(), end="")
"""


@pytest.fixture
def work(stage: Stage) -> Path:
    (stage.root / "program.py").write_text(PROGRAM)
    command = json.dumps([sys.executable, "program.py"])
    (stage.root / "headway.toml").write_text(f'[providers.up]\nkind = "command"\ncommand = {command}\n')
    rows = [{"id": name, "prompt": name} for name in ("a", "b", "c", "bad")]
    (stage.root / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return stage.root


def calls(work: Path) -> list[str]:
    return sorted((work / "calls").read_text().split())


def rows_of(work: Path, name: str = "in.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work / name).read_text().splitlines()]


def test_the_first_units_are_shown_and_the_same_command_continues(work: Path, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--first", "2", "--confirm", "--progress", "none")
    assert done.code == 3, done.err
    assert calls(work) == ["a", "b"]
    assert "a (unit 0 of" in done.err
    assert "stopped after the first 2 units: the same command continues with the other 2" in done.err
    assert headway("run", "in.jsonl", "--first", "2", "--confirm", "--progress", "none").code == 0
    assert calls(work) == ["a", "b", "bad", "c"]
    assert [row["headway"]["status"] for row in rows_of(work)] == ["succeeded"] * 4


def test_yes_goes_on_without_asking(work: Path, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--first", "1", "--yes", "--quiet").code == 0
    assert len(rows_of(work)) == 4


def test_a_first_unit_that_fails_is_tried_again_before_the_others(work: Path, headway: Headway) -> None:
    (work / "in.jsonl").write_text('{"id": "x", "prompt": "bad"}\n{"id": "y", "prompt": "good"}\n')
    (work / "broken").touch()
    done = headway("run", "in.jsonl", "--first", "1", "--max-attempts", "1", "--progress", "none")
    assert done.code == 3
    assert "x (unit 0 of" in done.err
    assert "failed" in done.err
    (work / "broken").unlink()
    assert headway("run", "in.jsonl", "--first", "1", "--progress", "none").code == 3
    assert calls(work) == ["bad", "bad"]
    assert headway("run", "in.jsonl", "--first", "1", "--progress", "none").code == 0
    assert calls(work) == ["bad", "bad", "good"]


@contextmanager
def asked(stage: Stage, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command on its own terminal, with our end of that."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        (sys.executable, "-m", "headway", *args), cwd=stage.root, env=stage.environ(TERM="dumb"),
        stdin=theirs, stdout=subprocess.DEVNULL, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.parametrize(("answer", "code", "units"), [(b"n\n", 3, 1), (b"y\n", 0, 4)])
def test_on_a_terminal_it_asks(stage: Stage, work: Path, answer: bytes, code: int, units: int) -> None:
    with asked(stage, "run", "in.jsonl", "--first", "1", "--confirm", "--progress", "none") as (
        process,
        terminal,
    ):
        shown = b""
        while b"go on with the other 3 units? [y/N]" not in shown:
            shown += os.read(terminal, 4096)
        os.write(terminal, answer)
        assert process.wait(30) == code
    assert len(calls(work)) == units


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_question(stage: Stage, work: Path, number: signal.Signals) -> None:
    with asked(stage, "run", "in.jsonl", "--first", "1", "--confirm", "--progress", "none") as (
        process,
        terminal,
    ):
        shown = b""
        while b"go on with the other 3 units? [y/N]" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(number)
        assert process.wait(30) == 130
    assert len(calls(work)) == 1


def test_one_more_unit_gets_all_results(work: Path, headway: Headway) -> None:
    (work / "sum.md").write_text("sum: {{results}}\n")
    done = headway("run", "in.jsonl", "--then", "@sum.md", "--progress", "none")
    assert done.code == 0, done.err
    *_, last = rows_of(work)
    assert last["custom_id"].startswith("then-")
    text = last["headway"]["text"]
    results = json.loads(text.removeprefix("SUM: ").lower())
    assert [(one["id"], one["status"], one["text"]) for one in results] == [
        (name, "succeeded", name) for name in ("a", "b", "c", "bad")
    ]
    assert done.out == f"{text}\n"
    assert headway("run", "in.jsonl", "--then", "@sum.md", "--progress", "none").code == 0
    assert calls(work).count("sum") == 1, "it was paid for twice"


def test_it_waits_until_all_have_succeeded(work: Path, headway: Headway) -> None:
    (work / "broken").touch()
    done = headway(
        "run", "in.jsonl", "--then", "sum: {{results}}", "--max-attempts", "1", "--progress", "none"
    )
    assert done.code == 1
    assert "--then was not run: not every unit has succeeded" in done.err
    assert "sum" not in calls(work)
    (work / "broken").unlink()
    assert headway("resume", "--progress", "none").code == 0  # The job knows its template.
    assert calls(work).count("sum") == 1


def test_failures_may_be_allowed(work: Path, headway: Headway) -> None:
    (work / "broken").touch()
    done = headway(
        "run", "in.jsonl", "--then", "sum: {{results}}", "--allow-failures", "--max-attempts", "1", "--progress", "none",
        "--out-order", "completion",
    )  # fmt: skip
    assert done.code == 1
    results = json.loads(done.out.removeprefix("SUM: ").lower())
    assert sorted(one["id"] for one in results) == ["a", "b", "c"]
    assert sorted(row["custom_id"] for row in rows_of(work))[:4] == ["a", "b", "bad", "c"]
    assert len(rows_of(work)) == 5


def test_a_complete_job_can_get_one_later_and_a_table_has_its_row(work: Path, headway: Headway) -> None:
    (work / "t.csv").write_text("id,word\n1,one\n2,two\n")
    ask = ("run", "t.csv", "--prompt", "{{word}}", "--progress", "none")
    assert headway(*ask).code == 0
    assert headway(*ask, "--then", "sum: {{results}}").code == 0
    assert calls(work) == ["one", "sum", "two"]
    lines = (work / "t.results.csv").read_text().splitlines()
    assert lines[1].startswith("1,one,ONE,succeeded")
    assert any(line.startswith("then-") for line in lines)


def test_models_over_http_get_one_too(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--then", "sum: {{results}}", "--progress", "none")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in stage.out.read_text().splitlines()]
    assert len(rows) == 11
    assert rows[-1]["response"]["body"]["choices"]


def test_wrong_options_are_errors(work: Path, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--then", "no results")
    assert (done.code, "--then uses no results" in done.err) == (2, True)
    done = headway("run", "in.jsonl", "--allow-failures")
    assert (done.code, "--allow-failures goes with --then" in done.err) == (2, True)
