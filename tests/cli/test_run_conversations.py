"""Rows that build on answers of earlier rows, as a user meets them: conversations and stored answers."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import PATIENCE_S, Stage, plain

CONVERSATIONS = 4
TURNS = 4


def configure(stage: Stage, more: str = "") -> None:
    """Two APIs, at one provider."""
    (stage.root / "headway.toml").write_text(
        "".join(
            f'[providers.{name}]\nkind = "{kind}"\nbase_url = "{stage.fake.url}"\napi_key_env = "ALPHA_KEY"\nmodel = "x"\n'
            f"[providers.{name}.limits]\nmax_concurrency = 3\n"
            for name, kind in (("alpha", "openai"), ("beta", "anthropic"))
        )
        + more
        + '\n[run]\nprovider = "alpha"\n'
    )


def mixed(stage: Stage) -> list[dict[str, Any]]:
    """Conversations that go from one API to the other, side by side; rows that store and read; rows that do neither."""
    rows: list[dict[str, Any]] = []
    for turn in range(TURNS):
        for number in range(CONVERSATIONS):
            model = "beta/claude-x" if (turn + number) % 3 == 0 else "alpha/gpt-x"
            row = {"prompt": f"turn {turn} of {number}", "conversation": f"c{number}", "model": model}
            rows.append(row | ({"system": f"be {number}"} if turn == 0 else {}))
        rows.append({"prompt": f"note {turn}, after {{{{note}}}}", "store_as": "note", "priority": turn})
        rows.append({"prompt": "use {{note}} and {{nothing}}", "conversation": f"c{turn % CONVERSATIONS}"})
        rows.append({"prompt": f"plain {turn}"})
    return [{"id": f"u{n}", "max_tokens": 200, **row} for n, row in enumerate(rows)]


def sent(stage: Stage) -> list[tuple[str, str]]:
    """What was sent, by id."""
    sql = (
        "SELECT custom_id, CAST(coalesce(rendered.body, requests.body) AS TEXT) FROM units "
        "JOIN requests ON requests.uid = units.uid LEFT JOIN rendered ON rendered.uid = units.uid "
        "WHERE job = (SELECT max(id) FROM jobs) ORDER BY units.uid"
    )
    return stage.query(sql)


def texts(stage: Stage) -> list[str]:
    """What was answered, by id."""
    from headway.batch.answer_text import answer_of

    return [answer_of(json.dumps(row["response"]["body"]).encode()) for row in stage.rows()]


@pytest.fixture(autouse=True)
def _two_apis(stage: Stage) -> None:
    configure(stage)


def test_a_file_with_both_equals_its_serial_run(stage: Stage, headway: Headway) -> None:
    stage.write_input(mixed(stage))
    assert headway("run", "in.jsonl", "-q").code == 0
    side_by_side, requests = plain(stage.rows()), sent(stage)
    assert headway("run", "in.jsonl", "-q", "--fresh", "--serial", "--force").code == 0
    assert plain(stage.rows()) == side_by_side
    assert sent(stage) == requests
    last = json.loads(dict(requests)[f"u{7 * 3 + 2}"])  # The last turn of the third conversation.
    assert len(last["messages"]) == 1 + 2 * 4 + 1, "a system prompt, four turns with answers, its own"


def test_the_answers_depend_on_what_came_before(stage: Stage, headway: Headway) -> None:
    """The comparison with the serial run can fail: without its history a turn has another usage."""
    rows = mixed(stage)
    stage.write_input(rows)
    assert headway("run", "in.jsonl", "-q").code == 0
    whole = plain(stage.rows())
    for row in rows:
        row.pop("conversation", None)
    stage.write_input(rows)
    assert headway("run", "in.jsonl", "-q", "--force").code == 0
    assert plain(stage.rows()) != whole
    assert "use echo: note 0, after {{note}} and {{nothing}}" in texts(stage)[5]


def test_a_unit_shows_what_was_sent(stage: Stage, headway: Headway) -> None:
    stage.write_input(
        [
            {"id": "a", "prompt": "one", "conversation": "c", "store_as": "first"},
            {"id": "b", "prompt": "two, {{first}}", "conversation": "c"},
        ]
    )
    assert headway("run", "in.jsonl", "-q").code == 0
    [job] = json.loads(headway("jobs", "--json").out)
    shown = json.loads(headway("show", job["job"], "b", "--json").out)
    assert [message["content"] for message in shown["request"]["body"]["messages"]] == [
        "one",
        "echo: one",
        "two, echo: one",
    ]
    view = stage.query(
        "SELECT role, content FROM messages WHERE \"index\" = 1 AND role = 'assistant' ORDER BY position"
    )
    assert view[0] == ("assistant", '"echo: one"')


def test_turns_behind_a_failure_are_skipped_and_tried_again_with_it(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write_input(mixed(stage))
    monkeypatch.setenv("ALPHA_KEY", "sk-broken-account")
    assert headway("run", "in.jsonl", "-q", "--max-attempts", "1").code == 1
    codes = [None if row["error"] is None else row["error"]["code"] for row in stage.rows()]
    assert set(codes) == {"transient", "upstream_failed"}
    assert codes[7] == "upstream_failed"
    assert [row["error"]["message"] for row in stage.rows()[7:15:7]] == [
        "unit 'u5', which it depends on, was skipped",
        "unit 'u7', which it depends on, was skipped",
    ]
    assert stage.rows()[5]["error"]["message"] == "unit 'u0', which it depends on, failed"
    monkeypatch.setenv("ALPHA_KEY", "sk-another-account")
    planned = json.loads(headway("run", "in.jsonl", "--only-failed", "--dry-run", "--json").out)
    assert planned["requests"] == len(mixed(stage))
    assert headway("retry", "--failed", "-q").code == 0
    again = plain(stage.rows())
    assert headway("run", "in.jsonl", "-q", "--fresh", "--serial", "--force").code == 0
    assert plain(stage.rows()) == again


def test_a_failed_turn_leaves_other_conversations_alone(stage: Stage, headway: Headway) -> None:
    """The fake refuses `n` above 128."""
    stage.write_input(
        [
            {"prompt": "a", "conversation": "bad", "n": 500},
            {"prompt": "b", "conversation": "good"},
            {"prompt": "c", "conversation": "bad"},
            {"prompt": "d", "conversation": "good"},
            {"prompt": "e", "conversation": "bad"},
        ]
    )
    assert headway("run", "in.jsonl", "-q").code == 1
    statuses = ["failed", "succeeded", "skipped", "succeeded", "skipped"]
    assert [row["headway"]["status"] for row in stage.rows()] == statuses
    assert headway("resume", "-q").code == 1
    assert [row["headway"]["status"] for row in stage.rows()] == statuses


def test_a_turn_that_waits_for_a_lane_that_stopped_says_so_and_goes_on_later(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.write_input(
        [{"prompt": "a", "conversation": "c"}, {"prompt": "b", "conversation": "c", "model": "beta/x"}]
    )
    config = (stage.root / "headway.toml").read_text()
    (stage.root / "headway.toml").write_text(
        config.replace("ALPHA_KEY", "BETA_KEY").replace("BETA_KEY", "ALPHA_KEY", 1)
    )
    monkeypatch.setenv("BETA_KEY", "sk-beta-account-1234")
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "-q").code == 1
    assert [row["error"]["code"] for row in stage.rows()] == ["auth", "upstream_failed"]
    assert [row["headway"]["status"] for row in stage.rows()] == ["pending", "pending"]
    monkeypatch.setenv("ALPHA_KEY", "sk-another-account")
    assert headway("resume", "-q").code == 0
    assert texts(stage) == ["echo: a", "echo: b"]


def test_the_next_run_has_no_reasons_of_the_run_before(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane stops, and a unit of the other fails: `retry --failed` runs only that one, and the rest waits without a reason."""
    alpha, _, beta = (stage.root / "headway.toml").read_text().partition("[providers.beta]")
    (stage.root / "headway.toml").write_text(
        f"{alpha}[providers.beta]{beta.replace('ALPHA_KEY', 'REVOKED_KEY')}"
    )
    monkeypatch.setenv("REVOKED_KEY", "sk-revoked-account")
    row = {"conversation": "c", "model": "beta/x"}
    stage.write_input([{**row, "prompt": "a"}, {**row, "prompt": "b"}, {"prompt": "bad", "n": 500}])
    assert headway("run", "in.jsonl", "-q").code == 1
    assert [row["error"]["code"] for row in stage.rows()] == ["auth", "auth", "invalid"]
    assert headway("retry", "--failed", "-q").code == 1
    assert [row["error"]["message"] for row in stage.rows()[:2]] == ["not run yet"] * 2
    assert stage.query("SELECT code, message, not_before_utc FROM units LIMIT 2") == [(None, None, None)] * 2


