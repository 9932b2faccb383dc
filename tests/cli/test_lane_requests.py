"""`headway lanes --rpm LANE=N` and `--reopen`: requests to running jobs about their lanes."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, contents, echoes, wait_for

from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store


def in_flight(stage: Stage) -> int:
    return sum(stage.sent(index) for index in range(stage.units)) - len(stage.committed())


def test_a_running_job_takes_new_limits(stage: Stage, headway: Headway) -> None:
    stage.units = 12
    stage.write_input()
    stage.env["ALPHA_KEY"] = "sk-stuck-account"
    stage.configure("max_concurrency = 2")
    with stage.process("run", "in.jsonl"):
        wait_for("two in flight", lambda: in_flight(stage) == 2)
        report = headway("lanes", "--max-concurrency", "alpha/gpt-x=5", "--rpm", "alpha=6000")
        name = stage.job()["name"]
        assert (
            report.out
            == f"asked job {name} to keep alpha/gpt-x to 6,000 requests per minute, 5 requests in flight\n"
        )
        wait_for("five in flight", lambda: in_flight(stage) == 5)
        asked = json.loads(headway("lanes", "--max-concurrency", "alpha=0", "--json").out)
        assert asked == [{"job": name, "lane": "alpha/gpt-x", "limits": {"max_concurrency": 0}}]
        wait_for("all in flight", lambda: in_flight(stage) == 12)


def test_a_held_lane_is_tried_again(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    with (
        closing(sqlite3.connect(stage.db)) as db,
        db,
    ):  # As after a provider said "come back in an hour".
        hold = "UPDATE lanes SET record = json_set(record, '$.held_until_utc', ?, '$.hold_reason', 'so')"
        db.execute(hold, (time.time() + 3_600,))
    db.close()
    stage.units = 3
    stage.tag += "x"
    stage.write_input()
    with stage.process("run", "in.jsonl", "--force") as process:
        wait_for("a claim", lambda: stage.query("SELECT 1 FROM claims"))
        assert [stage.sent(index) for index in range(3)] == [0, 0, 0]
        assert "to try alpha/gpt-x again" in headway("lanes", "--reopen", "alpha/gpt-x").out
        assert process.wait(20) == 0
    assert contents(stage.rows()) == echoes(3)


def test_a_request_that_is_invalid_disturbs_nothing(stage: Stage) -> None:
    stage.units = 6
    stage.write_input()
    stage.env["ALPHA_KEY"] = "sk-slow-account"
    stage.configure("max_concurrency = 1")
    with stage.process("run", "in.jsonl") as process:
        wait_for("the first in flight", lambda: in_flight(stage) == 1)
        with Store(SqliteFile(stage.db)) as store:
            [job] = store.jobs()
            store.add_command(
                job.id, "limits", {"lane": "alpha/gpt-x", "limits": {"rpm": "many"}}, time.time()
            )
            store.add_command(job.id, "limits", {}, time.time())
        assert process.wait(30) == 0
    texts = [text for (text,) in stage.query("SELECT text FROM events WHERE what = 'command'")]
    assert len(texts) == 2
    assert all("was not understood" in text for text in texts)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--rpm", "alpha"), "expected NAME=N"),
        (("--rpm", "alpha=many"), "'many' is not a limit"),
        (("--max-concurrency", "alpha=2.5"), "a whole number"),
        (("--rpm", "alpha=-1"), "is not a limit"),
        (("--rpm", "alpha=60"), "no job is running"),
        (("--reopen", "beta"), "no job has used lane 'beta' — lanes: alpha/gpt-x"),
    ],
)
def test_mistakes(stage: Stage, headway: Headway, args: tuple[str, ...], said: str) -> None:
    stage.configure()
    stage.write_input()
    assert headway("run", "in.jsonl", "-q").code == 0
    refused = headway("lanes", *args)
    assert refused.code == 2
    assert said in refused.err
    assert refused.err.count("\n") == 1


def test_a_lane_that_no_running_job_uses(stage: Stage, headway: Headway) -> None:
    stage.env["ALPHA_KEY"] = "sk-stuck-account"
    stage.configure("max_concurrency = 1")
    with stage.process("run", "in.jsonl"):
        wait_for("one in flight", lambda: in_flight(stage) == 1)
        refused = headway("lanes", "--rpm", "beta=60")
    assert refused.code == 2
    assert "uses lane 'beta' — lanes: alpha/gpt-x" in refused.err
