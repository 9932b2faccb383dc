"""`headway run`: what is sent, written and refused, and how a run ends."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, contents, echoes, plain


def sent(stage: Stage) -> list[int]:
    return [stage.sent(index) for index in range(stage.units)]


def test_every_unit_is_sent_once_and_answered_in_order(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl")
    assert done.code == 0
    assert "10 of 10 succeeded" in done.err
    assert done.out == ""
    rows = stage.rows()
    assert contents(rows) == echoes(10)
    assert sent(stage) == [1] * 10
    assert set(rows[0]) == {"id", "custom_id", "response", "error", "headway"}
    assert set(rows[0]["response"]) == {"status_code", "request_id", "body"}
    keys = {"index", "status", "lane", "attempts", "usage", "cost_usd", "started_utc", "finished_utc"}
    assert set(rows[0]["headway"]) == keys | {"text"}
    assert [row["headway"]["text"] for row in rows] == [f"echo: say {index}" for index in range(10)]
    assert rows[0]["headway"]["lane"] == "alpha/gpt-x"


def test_a_finished_file_is_written_again_without_a_call(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl").code == 0
    first = stage.out.read_bytes()
    stage.out.unlink()
    done = headway("run", "in.jsonl")
    assert (done.code, stage.out.read_bytes()) == (0, first)
    assert "is already complete" in done.err
    assert headway("run", "in.jsonl", "--out", "elsewhere/new.jsonl").code == 0
    assert (stage.root / "elsewhere" / "new.jsonl").read_bytes() == first
    assert sent(stage) == [1] * 10


def test_a_job_keeps_its_output_unless_its_input_was_moved(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "--out", "o.jsonl", "-q").code == 0
    first = (stage.root / "o.jsonl").read_bytes()
    (stage.root / "o.jsonl").unlink()
    assert headway("run", "in.jsonl", "-q").code == 0
    assert (stage.root / "o.jsonl").read_bytes() == first
    assert not stage.out.exists()
    copy = stage.root.with_name(f"{stage.root.name}-copy")
    shutil.copytree(stage.root, copy)
    monkeypatch.chdir(copy)
    (stage.root / "o.jsonl").unlink()
    assert headway("run", "in.jsonl", "-q").code == 0
    assert not (stage.root / "o.jsonl").exists(), "a copy of the folder does not write to the original"
    assert (copy / "in.results.jsonl").read_bytes() == first


def test_a_changed_input_is_a_new_job_and_says_so(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    rows = [stage.row(index) for index in range(stage.units)]
    rows[3]["prompt"] = "say something else"
    stage.write_input(rows)
    before = stage.out.read_bytes()
    refused = headway("run", "in.jsonl", "--out", "in.results.jsonl")
    assert refused.code == 2
    assert "this is a new job" in refused.err
    assert "--force" in refused.err, "the old results are not overwritten unasked"
    assert sent(stage) == [1] * 10
    done = headway("run", "in.jsonl")
    assert done.code == 0
    newest = json.loads(headway("jobs", "--json").out)[0]["job"]
    assert f"this job writes to in.{newest}.results.jsonl" in done.err
    assert len((stage.root / f"in.{newest}.results.jsonl").read_bytes().splitlines()) == 10
    assert stage.out.read_bytes() == before
    assert len(json.loads(headway("jobs", "--json").out)) == 2
    assert sent(stage) == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1], "only the changed row is sent again"
    assert "is already complete" in headway("run", "in.jsonl").err, "the same input continues in its own file"
    assert sorted(path.name for path in stage.root.glob("*.results*")) == sorted(
        ["in.results.jsonl", f"in.{newest}.results.jsonl"]
    )


def test_another_model_is_a_new_job_and_nothing_else_is(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    stage.configure("rpm = 6000\nmax_concurrency = 3", more="[run]\ntimeout = '5m'\nmax_attempts = 2")
    monkeypatch.setenv("ALPHA_KEY", "sk-another-key-altogether")
    toml = stage.root / "headway.toml"
    toml.write_text(toml.read_text().replace("/v1", "").replace("127.0.0.1", "localhost"))
    same = headway("run", "in.jsonl")
    assert same.code == 0
    assert "is already complete" in same.err
    assert sent(stage) == [1] * 10
    stage.configure(model="gpt-y")
    other = headway("run", "in.jsonl", "--out", "y.jsonl")
    assert other.code == 0
    assert "this is a new job" in other.err
    assert sent(stage) == [2] * 10


def test_fresh_starts_over(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    assert headway("run", "in.jsonl", "--fresh", "--out", "again.jsonl").code == 0
    assert sent(stage) == [2] * 10
    assert len(json.loads(headway("jobs", "--json").out)) == 2
    assert headway("run", "in.jsonl", "--out", "again.jsonl").code == 0, "the newer of the two is meant now"
    assert sent(stage) == [2] * 10


@pytest.mark.parametrize("compressed", [False, True])
def test_standard_input(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, compressed: bool
) -> None:
    data = stage.input.read_bytes()
    for _ in range(2):
        stream = io.TextIOWrapper(io.BytesIO(gzip.compress(data) if compressed else data))
        monkeypatch.setattr(sys, "stdin", stream)
        assert headway("run", "-", "--out", "out.jsonl").code == 0
    lines = (stage.root / "out.jsonl").read_text().splitlines()
    assert contents([json.loads(line) for line in lines]) == echoes(10)
    assert sent(stage) == [1] * 10, "the same again is the same job"


def test_a_compressed_file_is_the_same_job(stage: Stage, headway: Headway) -> None:
    (stage.root / "in.jsonl.gz").write_bytes(gzip.compress(stage.input.read_bytes()))
    assert headway("run", "in.jsonl.gz", "-q").code == 0
    assert contents(stage.rows()) == echoes(10), "in.jsonl.gz → in.results.jsonl"
    assert headway("run", "in.jsonl", "-q").code == 0
    assert sent(stage) == [1] * 10


# -- bad input -------------------------------------------------------------------------------------------------------


def test_bad_rows_are_named_by_their_lines_and_nothing_is_sent(stage: Stage, headway: Headway) -> None:
    lines = stage.input.read_text().splitlines()
    lines[3] = "{not json"
    lines[7] = '{"id": "no-prompt"}'
    stage.input.write_text("\n".join(lines))
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    assert "in.jsonl:4" in refused.err
    assert "in.jsonl:8" in refused.err
    assert "2 bad rows" in refused.err.splitlines()[-1]
    assert sent(stage) == [0] * 10
    assert json.loads(headway("jobs", "--json").out) == []
    done = headway("run", "in.jsonl", "--skip-bad-rows")
    assert done.code == 0
    assert "2 bad rows were left out" in done.err
    assert [row["custom_id"] for row in stage.rows()] == [f"u{n}" for n in (0, 1, 2, 4, 5, 6, 8, 9)]


def test_an_id_that_occurs_twice(stage: Stage, headway: Headway) -> None:
    rows = [stage.row(index) for index in range(stage.units)]
    rows[8]["id"] = rows[2]["id"]
    stage.write_input(rows)
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    assert "'u2' occurs twice (lines 3 and 9)" in refused.err
    assert sent(stage) == [0] * 10


def test_bad_rows_and_repeated_ids_are_shown_together(stage: Stage, headway: Headway) -> None:
    rows = [stage.row(index) for index in range(stage.units)]
    rows[8]["id"] = rows[2]["id"]
    rows[9]["id"] = rows[1]["id"]
    del rows[5]["prompt"]
    stage.write_input(rows)
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    *problems, last = refused.err.splitlines()
    assert problems == [
        'in.jsonl:6: expected one of "prompt", "messages" and "input"',
        "in.jsonl: the id 'u2' occurs twice (lines 3 and 9)",
        "in.jsonl: the id 'u1' occurs twice (lines 2 and 10)",
    ]
    assert "in.jsonl has 1 bad row and 2 repeated ids; nothing was sent" in last
    assert json.loads(headway("jobs", "--json").out) == []
    refused = headway("run", "in.jsonl", "--skip-bad-rows")
    assert (refused.code, len(refused.err.splitlines())) == (2, 3), "an id that occurs twice is not skipped"


def test_a_misspelt_key_of_a_row_is_suggested(stage: Stage, headway: Headway) -> None:
    stage.write_input([{"id": "a", "promt": "say a"}, {"id": "b", "text": "say b"}])
    refused = headway("run", "in.jsonl").err
    expected = 'expected one of "prompt", "messages" and "input"'
    assert f'in.jsonl:1: {expected}; did you mean "prompt" instead of "promt"?\n' in refused
    assert f"in.jsonl:2: {expected}\n" in refused


def test_the_summary_of_a_second_run_says_what_is_of_this_run(stage: Stage, headway: Headway) -> None:
    first = headway("run", "in.jsonl", "--progress", "none").err
    assert first.startswith("done: 10 of 10 succeeded in ")
    with closing(sqlite3.connect(stage.db)) as db, db:
        db.execute("UPDATE units SET status = 'pending' WHERE uid & 4294967295 > 6")
        db.execute("UPDATE jobs SET succeeded = 7, state = 'interrupted'")
    second = headway("resume", "--progress", "none").err
    assert second.startswith("done: 10 of 10 succeeded, 3 of them in this run, in ")
    assert "  all runs: " in second


def test_a_misspelt_provider_warns_once_in_a_new_job(stage: Stage, headway: Headway) -> None:
    stage.write_input([stage.row(index, model="alfa/gpt-x") for index in range(3)])
    warning = (
        "warning: no provider 'alfa': 'alfa/gpt-x' is sent to alpha as a model; did you mean alpha/gpt-x?\n"
    )
    done = headway("run", "in.jsonl")
    assert done.code == 0, done.err
    assert done.err.count(warning) == 1
    assert warning in headway("run", "in.jsonl", "--out", "b.jsonl", "--fresh", "--dry-run").err
    assert warning not in headway("run", "in.jsonl").err, "the job has been made"


def test_no_model_anywhere_is_one_error(stage: Stage, headway: Headway) -> None:
    config = stage.root / "headway.toml"
    config.write_text(config.read_text().replace('model = "gpt-x"', ""))
    (stage.root / "t.csv").write_text("text\n" + "good\n" * 500)
    for args in (("t.csv", "--prompt", "Is this positive? {{text}}"), ("in.jsonl", "--skip-bad-rows")):
        refused = headway("run", *args)
        assert (refused.code, refused.err) == (
            2,
            f"headway: {args[0]}: no row names a model, and provider 'alpha' has no default model; nothing was sent — "
            "name one with --model, or set model in [providers.alpha] of headway.toml\n",
        )
    rows = [stage.row(index) for index in range(3)]
    rows[1]["model"] = "gpt-x"
    stage.write_input(rows)
    assert "in.jsonl has 2 bad rows" in headway("run", "in.jsonl").err, "another row names one"
    assert headway("run", "t.csv", "--prompt", "{{text}}", "--model", "gpt-x", "--limit", "3", "-q").code == 0


def test_an_id_that_occurs_twice_is_left_out_with_the_bad_rows(stage: Stage, headway: Headway) -> None:
    rows = [stage.row(index) for index in range(stage.units)]
    rows[8]["id"] = rows[2]["id"]
    stage.write_input(rows)
    done = headway("run", "in.jsonl", "--skip-bad-rows")
    assert done.code in (0, 2), "left out or refused, but never sent twice under one id"
    assert all(times <= 1 for times in sent(stage))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("run", "missing.jsonl"), "no such file"),
        (("run", "in.jsonl", "--config", "missing.toml"), "missing.toml"),
        (("run", "in.jsonl", "--timeout", "soon"), "timeout"),
        (("run", "in.jsonl", "--concurrency", "-1"), "concurrency"),
        (("run", "in.jsonl", "--out", "."), "directory"),
        (("run", "in.jsonl", "--only-failed"), "has not been run yet"),
        (("run",), "FILE"),
        (("resume", "nothing"), "there is no"),
        (("status",), "there is no"),
        (("pause",), "there is no"),
        (("retry",), "--failed"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    stage: Stage, headway: Headway, args: tuple[str, ...], says: str
) -> None:
    refused = headway(*args)
    assert refused.code in ((1, 2) if says == "there is no" else (2,))
    assert len(refused.err.splitlines()) == 1
    assert refused.err.startswith("headway: ")
    assert says.lower() in refused.err.lower()
    assert sent(stage) == [0] * 10


def test_a_key_that_is_not_set(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ALPHA_KEY")
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    assert "ALPHA_KEY" in refused.err.splitlines()[-1]
    (stage.root / ".env").write_text("ALPHA_KEY=sk-from-a-file\n")
    assert headway("run", "in.jsonl", "-q").code == 0


# -- the output file ---------------------------------------------------------------------------------------------------


def test_a_foreign_file_is_never_overwritten_without_force(stage: Stage, headway: Headway) -> None:
    stage.out.write_text("my notes\n")
    refused = headway("run", "in.jsonl")
    assert refused.code == 2
    assert "--force" in refused.err.splitlines()[-1]
    assert stage.out.read_text() == "my notes\n"
    assert sent(stage) == [0] * 10
    assert headway("run", "in.jsonl", "--force").code == 0
    assert contents(stage.rows()) == echoes(10)


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("name", ["nosuch.csv", "nosuch.parquet"])
def test_a_missing_table_is_reported_before_a_missing_prompt(
    headway: Headway, stage: Stage, command: str, name: str
) -> None:
    done = headway(command, name)
    assert done.code == 2
    assert done.err.startswith(f"headway: {name}: no such file — ")


def test_completion_order_and_back_to_input_order(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-mixed-account")
    assert headway("run", "in.jsonl", "--out-order", "completion").code == 0
    rows = stage.rows()
    ends = [row["headway"]["finished_utc"] for row in rows]
    assert ends == sorted(ends)
    assert contents(rows) != echoes(10), "with delays from 20 to 900 ms they do not end in input order"
    assert sorted(contents(rows), key=lambda row: int(row["index"])) == echoes(10)
    assert headway("run", "in.jsonl").code == 0
    assert contents(stage.rows()) == echoes(10), "the same job in input order"
    assert sent(stage) == [1] * 10


@pytest.mark.parametrize("order", ["input", "completion"])
def test_a_later_answer_replaces_the_row_of_a_failure(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    stage.units = 2  # Five failures in a row would open the lane's breaker.
    stage.write_input()
    monkeypatch.setenv("ALPHA_KEY", "sk-broken-account")
    stage.configure(more="[providers.alpha.retry]\nbase = '10ms'\n[run]\nmax_attempts = 2")
    failed = headway("run", "in.jsonl", "--out-order", order)
    assert failed.code == 1
    assert [row["error"]["code"] for row in stage.rows()] == ["transient"] * 2
    assert [row["response"] for row in stage.rows()] == [None] * 2
    assert {row["headway"]["attempts"] for row in stage.rows()} == {2}
    monkeypatch.setenv("ALPHA_KEY", "sk-quick-account")
    assert headway("run", "in.jsonl", "--only-failed", "--out-order", order).code == 0
    rows = stage.rows()
    assert sorted(contents(rows), key=lambda row: int(row["index"])) == echoes(2)


def test_retry_failed_runs_only_failed_units(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [stage.row(index) for index in range(stage.units)]
    for index in (2, 5):
        rows[index]["model"] = "beta/gpt-x"
    stage.write_input(rows)
    beta = f'[providers.beta]\nkind = "openai"\nbase_url = "{stage.fake.url}"\napi_key_env = "BETA_KEY"\n'
    more = beta + "[providers.beta.retry]\nbase = '10ms'\n[run]\nmax_attempts = 1\nprovider = 'alpha'"
    stage.configure(more=more)
    monkeypatch.setenv("BETA_KEY", "sk-broken-account")
    first = headway("run", "in.jsonl")
    assert first.code == 1
    assert "2 units ended with 'transient', for example u2" in first.err
    assert [row["headway"]["index"] for row in stage.rows() if row["error"]] == [2, 5]
    again = headway("run", "in.jsonl")
    assert again.code == 1
    assert "2 units failed before: they are tried again; what succeeded stays" in again.err
    assert [stage.sent(index) for index in range(10)] == [1, 1, 2, 1, 1, 2, 1, 1, 1, 1]
    monkeypatch.setenv("BETA_KEY", "sk-good-again")
    retried = headway("retry", "--failed")
    assert retried.code == 0
    assert "2 units failed before: only they are tried again" in retried.err
    assert contents(stage.rows()) == echoes(10)
    assert [stage.sent(index) for index in range(10)] == [1, 1, 3, 1, 1, 3, 1, 1, 1, 1]
    again = headway("retry", "--failed", "--json")
    assert again.code == 0
    assert json.loads(again.out)["failed"] == 0


# -- how a run ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "kind"), [("sk-revoked-account", "auth"), ("sk-poor-account", "quota")])
def test_a_lane_that_stops_leaves_its_units_resumable(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, key: str, kind: str
) -> None:
    stage.configure("max_concurrency = 2")
    monkeypatch.setenv("ALPHA_KEY", key)
    stopped = headway("run", "in.jsonl")
    assert stopped.code == 1
    assert f"alpha/gpt-x stopped: {kind}" in stopped.err
    assert "headway resume" in stopped.err
    assert {row["error"]["code"] for row in stage.rows()} == {kind}
    assert len(stage.rows()) == 10
    assert stage.job()["state"] == "stopped"
    received = stage.query("SELECT count(*) FROM attempts")[0][0]
    assert received <= 4, "the lane stopped at once"
    monkeypatch.setenv("ALPHA_KEY", KEY_THAT_WORKS)
    assert headway("resume").code == 0
    assert contents(stage.rows()) == echoes(10)


KEY_THAT_WORKS = "sk-a-key-that-works"


def test_a_deadline(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-account")
    stage.configure("max_concurrency = 2")
    # The first two take 1.2 s, and may begin as late as 1.1 s after the run; the next two cannot end before 2.4 s.
    late = headway("run", "in.jsonl", "--max-duration", "2300ms")
    assert late.code == 3
    assert stage.job()["state"] == "deadline"
    rows = stage.rows()
    assert [row["headway"]["status"] for row in rows[:2]] == ["succeeded"] * 2
    assert {row["error"]["code"] for row in rows[2:]} == {"deadline"}
    assert len(rows) == 10
    monkeypatch.setenv("ALPHA_KEY", KEY_THAT_WORKS)
    assert headway("resume", "--max-duration", "30s").code == 0
    assert contents(stage.rows()) == echoes(10)
    assert [stage.sent(index) for index in (0, 1)] == [1, 1]


def test_a_deadline_of_the_queue(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two start at once and take 1.2 s; the others have waited too long by then."""
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-account")
    stage.configure("max_concurrency = 2")
    assert headway("run", "in.jsonl", "--max-wait", "1s").code == 3
    assert stage.job()["state"] == "deadline"
    rows = stage.rows()
    assert [row["headway"]["status"] for row in rows[:2]] == ["succeeded"] * 2
    assert {row["error"]["code"] for row in rows[2:]} == {"deadline"}
    assert "max_wait" in rows[2]["error"]["message"]
    assert len(rows) == 10
    monkeypatch.setenv("ALPHA_KEY", KEY_THAT_WORKS)
    assert headway("resume").code == 0
    assert contents(stage.rows()) == echoes(10)
    assert [stage.sent(index) for index in (0, 1, 2)] == [1, 1, 1]