def test_a_sample_is_taken_over_with_what_it_rests_on(stage: Stage, headway: Headway) -> None:
    stage.write_input(mixed(stage))
    half = len(mixed(stage)) // 2
    assert headway("run", "in.jsonl", "-q", "--limit", str(half)).code == 0
    assert headway("run", "in.jsonl", "-q").code == 0
    rows = stage.rows()
    assert [row["headway"]["status"] for row in rows] == ["cached"] * half + ["succeeded"] * (
        len(rows) - half
    )
    answers = texts(stage)
    assert headway("run", "in.jsonl", "-q", "--fresh", "--serial", "--force").code == 0
    assert texts(stage) == answers


def test_the_cache_has_no_wrong_answer_for_a_row_that_builds_on_others(
    stage: Stage, headway: Headway
) -> None:
    """The second turns ask the same, and so do the rows that read: but not of the same conversation, and not with the same text."""
    rows = [
        {"prompt": "one", "conversation": "c", "store_as": "x"},
        {"prompt": "two", "conversation": "d"},
        {"prompt": "and?", "conversation": "c"},
        {"prompt": "and?", "conversation": "d"},
        {"prompt": "read {{x}}"},
        {"prompt": "three", "store_as": "x"},
        {"prompt": "read {{x}}"},
        {"prompt": "one"},
    ]
    stage.write_input(
        [{"id": f"u{n}", "temperature": 0, "max_tokens": 50, **row} for n, row in enumerate(rows)]
    )
    done = headway("run", "in.jsonl", "--cache", "--progress", "plain")
    assert done.code == 0
    assert "4 of 8 requests may be cached" in done.err
    assert "or are made from answers of other rows" in done.err
    first = texts(stage)
    assert first[4:7:2] == ["echo: read echo: one", "echo: read echo: three"]
    used = [row["headway"]["usage"] for row in stage.rows()]
    assert headway("run", "in.jsonl", "-q", "--cache", "--fresh", "--force").code == 0
    assert [row["headway"]["status"] for row in stage.rows()] == [
        "cached", "cached", "succeeded", "succeeded", "succeeded", "cached", "succeeded", "cached",
    ]  # fmt: skip
    assert texts(stage) == first
    assert [row["headway"]["usage"] for row in stage.rows()] == used


