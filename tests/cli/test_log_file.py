"""`--log-file`: events are appended to a file, whatever is shown; it never contains a key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import KEY, Stage

from headway.display import log_file
from headway.display.log_file import LogFile
from headway.display.logs import log_line
from headway.errors import UsageError
from headway.stores.records import JobEvent

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def lines_of(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    return text.splitlines()


def test_text_lines_have_their_time_and_a_second_run_adds_to_them(stage: Stage, headway: Headway) -> None:
    log = stage.root / "run.log"
    done = headway("run", "in.jsonl", "--log-file", "run.log", "-q")
    assert (done.code, done.err) == (0, ""), "independent of what is shown"
    lines = lines_of(log)
    assert all(STAMP.match(line) for line in lines)
    assert "10 units" in lines[0]
    assert any("done: 10 of 10 succeeded" in line for line in lines)
    assert headway("resume", "--log-file", "run.log", "-q").code == 0
    more = lines_of(log)
    assert more[: len(lines)] == lines
    assert "nothing was sent" in more[-1]


def test_json_lines(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "INTERVAL_S", 0.0)
    assert headway("run", "in.jsonl", "--log-file", "run.log", "--log-format", "json").code == 0
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines_of(stage.root / "run.log")]
    assert all(STAMP.fullmatch(one["at"]) for one in entries)
    assert entries[0]["event"] == "began"
    assert (entries[0]["total"], entries[0]["unknown"]) == (10, [])
    assert "progress" in {one["event"] for one in entries}
    assert entries[-1]["event"] == "finished"
    assert (entries[-1]["state"], entries[-1]["succeeded"]) == ("complete", 10)


def test_at_the_level_debug_every_attempt_has_its_ids_and_nothing_foreign_breaks_a_line(
    stage: Stage, headway: Headway
) -> None:
    name = "a b=c\x1b[31m\nd"
    rows = [{"id": f"r{n}", "prompt": f"say {n}"} for n in range(3)] + [{"id": name, "prompt": "#never"}]
    stage.input.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (stage.root / "s.json").write_text('{"type": "object"}')
    command = ("run", "in.jsonl", "--name", "j", "--schema", "s.json", "-q", "--log-level", "debug")
    assert headway(*command, "--log-file", "run.json", "--log-format", "json").code == 1
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines_of(stage.root / "run.json")]
    assert all(tuple(one)[: len(log_line.KEYS)] == log_line.KEYS for one in entries)
    assert {one["event"] for one in entries} <= set(log_line.EVENT_LEVELS)
    [failed] = [one for one in entries if one["event"] == "unit.failed" and one["unit"] == name]
    assert (failed["level"], failed["job"], failed["lane"], failed["status"]) == (
        "warning",
        "j",
        "alpha/gpt-x",
        "failed",
    )
    assert {one["attempt"] for one in entries if one["event"] == "unit.started" and one["unit"] == name} >= {
        1
    }
    assert (
        headway("retry", "j", "--failed", "-q", "--log-level", "warning", "--log-file", "run.log").code == 1
    )
    lines = lines_of(stage.root / "run.log")
    assert all(line.split(" ")[1] in ("warning", "error") for line in lines)
    [line] = [line for line in lines if 'unit="a b=c' in line]
    assert line.isprintable()


def test_the_page_about_logs_has_what_the_code_has() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "logs.md").read_text(encoding="utf-8")
    keys, events = page.partition("## Events")[::2]
    assert tuple(re.findall(r"^\| `(\w+)` \|", keys.partition("## Keys")[2], re.MULTILINE)) == log_line.KEYS
    of_events, of_notices = events.partition("Levels of `noted`")[::2]
    cells = re.compile(r"^\| `([\w.]+)` \| `(\w+)` \|", re.MULTILINE)
    assert dict(cells.findall(of_events)) == log_line.EVENT_LEVELS
    assert dict(cells.findall(of_notices)) == log_line.NOTED_LEVELS


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_has_events_and_no_keys(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    done = headway("run", "in.jsonl", "--log-file", "run.log", "--log-format", form, "--progress", "none")
    assert done.code == 1
    text = (stage.root / "run.log").read_text(encoding="utf-8")
    assert "stopped" in text
    assert "auth" in text
    assert "sk-revoked-account" not in text
    assert KEY not in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log_has_the_error_that_ends_a_run(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "-q").code == 1
    monkeypatch.delenv("ALPHA_KEY")
    assert headway("resume", "--log-file", "run.log", "--log-format", form).code == 2
    [line] = lines_of(stage.root / "run.log")
    assert "ALPHA_KEY is not set" in line
    assert form == "text" or json.loads(line)["event"] == "failed"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (".", "is a directory"),
        ("nowhere/run.log", "there is no directory"),
        ("in.results.jsonl", "is the results file"),
        ("in.jsonl", "a file of the job itself"),
        (".headway/headway.db", "a file of the job itself"),
    ],
)
def test_a_file_of_the_job_itself_is_refused(stage: Stage, headway: Headway, name: str, says: str) -> None:
    (stage.root / ".headway").mkdir()
    before = stage.input.read_bytes()
    refused = headway("run", "in.jsonl", "--log-file", name, "-q")
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1
    assert says in refused.err
    assert stage.input.read_bytes() == before
    assert [stage.sent(index) for index in range(stage.units)] == [0] * 10


def test_a_disk_that_is_full_disturbs_nothing(stage: Stage, headway: Headway) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    done = headway("run", "in.jsonl", "--log-file", "/dev/full", "-q")
    assert done.code == 0
    assert done.err == "/dev/full: some lines could not be written: no space left on device\n"


def test_a_hold_is_written_in_utc_and_on_one_line(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "run.log")
    log.noted(JobEvent(1_800_000_000.0, "alpha/gpt-x", "held", "come back\nlater", 1_800_000_060.0))
    log.close()
    assert lines_of(tmp_path / "run.log") == [
        "2027-01-15T08:00:00.000Z warning lane=alpha/gpt-x  alpha/gpt-x: held until 2027-01-15T08:01:00.000Z: come back later"
    ]


def test_of_a_bug_only_the_type_is_logged(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "run.log")
    log.failed(ValueError(f"a bug with {KEY} in its text"))
    log.failed(UsageError("a mistake", hint="mend it"))
    log.close()
    first, second = lines_of(tmp_path / "run.log")
    assert first.endswith("error: ValueError")
    assert second.endswith("error: a mistake — mend it")
