"""`headway run --schema`: an answer that does not fit is requested once more, and then fails with the reason."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

SCHEMA = {
    "type": "object",
    "properties": {
        "mood": {"type": "string"},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["mood", "score", "tags"],
    "additionalProperties": False,
}
ASK = ("--schema", "mood.json")


@pytest.fixture(autouse=True)
def _schema(stage: Stage) -> None:
    (stage.root / "mood.json").write_text(json.dumps(SCHEMA, indent=2))


def rows(stage: Stage, *bodies: dict[str, Any]) -> None:
    stage.write_input([{"id": f"u{n}", **body} for n, body in enumerate(bodies)])


def chat_answer(row: dict[str, Any]) -> Any:
    return json.loads(row["response"]["body"]["choices"][0]["message"]["content"])


def sent(stage: Stage, index: int) -> list[Any]:
    """The bodies that were sent for a unit: its own, then the repair."""
    own = stage.query("SELECT body FROM requests WHERE uid & 4294967295 = ?", index)
    then = stage.query(
        'SELECT request FROM repairs WHERE "index" = ? AND request IS NOT NULL ORDER BY id', index
    )
    return [json.loads(body) for (body,) in own + then]


def test_an_answer_that_does_not_fit_is_requested_once_more(stage: Stage, headway: Headway) -> None:
    rows(stage, {"prompt": "#fits"}, {"prompt": "#repaired"}, {"prompt": "#never"})
    done = headway("run", "in.jsonl", *ASK)
    assert done.code == 1
    assert "1 unit ended with 'invalid'" in done.err
    good, repaired, never = stage.rows()
    assert chat_answer(good) == {"mood": "good", "score": 0.5, "tags": ["a"]}
    assert chat_answer(repaired) == {"mood": "better", "score": 1, "tags": []}
    assert [row["headway"]["attempts"] for row in (good, repaired, never)] == [1, 2, 2]
    assert never["response"] is None
    assert never["error"] == {
        "code": "invalid",
        "message": "the answer is not JSON: 'sorry'",
    }
    own, again = sent(stage, 1)
    assert own["response_format"]["json_schema"]["strict"] is True
    assert [turn["role"] for turn in again["messages"]] == ["user", "assistant", "user"]
    assert json.loads(again["messages"][1]["content"]) == {"mood": "good", "score": 7}
    assert "answer.score: 7 is greater than the maximum of 1 (maximum)" in again["messages"][2]["content"]
    assert '"tags" is a required property' in again["messages"][2]["content"]
    kinds = stage.query('SELECT number, outcome, kind FROM attempts WHERE "index" = 1 ORDER BY number')
    assert kinds == [(1, "failed", "invalid"), (2, "succeeded", None)]


@pytest.mark.parametrize("api", ["responses", "messages", "chat, streamed", "messages, streamed"])
def test_every_api(stage: Stage, headway: Headway, api: str) -> None:
    name, _, streamed = api.partition(", ")
    more = "stream = true" if streamed else ""
    claude = f'[providers.beta]\nkind = "anthropic"\nbase_url = "{stage.fake.url}"\napi_key_env = "ALPHA_KEY"\n{more}'
    stage.configure(more=claude, provider=more)
    (stage.root / "headway.toml").write_text(
        (stage.root / "headway.toml").read_text() + '\n[run]\nprovider = "alpha"\n'
    )
    bodies: dict[str, dict[str, Any]] = {
        "responses": {"url": "/v1/responses", "body": {"input": "#repaired"}},
        "messages": {"prompt": "#repaired", "model": "beta/claude-x"},
        "chat": {"prompt": "#repaired"},
    }
    rows(stage, bodies[name])
    done = headway("run", "in.jsonl", *ASK, "--out", "o.csv")
    assert done.code == 0, done.err
    with (stage.root / "o.csv").open(newline="") as file:
        [record] = csv.DictReader(file)
    assert json.loads(record["answer"]) == {"mood": "better", "score": 1, "tags": []}
    own, again = sent(stage, 0)
    asked = {"responses": "text", "messages": "output_config", "chat": "response_format"}[name]
    assert asked in own
    assert again[asked] == own[asked]


VENDORS = {
    "gemini": ('kind = "gemini"', "gemini-x"),
    "gemini, streamed": ('kind = "gemini"\nstream = true', "gemini-x"),
    "claude at bedrock": ('kind = "bedrock"\nregion = "us-east-1"', "eu.anthropic.claude-x-20260101-v1:0"),
    "nova": ('kind = "bedrock"\nregion = "us-east-1"', "amazon.nova-pro-v1:0"),
    "llama": ('kind = "bedrock"\nregion = "us-east-1"', "meta.llama3-1-70b-instruct-v1:0"),
}


@pytest.mark.parametrize("vendor", VENDORS)
def test_gemini_and_bedrock(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    settings, model = VENDORS[vendor]
    for variable in ("GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(variable, "any-key-at-all")
    (stage.root / "headway.toml").write_text(
        f'[providers.p]\n{settings}\nbase_url = "{stage.fake.url}"\nmodel = "{model}"\n'
    )
    rows(stage, {"prompt": "#fits"}, {"prompt": "#repaired"}, {"prompt": "#never"})
    done = headway("run", "in.jsonl", *ASK, "--out", "o.csv")
    assert done.code == 1, done.err
    with (stage.root / "o.csv").open(newline="") as file:
        good, repaired, never = csv.DictReader(file)
    assert json.loads(good["answer"]) == {"mood": "good", "score": 0.5, "tags": ["a"]}
    assert (repaired["answer.mood"], repaired["answer.score"]) == ("better", "1")
    assert never["error"].startswith("invalid: the answer ")
    own, again = sent(stage, 1)
    turns = again.get("contents") or again["messages"]
    assert [turn["role"] for turn in turns] == ["user", turns[1]["role"], "user"]
    said, words = (turn.get("parts") or turn["content"] for turn in turns[1:])
    assert json.loads(said[0]["text"]) == {"mood": "good", "score": 7}
    assert "answer.score: 7 is greater than the maximum of 1 (maximum)" in words[0]["text"]
    if model == "gemini-x":
        assert own["generationConfig"]["responseJsonSchema"]["required"] == ["mood", "score", "tags"]
    else:
        assert ("toolConfig" in own) is (vendor != "llama")
        assert ("JSON Schema" in json.dumps(own.get("system", ""))) is (vendor == "llama")


def test_requests_that_bedrock_and_gemini_do_not_support(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(variable, "any-key-at-all")
    (stage.root / "headway.toml").write_text(
        f'[providers.g]\nkind = "gemini"\nbase_url = "{stage.fake.url}"\n'
        f'[providers.b]\nkind = "bedrock"\nregion = "us-east-1"\nbase_url = "{stage.fake.url}"\n'
    )
    invoke = {
        "url": "/model/m/invoke",
        "body": {"model": "b/m", "messages": [{"role": "user", "content": "x"}]},
    }
    rows(stage, {"prompt": "#fits", "model": "g/m", "n": 2}, invoke)
    refused = headway("run", "in.jsonl", *ASK)
    assert refused.code == 2
    assert 'in.jsonl:1: "generationConfig.candidateCount" cannot be combined with --schema' in refused.err
    assert "in.jsonl:2: --schema goes with /model/{model}/converse" in refused.err


def test_the_schema_is_part_of_the_jobs_identity(stage: Stage, headway: Headway) -> None:
    rows(stage, {"prompt": "#fits"})
    assert headway("run", "in.jsonl", *ASK, "-q").code == 0
    (stage.root / "mood.json").write_text(json.dumps(SCHEMA))
    assert "is already complete" in headway("run", "in.jsonl", *ASK).err
    (stage.root / "mood.json").write_text(json.dumps({**SCHEMA, "description": "How it feels."}))
    assert "this is a new job" in headway("run", "in.jsonl", *ASK, "--out", "o.jsonl").err
    assert headway("run", "in.jsonl", "--out", "p.jsonl", "-q").code == 0
    assert len(json.loads(headway("jobs", "--json").out)) == 3


def test_a_resumed_job_still_has_its_schema(stage: Stage, headway: Headway) -> None:
    """The file may be gone by then."""
    rows(stage, {"prompt": "#never"}, {"prompt": "#fits"})
    assert headway("run", "in.jsonl", *ASK, "-q").code == 1
    (stage.root / "mood.json").unlink()
    done = headway("retry", "--failed")
    assert done.code == 1
    assert "the answer is not JSON: 'sorry'" in done.err
    assert stage.query('SELECT count(*) FROM attempts WHERE "index" = 0') == [(4,)]


def test_with_one_attempt_nothing_is_requested_again(stage: Stage, headway: Headway) -> None:
    rows(stage, {"prompt": "#repaired"})
    assert headway("run", "in.jsonl", *ASK, "--max-attempts", "1", "-q").code == 1
    assert stage.rows()[0]["headway"]["attempts"] == 1


def test_many_answers_that_do_not_fit_do_not_stop_the_lane(stage: Stage, headway: Headway) -> None:
    rows(stage, *({"prompt": "#never"} for _ in range(30)), {"prompt": "#fits"})
    done = headway("run", "in.jsonl", *ASK)
    assert "stopped" not in done.err
    assert [row["headway"]["status"] for row in stage.rows()] == ["failed"] * 30 + ["succeeded"]


def test_an_answer_that_max_tokens_cut_off_says_so(stage: Stage, headway: Headway) -> None:
    rows(stage, {"prompt": "#fits", "max_tokens": 3})
    assert headway("run", "in.jsonl", *ASK, "-q").code == 1
    assert "cut off at max_tokens: raise --max-tokens" in stage.rows()[0]["error"]["message"]


def test_max_cost_holds_for_repairs_too(stage: Stage, headway: Headway) -> None:
    """The cost of a second turn is reserved before it is sent, including the first answer and the complaint about it."""
    prices = '[providers.alpha.models."gpt-x".prices]\ninput = 1_000_000\noutput = 1_000_000'
    stage.configure("max_concurrency = 1", more=prices)
    rows(stage, *({"prompt": "#repaired", "max_tokens": 40} for _ in range(20)))
    assert headway("run", "in.jsonl", *ASK, "--max-cost", "1200", "-q").code == 3
    [(spent,)] = stage.query("SELECT cost_usd FROM jobs")
    assert 300 < spent <= 1200
    assert stage.query("SELECT count(*) FROM attempts WHERE number = 2")[0][0] >= 2


def test_rows_that_cannot_be_asked_for_json(stage: Stage, headway: Headway) -> None:
    rows(stage, {"input": "x", "model": "gpt-x"}, {"prompt": "#fits", "n": 3}, {"prompt": "#fits", "n": 1})
    refused = headway("run", "in.jsonl", *ASK)
    assert refused.code == 2
    assert "in.jsonl:1: --schema is for text answers, and /v1/embeddings returns none" in refused.err
    assert 'in.jsonl:2: "n" cannot be combined with --schema' in refused.err
    assert headway("run", "in.jsonl", *ASK, "--skip-bad-rows", "-q").code == 0


def test_show_has_the_answers_that_did_not_fit(stage: Stage, headway: Headway) -> None:
    rows(stage, {"prompt": "#repaired"})
    headway("run", "in.jsonl", *ASK, "-q")
    [job] = json.loads(headway("jobs", "--json").out)
    shown = headway("show", job["job"], "u0")
    assert 'answer of attempt 1, which did not fit:\n{"mood":"good","score":7}\n' in shown.out
    [repair] = json.loads(headway("show", job["job"], "u0", "--json").out)["repairs"]
    assert repair["attempt"] == 1
    assert len(repair["request"]["messages"]) == 3


# -- tables -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def reviews(stage: Stage) -> Path:
    path = stage.root / "reviews.csv"
    path.write_text("id,text,answer.mood\n1,#fits,x\n2,#never,y\n", encoding="utf-8")
    return path


@pytest.mark.usefixtures("reviews")
def test_plain_properties_are_columns_of_their_own(stage: Stage, headway: Headway) -> None:
    headway("run", "reviews.csv", "--prompt", "{{text}}", *ASK, "--out", "o.csv", "-q")
    with (stage.root / "o.csv").open(newline="") as file:
        header, good, bad = csv.reader(file)
    assert header == [
        "id", "text", "answer.mood", "answer", "headway_answer.mood", "answer.score", "status", "error",
    ]  # fmt: skip
    assert good == [
        "1",
        "#fits",
        "x",
        '{"mood":"good","score":0.5,"tags":["a"]}',
        "good",
        "0.5",
        "succeeded",
        "",
    ]
    assert bad[3:7] == ["", "", "", "failed"]


@pytest.mark.usefixtures("reviews")
def test_columns_have_types_in_parquet(stage: Stage, headway: Headway) -> None:
    headway("run", "reviews.csv", "--prompt", "{{text}}", *ASK, "--out", "o.parquet", "-q")
    table = pq.read_table(stage.root / "o.parquet")
    assert str(table.schema.field("answer.score").type) == "double"
    assert table["answer.score"].to_pylist() == [0.5, None]
    assert table["headway_answer.mood"].to_pylist() == ["good", None]


@pytest.mark.parametrize("vendor", [*VENDORS, "openai", "anthropic"])
def test_the_fake_answers_as_the_schema_says(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    settings, model = VENDORS.get(vendor, (f'kind = "{vendor}"\napi_key_env = "GEMINI_API_KEY"', "model-x"))
    for variable in ("GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.setenv(variable, "any-key-at-all")
    base = stage.fake.url + ("/v1" if vendor == "openai" else "")
    (stage.root / "headway.toml").write_text(
        f'[providers.p]\n{settings}\nbase_url = "{base}"\nmodel = "{model}"\n'
    )
    rows(stage, {"prompt": "What a day"}, {"prompt": "Rain again"})
    done = headway("run", "in.jsonl", *ASK, "--out", "o.csv")
    assert done.code == 0, done.err
    with (stage.root / "o.csv").open(newline="") as file:
        first, _ = csv.DictReader(file)
    assert stage.query("SELECT max(number) FROM attempts") == [(1,)]
    assert first["answer.mood"] == "echo: What a day"