def test_a_turn_after_a_repair_sees_the_final_answer_alone(stage: Stage, headway: Headway) -> None:
    (stage.root / "s.json").write_text(
        '{"type": "object", "properties": {"score": {"type": "number", "maximum": 1}}, "required": ["mood", "score"]}'
    )
    stage.write_input([{"prompt": f"#repaired {n}", "conversation": "c"} for n in range(2)])
    assert headway("run", "in.jsonl", "-q", "--schema", "s.json").code == 0
    assert stage.query("SELECT count(*) FROM repairs") == [(1,)], "only the first turn was wrong at first"
    messages = json.loads(sent(stage)[1][1])["messages"]
    said = [message["content"] for message in messages if message["role"] == "assistant"]
    assert [json.loads(text)["mood"] for text in said] == ["better"]
    assert [message["content"] for message in messages if message["role"] == "user"] == [
        "#repaired 0",
        "#repaired 1",
    ]


def test_a_wait_for_other_units_has_a_name(stage: Stage, headway: Headway) -> None:
    """The first unit takes five minutes, and the others wait for it."""
    config = (stage.root / "headway.toml").read_text().replace("ALPHA_KEY", "STUCK_KEY", 1)
    (stage.root / "headway.toml").write_text(config)
    stage.env["STUCK_KEY"] = "sk-stuck-account"
    stage.write_input(
        [
            {"prompt": str(n), "conversation": "c", "model": model}
            for n, model in enumerate(("alpha/x", "alpha/x", "beta/x", "beta/x", "alpha/x"))
        ]
    )
    with stage.process("run", "in.jsonl", "-q"):
        give_up_at = time.monotonic() + PATIENCE_S
        while "; waits: other units" not in (shown := headway("status").out):
            assert time.monotonic() < give_up_at, shown
            time.sleep(0.1)
        assert "alpha/x: 2 pending, 1 running; waits: other units that must finish first" in shown
        assert "beta/x: 2 pending; waits: other units that must finish first" in shown
        lanes = stage.progress()["lanes"]
    assert {name: lane["remaining"] for name, lane in lanes.items()} == {"alpha/x": 2, "beta/x": 2}
    assert {name: lane["waiting_for_others"] for name, lane in lanes.items()} == {"alpha/x": 2, "beta/x": 2}
    assert {lane["wait_reason"]["code"] for lane in lanes.values()} == {"other_units"}


