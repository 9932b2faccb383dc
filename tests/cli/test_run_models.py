"""`headway run --model a --model b`: one job, one table, a chain for each model."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

BOTH = ("--model", "gpt-a", "--model", "alpha/gpt-b")
PROMPT = ("--prompt", "say {{text}}")


@pytest.fixture
def reviews(stage: Stage) -> Path:
    path = stage.root / "reviews.csv"
    path.write_text("id,text\nr1,good\nr2,bad\n", encoding="utf-8")
    return path


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def sent_to(stage: Stage, job: str) -> dict[str, int]:
    counts = stage.query(
        "SELECT routes.model, count(*) FROM attempts JOIN units ON units.uid = attempts.uid JOIN routes ON routes.id = units.route"
        " JOIN jobs ON jobs.id = routes.job WHERE jobs.name = ? GROUP BY 1",
        job,
    )
    return dict(counts)


@pytest.mark.usefixtures("reviews")
def test_each_row_goes_to_every_model_in_one_table(stage: Stage, headway: Headway) -> None:
    done = headway("run", "reviews.csv", *PROMPT, *BOTH)
    assert done.code == 0, done.err
    with (stage.root / "reviews.results.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    assert table == [
        ["id", "text", "answer@gpt-a", "answer@alpha/gpt-b", "status@gpt-a", "status@alpha/gpt-b", "error@gpt-a", "error@alpha/gpt-b"],
        ["r1", "good", "echo: say good", "echo: say good", "succeeded", "succeeded", "", ""],
        ["r2", "bad", "echo: say bad", "echo: say bad", "succeeded", "succeeded", "", ""],
    ]  # fmt: skip
    assert "gpt-a: 2 of 2 succeeded; " in done.err
    assert "alpha/gpt-b: 2 of 2 succeeded; " in done.err
    assert "latency" in done.err
    assert done.err.count("2 of 2 succeeded") == 2
    assert ": 2 succeeded" not in done.err, "the counts of each model are there once"
    status = headway("status").out
    assert [status.count(f"{name}: 2") for name in ("  gpt-a", "  alpha/gpt-a", "  alpha/gpt-b")] == [1, 0, 1]


@pytest.mark.usefixtures("reviews")
def test_rows_have_the_model_in_their_ids(stage: Stage, headway: Headway) -> None:
    done = headway("run", "reviews.csv", *PROMPT, *BOTH, "--out", "o.jsonl", "--json")
    rows = rows_of(stage.root / "o.jsonl")
    assert [row["custom_id"] for row in rows] == ["r1@gpt-a", "r1@alpha/gpt-b", "r2@gpt-a", "r2@alpha/gpt-b"]
    assert [row["response"]["body"]["model"] for row in rows] == ["gpt-a", "gpt-b"] * 2
    assert [row["headway"]["metadata"] for row in rows] == [{"text": "good"}] * 2 + [{"text": "bad"}] * 2
    report = json.loads(done.out)
    assert report["models"] == ["alpha/gpt-a", "alpha/gpt-b"]
    for name in ("gpt-a", "alpha/gpt-b"):
        model = report["per_model"][name]
        assert (model["units"], model["succeeded"], model["failed"]) == (2, 2, 0)
        assert model["input_tokens"] > 0
        assert 0 < model["latency"]["median_s"] <= model["latency"]["p95_s"]
    assert json.loads(headway("status", "--json").out)["per_model"] == report["per_model"]
    assert sent_to(stage, report["job"]) == {"gpt-a": 2, "gpt-b": 2}


@pytest.mark.usefixtures("reviews")
def test_the_cost_of_each_model_is_its_own(stage: Stage, headway: Headway) -> None:
    prices = "\n".join(
        f'[providers.alpha.models."{model}".prices]\ninput = {usd}\noutput = {usd}'
        for model, usd in (("gpt-a", 1), ("gpt-b", 10))
    )
    with (stage.root / "headway.toml").open("a") as file:
        file.write(f"\n{prices}\n")
    done = json.loads(headway("run", "reviews.csv", *PROMPT, *BOTH, "--json").out)
    a, b = (done["per_model"][name]["cost_usd"] for name in ("gpt-a", "alpha/gpt-b"))
    assert b == pytest.approx(10 * a)
    assert done["cost_usd"] == pytest.approx(a + b)


@pytest.mark.usefixtures("reviews")
def test_a_parquet_table_has_the_usage_of_each_model(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.csv", *PROMPT, *BOTH, "--out", "o.parquet", "-q").code == 0
    table = pq.read_table(stage.root / "o.parquet")
    assert table["output_tokens@gpt-a"].to_pylist() == table["output_tokens@alpha/gpt-b"].to_pylist()
    assert table["id"].to_pylist() == ["r1", "r2"]


def test_each_model_has_its_own_conversation_and_stored_answers(stage: Stage, headway: Headway) -> None:
    stage.write_input(
        [
            {"id": "c1", "conversation": "ann", "prompt": "I am Ann"},
            {"id": "c2", "conversation": "ann", "prompt": "who am I"},
            {"id": "s1", "prompt": "sum", "store_as": "summary"},
            {"id": "s2", "prompt": "T: {{summary}}"},
        ]
    )
    assert headway("run", "in.jsonl", *BOTH, "-q").code == 0
    rows = {row["custom_id"]: row for row in rows_of(stage.out)}
    assert rows["s2@gpt-a"]["headway"]["text"] == "echo: T: echo: sum"
    [job] = json.loads(headway("jobs", "--json").out)
    for model, name in (("gpt-a", "gpt-a"), ("alpha/gpt-b", "gpt-b")):
        shown = json.loads(headway("show", job["job"], f"c2@{model}", "--json").out)["request"]["body"]
        assert shown["model"] == name
        assert [message["content"] for message in shown["messages"]] == [
            "I am Ann",
            "echo: I am Ann",
            "who am I",
        ]
    edges = stage.query(
        "SELECT one.route = other.route FROM edges JOIN units AS one ON one.uid = edges.uid JOIN units AS other ON other.uid = edges.before"
    )
    assert edges == [(1,)] * 4, "no chain crosses from one model to the other"


def test_rows_from_standard_input_are_read_for_each_model(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b"".join(json.dumps(stage.row(index)).encode() + b"\n" for index in range(5_000))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    planned = json.loads(headway("plan", "-", *BOTH, "--json").out)
    assert {name: lane["requests"] for name, lane in planned["lanes"].items()} == {
        "alpha/gpt-a": 5_000,
        "alpha/gpt-b": 5_000,
    }


def test_a_row_with_a_model_of_its_own_is_a_bad_row(stage: Stage, headway: Headway) -> None:
    stage.write_input([stage.row(0), stage.row(1, model="own"), stage.row(2)])
    refused = headway("run", "in.jsonl", *BOTH)
    assert refused.code == 2
    assert 'in.jsonl:2: "model" is set in this row' in refused.err
    assert "1 bad row;" in refused.err
    assert headway("run", "in.jsonl", *BOTH, "--skip-bad-rows", "-q").code == 0
    assert [row["custom_id"] for row in rows_of(stage.out)] == [
        "u0@gpt-a", "u0@alpha/gpt-b", "u2@gpt-a", "u2@alpha/gpt-b",
    ]  # fmt: skip


def test_two_names_of_one_model_are_refused_and_one_name_twice_is_one_model(
    stage: Stage, headway: Headway
) -> None:
    refused = headway("run", "in.jsonl", "--model", "x", "--model", "alpha/x")
    assert (refused.code, "are the same model" in refused.err) == (2, True)
    assert headway("run", "in.jsonl", "--model", "x", "--model", "x", "-q").code == 0
    assert rows_of(stage.out)[0]["custom_id"] == "u0"


@pytest.mark.usefixtures("reviews")
def test_a_sample_of_rows_for_several_models_is_taken_over(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.csv", *PROMPT, *BOTH, "--limit", "1", "-q").code == 0
    with (stage.root / "reviews.first-1.results.csv").open(encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 2
    done = headway("run", "reviews.csv", *PROMPT, *BOTH)
    assert "2 of 4 answers are reused and not requested again" in done.err


@pytest.mark.usefixtures("reviews")
def test_answer_files_of_several_models_have_no_folder_for_a_slash(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.csv", *PROMPT, *BOTH, "--out-dir", "o", "-q").code == 0
    assert sorted(path.name for path in (stage.root / "o").iterdir()) == [
        "r1@alpha_gpt-b.answer.md", "r1@gpt-a.answer.md", "r2@alpha_gpt-b.answer.md", "r2@gpt-a.answer.md",
    ]  # fmt: skip