def test_a_timeout_is_retried_and_then_reported(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.units = 2
    stage.write_input()
    monkeypatch.setenv("ALPHA_KEY", "sk-hanging-account")
    stage.configure(more="[providers.alpha.retry]\nbase = '10ms'")
    late = headway(
        "run", "in.jsonl", "--timeout", "1s", "--max-attempts", "2"
    )  # Long enough to send the request.
    assert late.code == 1
    rows = stage.rows()
    assert {(row["headway"]["status"], row["error"]["code"]) for row in rows} == {("timed_out", "timeout")}
    assert sent(stage) == [2] * 2
    monkeypatch.setenv("ALPHA_KEY", KEY_THAT_WORKS)
    assert headway("resume").code == 0, "what timed out is run again"
    assert contents(stage.rows()) == echoes(2)


def test_serial_and_delay_keep_the_order(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--serial", "-q").code == 0
    starts = [at for (at,) in stage.query("SELECT started_utc FROM units ORDER BY uid")]
    ends = [at for (at,) in stage.query("SELECT finished_utc FROM units ORDER BY uid")]
    assert all(end <= start + 0.001 for end, start in zip(ends, starts[1:], strict=False))
    assert headway("run", "in.jsonl", "--fresh", "--delay", "200ms", "--out", "b.jsonl", "-q").code == 0
    starts = [at for (at,) in stage.query("SELECT started_utc FROM units WHERE job = 2 ORDER BY uid")]
    assert starts == sorted(starts)
    # Permits are exactly this far apart; each then waits until its intent is on disk, which takes a varying time.
    assert starts[-1] - starts[0] >= 9 * 0.2 - 0.5


def test_concurrency_is_a_cap_over_all_lanes(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", f"sk-{stage.tag}")
    assert headway("run", "in.jsonl", "--concurrency", "2", "-q").code == 0
    moments = [(at, 1) for (at,) in stage.query("SELECT started_utc FROM attempts")]
    moments += [(at, -1) for (at,) in stage.query("SELECT finished_utc FROM attempts")]
    level = peak = 0
    for _, step in sorted(moments):
        level += step
        peak = max(peak, level)
    assert peak == 2


def test_results_and_progress_as_json(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "--json", "--progress", "json")
    assert done.code == 0
    facts = json.loads(done.out)
    assert (facts["state"], facts["succeeded"], facts["total"]) == ("complete", 10, 10)
    lines = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert lines[0]["event"] == "began"
    assert lines[-1]["event"] == "progress"
    assert lines[-1]["totals"]["succeeded"] == 10
    progress: dict[str, Any] = stage.progress()
    assert set(progress) == {"version", "job", "started_utc", "updated_utc", "totals", "lanes"}
    assert progress["totals"]["succeeded"] == progress["totals"]["units"] == 10
    assert set(progress["lanes"]) == {"alpha/gpt-x"}


def test_quiet_is_quiet(stage: Stage, headway: Headway) -> None:
    done = headway("run", "in.jsonl", "-q")
    assert done == (0, "", "")
    assert plain(stage.rows()) != []


def test_a_budget_covers_all_runs_of_a_job_and_is_never_exceeded(stage: Stage, headway: Headway) -> None:
    """Money is reserved before a request starts, and a later run counts what an earlier one spent."""
    stage.configure(more="[providers.alpha.prices]\ninput = 1000\noutput = 1000")
    assert headway("run", "in.jsonl", "--max-cost", "0.000001", "-q").code == 3
    whole = stage.query("SELECT cost_usd FROM jobs")[0][0]
    assert whole == 0.0
    assert {row["error"]["code"] for row in stage.rows()} == {"budget"}
    assert headway("resume", "--max-cost", "1000", "-q").code == 0
    [(spent,)] = stage.query("SELECT cost_usd FROM jobs")
    assert spent > 0.0
    assert headway("run", "in.jsonl", "--fresh", "--force", "--max-cost", str(spent * 0.9), "-q").code == 3
    [(second,)] = stage.query("SELECT cost_usd FROM jobs WHERE id = (SELECT max(id) FROM jobs)")
    assert second <= spent * 0.9