# -- money ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serial", [True, False])
def test_a_cap_holds_for_what_is_really_sent(stage: Stage, headway: Headway, serial: bool) -> None:
    """Each turn has the whole conversation before it: its own row says little about what it costs."""
    prices = "[providers.alpha.prices]\ninput = 1000\noutput = 1000\n"
    configure(stage, prices)
    long = "word " * 200
    rows = [
        {"prompt": f"{long} {turn} {number}", "conversation": f"c{number}", "max_tokens": 300}
        for turn in range(6)
        for number in range(3)
    ]
    stage.write_input(rows)
    flags = ("--serial",) if serial else ()
    assert headway("run", "in.jsonl", "-q", "--max-cost", "9", *flags).code == 3
    job = stage.job()
    assert 4.5 < job["cost_usd"] + job["unsure_usd"] <= 9.0
    assert headway("resume", "-q", "--max-cost", "100").code == 0
    assert stage.job()["cost_usd"] > 18.0


def test_a_cap_holds_where_an_answer_was_longer_than_anybody_could_know(
    stage: Stage, headway: Headway
) -> None:
    """A reader's own row is short; what it sends is four times an answer of 5,000 tokens, and costs $20."""
    configure(stage, "[providers.alpha.prices]\ninput = 1000\noutput = 1000\n")
    readers = [{"prompt": f"{n} {{{{x}}}} {{{{x}}}} {{{{x}}}} {{{{x}}}}", "max_tokens": 10} for n in range(6)]
    stage.write_input([{"prompt": "word " * 4000, "store_as": "x", "max_tokens": 6000}, *readers])
    assert headway("run", "in.jsonl", "-q", "--max-cost", "45").code == 3
    job = stage.job()
    assert job["cost_usd"] + job["unsure_usd"] <= 45.0
    assert headway("resume", "-q", "--max-cost", "1000").code == 0
    assert 120.0 < stage.job()["cost_usd"] < 140.0


# -- before a run --------------------------------------------------------------------------------------------------


def test_a_plan_says_what_it_leaves_out(stage: Stage, headway: Headway) -> None:
    stage.write_input(mixed(stage))
    for command in (("plan", "in.jsonl"), ("run", "in.jsonl", "--dry-run")):
        done = headway(*command, "--json")
        assert done.code == 0, done.err
        report = json.loads(done.out)
        assert report["rows"] == len(mixed(stage))
        [note] = [one for one in report["notes"] if "wait for answers" in one]
        assert note.startswith("19 rows wait for answers of other rows, up to 5 answers one after the other")


def test_bad_use_is_refused_before_anything_is_sent(stage: Stage, headway: Headway) -> None:
    stage.write_input([{"prompt": "a"}, {"prompt": "b", "store_as": "no name"}])
    done = headway("run", "in.jsonl")
    assert done.code == 2
    assert 'in.jsonl:2: "store_as" must be a name' in done.err
    assert stage.query("SELECT count(*) FROM units") == [(0,)]
    assert headway("run", "in.jsonl", "--dry-run").code == 2


@pytest.mark.parametrize(
    "command", [("run", "in.jsonl"), ("plan", "in.jsonl"), ("run", "in.jsonl", "--dry-run")]
)
def test_a_name_that_is_stored_too_late_gives_a_warning(
    stage: Stage, headway: Headway, command: tuple[str, ...]
) -> None:
    stage.write_input([{"id": "a", "prompt": "{{x}}"}, {"id": "b", "prompt": "b", "store_as": "x"}])
    done = headway(*command)
    assert done.code == 0
    assert done.err.count("{{x}} in row 'a' (row 'b' stores it)") == 1


# -- functions -----------------------------------------------------------------------------------------------------

CODE = """
def work(row):
    before = [turn["content"] for turn in row.get("earlier_turns", [])]
    return {"text": row["text"], "before": before, "keys": sorted(row)}
"""


def test_a_function_gets_the_turns_before(stage: Stage, headway: Headway) -> None:
    Path("deeds.py").write_text(CODE)
    configure(stage, '[providers.work]\nkind = "python"\ntarget = "deeds:work"\nworkers = 2\n')
    row = {"model": "work/w", "conversation": "c"}
    stage.write_input(
        [
            {**row, "id": "a", "text": "one", "store_as": "x"},
            {"id": "b", "prompt": "say {{x}}", "conversation": "c"},
            {**row, "id": "c", "text": "three {{x}}"},
        ]
    )
    assert headway("run", "in.jsonl", "-q").code == 0
    first, second, third = [row["response"]["body"] for row in stage.rows()]
    assert first == {"text": "one", "before": [], "keys": ["conversation", "model", "store_as", "text"]}
    written = json.dumps(first, separators=(",", ":"))
    assert second["choices"][0]["message"]["content"] == f"echo: say {written}"
    assert third["text"] == f"three {written}"
    assert third["before"] == ['{"text":"one"}', written, f"say {written}", f"echo: say {written}"]
