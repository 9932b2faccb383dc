"""A kind of job is what its class says: one that is added as a class and an entry is run, resumed and shown like the others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.jobs.lines_kind import LINES
from tests.wiring.echo_kind import ECHO, EchoBuilder

from headway import config
from headway.cli import main
from headway.errors import UsageError
from headway.jobs.base import FileJobKind
from headway.jobs.kinds import KINDS, file_kind_of, kind_for, kind_of, must_take_commands
from headway.stores.records import Job, NewJob
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.wiring.builders import BUILDERS


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kind "lines", and a file of two lines for a provider that gives them back."""
    monkeypatch.setitem(KINDS, LINES.name, LINES)
    monkeypatch.setitem(config.KINDS, ECHO.name, ECHO)
    monkeypatch.setitem(BUILDERS, ECHO.builder, EchoBuilder())
    monkeypatch.chdir(tmp_path)
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    Path("headway.toml").write_text("[providers.e]\nkind = 'echo'\nword = 'hey'\n")
    Path("in.lines").write_text("one\ntwo\n")
    return tmp_path


def job_of(kind: str) -> Job:
    store = Store(SqliteMemory())
    job, _ = store.find_or_add(
        NewJob("a-job", kind, "reviews.ask", "", "", time.time(), {}), lambda job: False
    )
    return job


def test_a_file_of_the_kind_is_run_and_its_answers_are_written(lines: Path) -> None:
    assert main(["run", "in.lines", "-q"]) == 0
    assert Path("in.answers").read_text() == '["HEY","ONE"]\n["HEY","TWO"]\n'


def test_the_kind_claims_its_output_before_anything_is_stored(
    lines: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("in.answers").write_text("mine")
    assert main(["run", "in.lines", "-q"]) == 2
    assert "in.answers is taken" in capsys.readouterr().err
    assert main(["jobs"]) == 0
    assert "there are no jobs yet" in capsys.readouterr().out
    assert main(["run", "in.lines", "-q", "--out-order", "completion"]) == 2
    assert "lines have one order" in capsys.readouterr().err


def test_the_same_file_again_is_the_same_job_and_is_written_again(lines: Path) -> None:
    for _ in range(2):
        assert main(["run", "in.lines", "-q", "--force"]) == 0
    Path("in.answers").unlink()
    assert main(["resume", "-q"]) == 0
    assert Path("in.answers").read_text() == '["HEY","ONE"]\n["HEY","TWO"]\n'


def test_a_job_of_the_kind_is_planned(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "in.lines", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["requests"] == 2


def test_commands_show_what_the_kind_says(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "in.lines", "-q"]) == 0
    assert main(["jobs"]) == 0
    assert "lines of in.lines" in capsys.readouterr().out
    assert main(["status"]) == 0
    assert "the longest line has 3 characters" in capsys.readouterr().out
    assert main(["show", "in", "two"]) == 0
    assert capsys.readouterr().out.endswith("  a remark\nline:\ntwo\n")
    assert main(["show", "in", "two", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["line"] == 1
    assert main(["export", "--out", "copy.jsonl"]) == 0
    assert Path("copy.jsonl").read_text() == '["HEY","ONE"]\n["HEY","TWO"]\n'


def test_every_kind_is_registered_under_its_name() -> None:
    assert {name: kind.name for name, kind in KINDS.items()} == {name: name for name in KINDS}


def test_a_batch_is_every_file_that_no_other_kind_reads(lines: Path) -> None:
    assert kind_for("in.lines") is LINES
    for path in ("in.jsonl", "in.csv", "-", "whatever"):
        assert kind_for(path).name == "batch"


@pytest.mark.parametrize("name", ["map", "pool"])
def test_only_a_python_program_can_run_its_jobs(name: str) -> None:
    job = job_of(name)
    assert not isinstance(kind_of(job), FileJobKind)
    with pytest.raises(UsageError, match="run that program again"):
        file_kind_of(job)
    with pytest.raises(UsageError, match="takes no commands"):
        must_take_commands(job)
    step = kind_of(job).next_step(job, "interrupted", lambda: pytest.fail("no command resumes it"))
    assert step == "to resume, run its program again: finished calls are not repeated"


def test_a_batch_takes_commands_and_can_be_resumed() -> None:
    job = job_of("batch")
    must_take_commands(job)
    step = file_kind_of(job).next_step(job, "interrupted", lambda: "headway resume a-job")
    assert step == "to resume: headway resume a-job"


def test_a_kind_of_a_later_version_is_named() -> None:
    with pytest.raises(UsageError, match="job a-job is a later, a kind that this version does not know"):
        kind_of(job_of("later"))


def test_a_batch_loads_no_modules_of_flows(tmp_path: Path) -> None:
    """They are a tenth of the start-up of a small job."""
    (tmp_path / "headway.toml").write_text('[providers.c]\nkind = "command"\ncommand = ["cat"]\n')
    (tmp_path / "in.jsonl").write_text('{"prompt": "hello"}\n')
    code = (
        "import sys; from headway.cli import main; code = main(['run', 'in.jsonl', '-q']);"
        "print(code, [name for name in sys.modules if name.startswith('headway.flows')])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr
