"""`--cache`. The provider's statistics say how many calls were made."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, contents

from headway.stores.sqlite.schema import migrations, statements


def asking(stage: Stage, *whats: int, **more: Any) -> list[dict[str, Any]]:
    """A row for each number; equal numbers make identical requests (the fake identifies requests by `user`)."""
    return [
        {"id": f"u{n}", "prompt": f"say {what}", "user": stage.name(what), "temperature": 0, **more}
        for n, what in enumerate(whats)
    ]


def calls(stage: Stage, units: int = 12) -> list[int]:
    return [stage.sent(what) for what in range(units)]


def outcomes(stage: Stage) -> list[str]:
    return [f"{row['headway']['status']}: {row['content']}" for row in _with_content(stage)]


def _with_content(stage: Stage) -> list[dict[str, Any]]:
    rows = stage.rows()
    return [{**row, "content": each["content"]} for row, each in zip(rows, contents(rows), strict=True)]


def test_two_identical_requests_cost_one_call(stage: Stage, headway: Headway) -> None:
    stage.write_input(asking(stage, 0, 1, 0, 2, 0, 1))
    done = headway("run", "in.jsonl", "--cache", "--json")
    assert done.code == 0, done.err
    assert calls(stage, 4) == [1, 1, 1, 0]
    assert outcomes(stage) == [
        "succeeded: echo: say 0", "succeeded: echo: say 1", "cached: echo: say 0", "succeeded: echo: say 2",
        "cached: echo: say 0", "cached: echo: say 1",
    ]  # fmt: skip
    rows = stage.rows()
    assert [row["headway"]["attempts"] for row in rows] == [1, 1, 0, 1, 0, 0]
    assert [row["headway"]["cost_usd"] for row in rows] == [None, None, 0.0, None, 0.0, 0.0]
    assert rows[2]["headway"]["usage"] == rows[0]["headway"]["usage"]
    facts = json.loads(done.out)
    assert (facts["succeeded"], facts["cached"], facts["attempts"], facts["pending"]) == (3, 3, 3, 0)
    tokens = [rows[n]["headway"]["usage"]["input_tokens"] for n in (2, 4, 5)]
    assert facts["saved_by_cache"]["input_tokens"] == sum(tokens)


def test_without_the_flag_every_unit_is_sent(stage: Stage, headway: Headway) -> None:
    """A user may want ten answers to one question."""
    stage.write_input(asking(stage, 0, 0, 0))
    assert headway("run", "in.jsonl").code == 0
    assert calls(stage, 1) == [3]
    assert json.loads(headway("cache", "stats", "--json").out)["entries"] == 0


def test_another_job_reuses_the_answers_of_the_first(stage: Stage, headway: Headway) -> None:
    stage.write_input(asking(stage, 0, 1, 2))
    assert headway("run", "in.jsonl", "--cache").code == 0
    stage.write_input(asking(stage, 3, 2, 1, 2))
    done = headway("run", "in.jsonl", "--cache", "--force")
    assert done.code == 0, done.err
    assert calls(stage, 4) == [1, 1, 1, 1]
    assert outcomes(stage)[1:] == ["cached: echo: say 2", "cached: echo: say 1", "cached: echo: say 2"]
    assert "cache: 4 of 4 requests may be cached" in done.err
    assert "cache: 3 answered without a call" in done.err
    assert "3 answered without a call, saving " in done.err
    shown = headway("status")
    assert "3 answered without a call, saving " in shown.out
    assert "1 succeeded, 3 cached" in shown.out
    [first, second] = reversed(json.loads(headway("jobs", "--json").out))
    unit = headway("show", second["job"], "u1")
    assert f"answered without a call: it has the answer of u2 in job {first['job']}" in unit.out
    story = json.loads(headway("show", second["job"], "u1", "--json").out)
    assert story["answer_of"] == {"job": first["job"], "index": 2, "custom_id": "u2"}


def test_a_job_that_is_entirely_cached_needs_no_call(stage: Stage, headway: Headway) -> None:
    stage.write_input(asking(stage, *range(8)))
    assert headway("run", "in.jsonl", "--cache").code == 0
    first = contents(stage.rows())
    for order in ("input", "completion"):
        done = headway("run", "in.jsonl", "--cache", "--fresh", "--force", "--out-order", order)
        assert done.code == 0, done.err
        assert sorted(outcomes(stage)) == sorted(f"cached: {row['content']}" for row in first)
    assert calls(stage, 8) == [1] * 8


def test_only_deterministic_requests_are_cached_by_default(stage: Stage, headway: Headway) -> None:
    warm = asking(stage, 0, 0, 1, temperature=1)
    stage.write_input([*warm, {**asking(stage, 2)[0], "id": "v"}])
    done = headway("run", "in.jsonl", "--cache")
    assert (
        "cache: 1 of 4 requests may be cached; the others have neither temperature 0 nor a seed" in done.err
    )
    assert calls(stage, 3) == [2, 1, 1]
    done = headway("run", "in.jsonl", "--cache-all", "--fresh", "--force")
    assert done.code == 0
    assert calls(stage, 3) == [3, 2, 1]
    assert outcomes(stage)[1] == "cached: echo: say 0"
    headway("run", "in.jsonl", "--cache-all", "--fresh", "--force")
    assert calls(stage, 3) == [3, 2, 1]


def test_the_file_can_set_the_cache_and_a_flag_wins(stage: Stage, headway: Headway) -> None:
    stage.configure(more='[run]\ncache = "deterministic"')
    stage.write_input(asking(stage, 0, 0))
    assert headway("run", "in.jsonl").code == 0
    assert calls(stage, 1) == [1]
    assert headway("run", "in.jsonl", "--fresh", "--force", "--no-cache").code == 0
    assert calls(stage, 1) == [3]
    stage.configure(more='[run]\ncache = "always"')
    done = headway("run", "in.jsonl")
    assert done.code == 2
    assert 'run.cache: expected "off", "deterministic" or "all"' in done.err


def test_the_cache_is_not_part_of_a_jobs_identity(stage: Stage, headway: Headway) -> None:
    stage.write_input(asking(stage, 0, 1))
    assert headway("run", "in.jsonl", "--cache").code == 0
    for flags in ((), ("--cache",), ("--cache-all",)):
        assert "is already complete" in headway("run", "in.jsonl", *flags).err
    assert calls(stage, 2) == [1, 1]


def test_another_server_gets_its_own_request(stage: Stage, headway: Headway) -> None:
    """The same model at another address has other answers; another account at the same address shares them."""
    stage.write_input(asking(stage, 0, 1))
    assert headway("run", "in.jsonl", "--cache").code == 0
    toml = stage.root / "headway.toml"
    text = toml.read_text(encoding="utf-8")
    toml.write_text(text.replace("127.0.0.1", "localhost"), encoding="utf-8")
    assert headway("run", "in.jsonl", "--cache", "--fresh", "--force").code == 0
    assert calls(stage, 2) == [2, 2]
    toml.write_text(text.replace("/v1", "").replace("ALPHA_KEY", "OTHER_KEY"), encoding="utf-8")
    (stage.root / ".env").write_text("OTHER_KEY=sk-of-somebody-else-entirely\n", encoding="utf-8")
    assert headway("run", "in.jsonl", "--cache", "--fresh", "--force").code == 0
    assert calls(stage, 2) == [2, 2]


def test_a_failure_is_shared_within_a_job_and_not_cached(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.configure(more="[run]\nmax_attempts = 1")
    stage.write_input(asking(stage, 0, 1, 0, 0))
    monkeypatch.setenv("ALPHA_KEY", "sk-broken-account")
    done = headway("run", "in.jsonl", "--cache", "--json")
    assert done.code == 1
    assert calls(stage, 2) == [1, 1]
    rows = stage.rows()
    assert [row["headway"]["status"] for row in rows] == ["failed"] * 4
    assert rows[2]["error"]["code"] == rows[0]["error"]["code"]
    assert rows[2]["error"]["message"] == f"unit 0 asked the same: {rows[0]['error']['message']}"
    assert json.loads(headway("cache", "stats", "--json").out)["entries"] == 0
    monkeypatch.setenv("ALPHA_KEY", "sk-quick-account")
    assert headway("retry", "--failed", "--cache").code == 0
    assert calls(stage, 2) == [2, 2]
    assert [row["headway"]["status"] for row in stage.rows()] == [
        "succeeded",
        "succeeded",
        "cached",
        "cached",
    ]


def test_a_lane_that_stops_leaves_leader_and_followers_for_the_next_run(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write_input(asking(stage, 0, 0, 0))
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    done = headway("run", "in.jsonl", "--cache")
    assert done.code == 1
    assert [row["error"]["code"] for row in stage.rows()] == ["auth"] * 3
    assert [row["headway"]["status"] for row in stage.rows()] == ["pending"] * 3
    before = stage.sent(0)
    monkeypatch.setenv("ALPHA_KEY", "sk-quick-account")
    assert headway("resume", "--cache").code == 0
    assert stage.sent(0) == before + 1
    assert [row["headway"]["status"] for row in stage.rows()] == ["succeeded", "cached", "cached"]


def test_a_deadline_ends_followers_with_their_leader(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write_input(asking(stage, 0, 0, 1, 0))
    monkeypatch.setenv("ALPHA_KEY", "sk-stuck-account")
    assert headway("run", "in.jsonl", "--cache", "--max-duration", "300ms").code == 3
    assert [row["error"]["code"] for row in stage.rows()] == ["deadline"] * 4
    monkeypatch.setenv("ALPHA_KEY", "sk-quick-account")
    assert headway("run", "in.jsonl", "--cache").code == 0
    assert outcomes(stage)[1:] == ["cached: echo: say 0", "succeeded: echo: say 1", "cached: echo: say 0"]


def test_a_job_can_start_to_use_the_cache_halfway(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the job ran without the cache. The rest is grouped, and finished units are not touched."""
    stage.write_input(asking(stage, 0, 1, 2, 2, 0))
    monkeypatch.setenv("ALPHA_KEY", "sk-slow-account")
    # The first takes 1.2 s, and may begin as late as 1.1 s after the run; the second cannot end before 2.4 s.
    assert headway("run", "in.jsonl", "--serial", "--max-duration", "2300ms", "--no-cache").code == 3
    assert calls(stage, 1) == [1]
    monkeypatch.setenv("ALPHA_KEY", "sk-quick-account")
    assert headway("resume", "--cache").code == 0
    statuses = [row["headway"]["status"] for row in stage.rows()]
    assert statuses == ["succeeded", "succeeded", "succeeded", "cached", "succeeded"]


def test_serial_limit_and_priority_work_with_the_cache(stage: Stage, headway: Headway) -> None:
    rows = asking(stage, 0, 1, 0, 1, 2)
    rows[2]["priority"] = 5
    rows[3]["serial"] = True
    stage.write_input(rows)
    assert headway("run", "in.jsonl", "--cache", "--serial").code == 0
    assert calls(stage, 3) == [1, 1, 1]
    statuses = [row["headway"]["status"] for row in stage.rows()]
    assert statuses == ["cached", "cached", "succeeded", "succeeded", "succeeded"]
    assert headway("run", "in.jsonl", "--cache", "--limit", "3", "--out", "few.jsonl").code == 0
    assert calls(stage, 3) == [1, 1, 1]


def test_a_table_with_the_same_question_twice(stage: Stage, headway: Headway) -> None:
    text = "id,text\n" + "".join(f"r{n},{'ab'[n % 2]}-{stage.tag}\n" for n in range(6))
    (stage.root / "in.csv").write_text(text, encoding="utf-8")
    before = stage.fake.stats()["total"]["admitted"]
    done = headway("run", "in.csv", "--prompt", "about {{text}}", "--cache-all", "--out", "out.csv")
    assert done.code == 0, done.err
    lines = (stage.root / "out.csv").read_text(encoding="utf-8").splitlines()
    assert [line.rsplit(",", 2)[1] for line in lines[1:]] == ["succeeded"] * 2 + ["cached"] * 4
    assert lines[3].split(",")[2] == f"echo: about a-{stage.tag}"
    assert "4 answered without a call" in done.err
    assert stage.fake.stats()["total"]["admitted"] == before + 2


def test_stats_and_clear(stage: Stage, headway: Headway) -> None:
    price = "[providers.alpha.prices]\ninput = 1_000_000\noutput = 0"
    stage.configure(more=price)
    stage.write_input(asking(stage, 0, 1, 0))
    assert "the cache is empty" not in headway("run", "in.jsonl", "--cache").err
    facts = json.loads(headway("cache", "stats", "--json").out)
    usage = [row["headway"]["usage"] for row in stage.rows()]
    assert (facts["entries"], facts["hits"]) == (2, 1)
    assert facts["saved"]["cost_usd"] == usage[0]["input_tokens"]
    stored = stage.query("SELECT sum(length(body)) FROM answers")
    assert stored == [(facts["bytes"],)]
    assert [(one["provider"], one["model"]) for one in facts["models"]] == [("alpha", "gpt-x")]
    shown = headway("cache", "stats").out
    assert "alpha/gpt-x: 2 answers" in shown
    assert "1 unit was answered without a call, saving " in shown

    refused = headway("cache", "clear")
    assert (refused.code, "this would remove 2 answers — confirm with -y" in refused.err) == (2, True)
    assert headway("cache", "clear", "-y", "--older-than", "1h").out == "no cached answers match\n"
    assert headway("cache", "clear", "-y", "--model", "gpt-y").code == 0
    assert json.loads(headway("cache", "stats", "--json").out)["entries"] == 2
    wrong = headway("cache", "clear", "-y", "--older-than", "soon")
    assert (wrong.code, wrong.err.startswith("headway: --older-than: expected a duration")) == (2, True)
    assert json.loads(headway("cache", "clear", "-y", "--model", "alpha/gpt-x", "--json").out) == {
        "cleared": 2
    }
    assert "the cache is empty" in headway("cache", "stats").out
    before = stage.out.read_bytes()
    stage.out.unlink()
    assert headway("run", "in.jsonl").code == 0
    assert stage.out.read_bytes() == before, "units keep what they have"
    assert headway("run", "in.jsonl", "--cache", "--fresh", "--force").code == 0
    assert calls(stage, 2) == [2, 2]


@pytest.mark.parametrize("command", ["stats", "clear"])
def test_without_records_the_commands_say_so(stage: Stage, headway: Headway, command: str) -> None:
    done = headway("cache", command)
    assert (done.code, done.out) == (headway("jobs").code, "")
    assert "there is no database at" in done.err
    assert not stage.db.exists()


def test_the_cache_has_two_commands(stage: Stage, headway: Headway) -> None:
    done = headway("cache", "burn")
    assert (done.code, done.err.count("\n")) == (2, 1)


def test_records_of_an_older_headway_can_be_read(stage: Stage, headway: Headway) -> None:
    """Before a run migrates the database."""
    stage.db.parent.mkdir()
    with closing(sqlite3.connect(stage.db)) as db, db:
        for statement in statements(migrations()[0]):
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
    db.close()
    assert headway("cache", "stats").code == 0
    assert stage.query("PRAGMA user_version") == [(1,)]
    assert headway("cache", "clear", "-y").code == 0
    assert stage.query("PRAGMA user_version") == [(len(migrations()),)]
