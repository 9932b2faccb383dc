"""`headway jobs`, `status`, `show`, `export`, `lanes`: text and JSON."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, contents, echoes

from headway.cli import COMMANDS
from headway.display.report_json import fields_json, report_json

LOOKING = ("jobs", "status", "show", "export", "lanes")


@pytest.fixture
def job(stage: Stage, headway: Headway) -> str:
    """A finished job."""
    assert headway("run", "in.jsonl", "-q").code == 0
    return str(stage.job()["name"])


@pytest.mark.parametrize("command", ["run", "resume", "pause", "retry", "cancel", *LOOKING])
def test_help_shows_an_example(headway: Headway, command: str) -> None:
    done = headway(command, "--help")
    assert done.code == 0
    assert f"Example: headway {command}" in done.out
    assert "--json" in done.out
    assert command in COMMANDS


def test_jobs(stage: Stage, headway: Headway, job: str) -> None:
    shown = headway("jobs")
    assert shown.code == 0
    assert job in shown.out
    assert "complete" in shown.out
    [facts] = json.loads(headway("jobs", "--json").out)
    assert (facts["job"], facts["state"], facts["succeeded"], facts["pending"]) == (job, "complete", 10, 0)
    assert facts["input"] == str(stage.input)


def test_status_by_name_by_its_beginning_and_without_one(headway: Headway, job: str) -> None:
    for name in ((), (job,), (job[:4],)):
        assert f"job {job}: complete, 10 of 10 succeeded" in headway("status", *name).out
    facts = json.loads(headway("status", "--json").out)
    assert facts["per_lane"] == {"alpha/gpt-x": {"succeeded": 10}}
    refused = headway("status", "nothing-like-it")
    assert refused.code == 2
    assert "headway jobs" in refused.err


def test_a_prefix_of_several_jobs_of_a_file_means_the_latest(headway: Headway, job: str) -> None:
    assert headway("run", "in.jsonl", "--fresh", "--out", "b.jsonl", "-q").code == 0
    assert json.loads(headway("status", "in", "--json").out)["job"] == f"{job}-2"
    assert json.loads(headway("status", job, "--json").out)["job"] == job, "a complete name means that job"


def test_instants_are_iso_8601_in_every_json(headway: Headway, job: str) -> None:
    def instants(value: object) -> list[object]:
        if isinstance(value, list):
            return [one for each in value for one in instants(each)]
        if not isinstance(value, dict):
            return []
        own = [each for key, each in value.items() if key.endswith("_utc") and each is not None]
        return own + [one for each in value.values() for one in instants(each)]

    for args in (("jobs",), ("status",), ("show", job, "u1"), ("lanes",), ("run", "in.jsonl")):
        found = instants(json.loads(headway(*args, "--json").out))
        assert found, args
        for one in found:
            assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(one)), (args, one)


def test_data_of_users_is_not_taken_for_instants() -> None:
    assert report_json([{"seen_utc": 5.0, "deep": {"at_utc": 1}}]) == [
        {"seen_utc": 5.0, "deep": {"at_utc": 1}}
    ]
    assert fields_json({"at_utc": 0.5, "value": {"at_utc": 1}}) == {
        "at_utc": "1970-01-01T00:00:00.500Z",
        "value": {"at_utc": 1},
    }
    assert fields_json({"at_utc": 1e18, "until_utc": None}) == {"at_utc": None, "until_utc": None}


def test_units_that_never_ran_are_not_failed(stage: Stage, headway: Headway, job: str) -> None:
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("UPDATE jobs SET succeeded = 4, failed = 1, timed_out = 1, skipped = 2, cancelled = 2")
    _, row = headway("jobs").out.splitlines()
    assert row.split()[2:4] == ["4/10", "2"]


def test_a_newer_database_is_a_usage_error(stage: Stage, headway: Headway, job: str) -> None:
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("PRAGMA user_version = 99")
    for args in (("status",), ("run", "in.jsonl")):
        refused = headway(*args)
        assert (refused.code, "newer Headway" in refused.err) == (2, True)


def test_an_export_half_way_says_pending(stage: Stage, headway: Headway, job: str) -> None:
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("UPDATE units SET status = 'pending' WHERE uid & 4294967295 > 6")
        db.execute("UPDATE jobs SET succeeded = 7, state = 'running', finished_utc = NULL")
    rows = [json.loads(line) for line in headway("export").out.splitlines()]
    assert [row["error"] for row in rows[6:8]] == [None, {"code": "pending", "message": "not run yet"}]
    assert (
        headway("export", "--out", "half.jsonl").err == "wrote half.jsonl: 7 succeeded, 3 not finished yet\n"
    )
    assert headway("export", "--out-dir", "half").err == "wrote 7 answers to half; 3 not finished yet\n"
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("UPDATE jobs SET succeeded = 4, failed = 1, timed_out = 1, skipped = 1, cancelled = 2")
    assert headway("export", "--out", "rest.jsonl").err == (
        "wrote rest.jsonl: 4 succeeded, 2 failed, 1 skipped, 2 cancelled, 1 not finished yet\n"
    )


def test_retry_with_nothing_failed_points_to_resume(stage: Stage, headway: Headway, job: str) -> None:
    assert "no failed units: all 10 succeeded" in headway("retry", "--failed").err
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("UPDATE units SET status = 'pending' WHERE uid & 4294967295 > 6")
        db.execute("UPDATE jobs SET succeeded = 7, state = 'stopped'")
    refused = headway("retry", "--failed")
    assert refused.err == (
        f"job {job} has no failed units, but 3 that have not finished — to run them: headway resume {job}\n"
    )


def test_show_by_id_and_by_index(headway: Headway, job: str) -> None:
    by_id = headway("show", job, "u7", "--json")
    facts = json.loads(by_id.out)
    assert facts["unit"] == 7
    assert facts["request"]["body"]["messages"][0]["content"] == "say 7"
    assert facts["result"]["response"]["body"]["choices"][0]["message"]["content"] == "echo: say 7"
    [attempt] = facts["attempts"]
    assert (attempt["number"], attempt["outcome"]) == (1, "succeeded")
    assert json.loads(headway("show", job, "7", "--json").out) == facts
    assert "echo: say 7" in headway("show", job, "u7").out
    refused = headway("show", job, "u99")
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1


def test_export(stage: Stage, headway: Headway, job: str) -> None:
    written = stage.out.read_text()
    for flags in ((), ("--json",), (job,)):
        assert headway("export", *flags).out == written
    assert headway("export", "--out", "in.results.jsonl").code == 2, "not without --force"
    assert headway("export", "--out", "copy.jsonl").err == "wrote copy.jsonl: 10 succeeded\n"
    assert (stage.root / "copy.jsonl").read_text() == written
    assert contents([json.loads(line) for line in written.splitlines()]) == echoes(10)


def test_lanes(stage: Stage, headway: Headway, job: str) -> None:
    shown = headway("lanes")
    assert shown.code == 0
    assert "alpha/gpt-x" in shown.out
    [lane] = json.loads(headway("lanes", "--json").out)
    assert lane["lane"] == "alpha/gpt-x"
    assert lane["seen"]["window"] == 8


def test_lanes_and_the_end_of_a_run_name_the_same_limit(stage: Stage, headway: Headway) -> None:
    stage.configure('rpm = 600\nburst = "100ms"\nmax_concurrency = 8')
    done = headway("run", "in.jsonl", "--progress", "none")
    assert done.code == 0, done.err
    said = next(line for line in done.err.splitlines() if "alpha/gpt-x: 10 succeeded; " in line)
    _, _, limit = said.partition("; ")
    assert "limited by 600 requests per minute" in limit
    assert f"  latest run: {limit}\n" in headway("lanes").out


def test_use_of_a_daily_limit_is_what_was_taken_of_it(stage: Stage, headway: Headway) -> None:
    """Ten requests in a moment use ten of a daily limit, not ten thousand times its rate."""
    stage.configure("rpd = 1000\nrpm = 60000")
    assert headway("run", "in.jsonl", "-q").code == 0
    [lane] = json.loads(headway("lanes", "--json").out)
    assert lane["seen"]["binding"] != "requests per day"
    assert 0.0 <= lane["seen"]["used_of_binding"] <= 1.0
    assert 0.0 <= stage.progress()["lanes"]["alpha/gpt-x"]["used_of_binding"] <= 1.0
    shown = headway("lanes").out
    assert "1,000 requests per day (configured or learned): 990 available\n" in shown
    assert "60,000 requests per minute (configured or learned)" in shown
    assert "bucket depth" in shown


def test_without_records_commands_say_so(headway: Headway) -> None:
    for command in (("jobs",), ("status",), ("show", "a", "b"), ("export",), ("lanes",)):
        done = headway(*command)
        assert done.code in (1, 2)
        assert len(done.err.splitlines()) == 1
        assert "headway run FILE" in done.err


def test_attempts_that_failed_are_shown(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.units = 2  # Five failures in a row would open the lane's breaker.
    stage.write_input()
    monkeypatch.setenv("ALPHA_KEY", "sk-broken-account")
    stage.configure(more="[providers.alpha.retry]\nbase = '10ms'\n[run]\nmax_attempts = 2")
    assert headway("run", "in.jsonl", "-q").code == 1
    name = stage.job()["name"]
    facts = json.loads(headway("show", name, "u0", "--json").out)
    assert [(one["number"], one["outcome"], one["kind"]) for one in facts["attempts"]] == [
        (1, "failed", "transient"),
        (2, "failed", "transient"),
    ]
    assert facts["attempts"][0]["status_code"] == 500
    status = headway("status")
    assert "2 units ended with 'transient'" in status.out
    assert f"headway retry --failed {name}" in status.out
    [failure] = json.loads(headway("status", "--json").out)["failures"]
    assert (failure["code"], failure["units"]) == ("transient", 2)


def test_units_with_an_unknown_outcome_are_named_after_a_crash(stage: Stage, headway: Headway) -> None:
    stage.write_input([stage.row(index, max_tokens=100) for index in range(stage.units)])
    kill = {"kill": {"at": "add_answer", "when": "after", "n": 1}}
    stage.ends_by_kill("run", "in.jsonl", faults=kill)
    lost = min(stage.unknown_units())
    state = json.loads(headway("status", "--json").out)
    assert (state["state"], state["live"]) == ("interrupted", False)
    assert set(state["unknown"]) == {f"u{index}" for index in stage.unknown_units()}
    units = len(state["unknown"])
    counts = state["per_lane"]["alpha/gpt-x"]
    assert counts.pop("unknown") == units
    assert counts in ({}, {"pending": 10 - units})
    shown = headway("status").out
    assert "no process runs this job" in shown
    assert f"{units} units were in flight; the outcome is unknown until the job is resumed: u" in shown
    assert "assigned" not in shown
    assert "running" not in shown
    resumed = headway("resume")
    assert resumed.code == 0
    assert f"{units} units may have been sent" in resumed.err
    assert f"at most {100 * units:,} out" in resumed.err, "and the most that they may cost again"
    attempts = json.loads(headway("show", state["job"], str(lost), "--json").out)["attempts"]
    assert [one["outcome"] for one in attempts] == ["lost", "succeeded"]
