"""Results on standard output, a device or a pipe; rows with only texts; names of jobs and of results."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.cli.terminal import on_terminal
from tests.crash.stage import HEADWAY, Stage, contents, echoes

from headway.stores.files import ForeignFile, Replacement


def parsed(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("out", ["-", "/dev/stdout", "/dev/fd/1"])
def test_rows_go_to_standard_output_in_order(stage: Stage, headway: Headway, out: str) -> None:
    done = headway("run", "in.jsonl", "--out", out)
    assert done.code == 0, done.err
    assert contents(parsed(done.out)) == echoes(10)
    assert "results: standard output" in done.err
    assert sorted(path.name for path in stage.root.iterdir()) == [".headway", "headway.toml", "in.jsonl"]
    again = headway("run", "in.jsonl", "-q")
    assert again.out == done.out, "the job keeps its output, and all rows come again"


def test_a_pipe_gets_rows_while_the_job_runs(stage: Stage) -> None:
    """It used to hang before anything was sent."""
    for out in ("/dev/stdout", "-"):
        command = [sys.executable, *HEADWAY, "run", "in.jsonl", "--fresh", "--out", out, "-q"]
        done = subprocess.run(
            command, cwd=stage.root, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert contents(parsed(done.stdout)) == echoes(10)


def test_standard_output_in_a_file_is_not_replaced(stage: Stage) -> None:
    target = stage.root / "o.jsonl"
    with target.open("w") as file:
        command = [sys.executable, *HEADWAY, "run", "in.jsonl", "--out", "/dev/stdout", "-q"]
        assert subprocess.run(command, cwd=stage.root, stdout=file, timeout=60, check=False).returncode == 0
    assert contents(parsed(target.read_text())) == echoes(10)


def test_a_reader_that_leaves_stops_the_run(stage: Stage) -> None:
    """`headway run … --out - | head -1`: nothing more is sent once the reader has gone."""
    stage.units = 4_000
    stage.configure("max_concurrency = 2")
    stage.write_input()
    command = [sys.executable, *HEADWAY, "run", "in.jsonl", "--out", "-"]
    with subprocess.Popen(
        command, cwd=stage.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        try:
            assert run.stdout.readline()
            run.stdout.close()
            said = run.stderr.read()
            assert run.wait(60) == 1
        finally:
            run.kill()
    assert "standard output was closed by its reader: the run was stopped" in said
    assert "Traceback" not in said
    [(ended,)] = stage.query("SELECT count(*) FROM units WHERE status = 'succeeded'")
    assert 0 < ended < 4_000


def test_devices_and_pipes_are_written_and_never_replaced(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--out", "/dev/null")
    assert done.code == 0, done.err
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = stage.root / "pipe.jsonl"
    os.mkfifo(pipe)
    for command in (("run", "in.jsonl", "--out", "pipe.jsonl"), ("export", "--out", "pipe.jsonl", "--force")):
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        assert headway(*command, "-q" if command[0] == "run" else "--json").code == 0
        with open(reader, "rb") as file:  # Ten rows fit into the buffer of a pipe.
            assert contents(parsed(file.read().decode())) == echoes(10)
        assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_replacement_refuses_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFile, match="is not a regular file"), Replacement(tmp_path / "pipe"):
        pass


def test_rows_on_a_terminal_are_not_overwritten_by_a_live_display(stage: Stage) -> None:
    stage.write_input([stage.row(0, prompt="say \x9b31m red")])
    shown = on_terminal(stage, "run", "in.jsonl", "--out", "-", columns=400)
    assert "\x1b" not in shown
    assert "\x9b" not in shown, "a terminal gets control characters escaped"
    assert '"custom_id":"u0"' in shown
    assert "done: 1 of 1 succeeded" in shown


def test_a_report_and_rows_do_not_share_standard_output(headway: Headway) -> None:
    refused = headway("run", "in.jsonl", "--out", "-", "--json")
    assert (refused.code, refused.out) == (2, "")


# -- texts ------------------------------------------------------------------------------------------------------------


def test_rows_with_only_ids_and_texts(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "--text-only", "-q").code == 0
    expected = [{"id": f"u{n}", "text": f"echo: say {n}"} for n in range(10)]
    assert parsed(stage.out.read_text()) == expected
    assert headway("run", "in.jsonl", "-q").code == 0, "a later run keeps the form"
    assert parsed(stage.out.read_text()) == expected
    assert parsed(headway("export", "--text-only").out) == expected
    (stage.root / "t.csv").write_text("text\nx\n")
    assert headway("run", "t.csv", "--prompt", "say {{text}}", "-q").code == 0
    refused = headway("run", "t.csv", "--prompt", "say {{text}}", "--text-only")
    assert (refused.code, "does not go with a table" in refused.err) == (2, True), "the job keeps its table"
    refused = headway("run", "in.jsonl", "--text-only", "--out", "x.csv")
    assert (refused.code, "does not go with a table" in refused.err) == (2, True)
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "--fresh", "--text-only", "--out", "-", "-q").code == 1
    failed = parsed(headway("export", "--text-only").out)
    assert failed[0]["text"] is None
    assert failed[0]["error"]["code"] == "auth"


def test_a_file_of_texts_belongs_to_its_job(stage: Stage, headway: Headway) -> None:
    for order in ("input", "completion"):
        out = f"{order}.jsonl"
        flags = ("--text-only", "--out", out, "--out-order", order, "-q")
        assert headway("run", "in.jsonl", *flags).code == 0
        half = (stage.root / out).read_bytes().splitlines(keepends=True)[:4]
        (stage.root / out).write_bytes(b"".join(half) + b'{"id":"u4","te')
        assert headway("run", "in.jsonl", *flags).code == 0, "the job may complete its own file"
        assert len(parsed((stage.root / out).read_text())) == 10
        refused = headway("run", "in.jsonl", "--fresh", *flags)
        assert (refused.code, "has the results of another job" in refused.err) == (2, True)


# -- names ------------------------------------------------------------------------------------------------------------


def test_a_name_names_the_job_and_its_results(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--name", "v2")
    assert done.code == 0, done.err
    rows = parsed((stage.root / "in.v2.results.jsonl").read_text())
    assert rows[3]["id"] == "v2-3"
    assert json.loads(headway("status", "v2", "--json").out)["job"] == "v2"
    other = headway("run", "in.jsonl", "--name", "v3")
    assert "this was run before as job v2, which continues" in other.err
    taken = headway("run", "in.jsonl", "--model", "other", "--name", "v2")
    assert (taken.code, "there is a job of that name" in taken.err) == (2, True)
    for bad in ("a/b", "..", "-x", "", "x" * 61):
        assert headway("run", "in.jsonl", "--name", bad).code == 2 or bad == ""


def test_another_prompt_needs_no_new_output_name(stage: Stage, headway: Headway) -> None:
    (stage.root / "r.csv").write_text("id,text\na,x\n")
    assert headway("run", "r.csv", "--prompt", "say {{text}}", "-q").code == 0
    done = headway("run", "r.csv", "--prompt", "sing {{text}}")
    assert done.code == 0, done.err
    jobs = json.loads(headway("jobs", "--json").out)
    assert [job["prompt"] for job in jobs] == ["sing {{text}}", "say {{text}}"]
    newest = jobs[0]["job"]
    assert f"this job writes to r.{newest}.results.csv" in done.err
    assert "say x" in (stage.root / "r.results.csv").read_text()
    assert "sing x" in (stage.root / f"r.{newest}.results.csv").read_text()
    dry = headway("run", "r.csv", "--prompt", "hum {{text}}", "--dry-run", "--json")
    assert json.loads(dry.out)["out"].startswith(str(stage.root / "r.r-")), "a dry run names the same file"
    listed = headway("jobs").out
    assert "sing {{text}}" in listed
    assert "alpha/gpt-x" in listed


def test_a_default_name_that_somebody_else_uses_is_not_overwritten(stage: Stage, headway: Headway) -> None:
    stage.out.write_text("mine\n")
    refused = headway("run", "in.jsonl")
    assert (refused.code, stage.out.read_text()) == (2, "mine\n")
