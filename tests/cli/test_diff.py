"""`headway diff`: two prompts, two models, the same rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Headway
from tests.cli.terminal import on_terminal
from tests.crash.stage import Stage

from headway.display.diff_text import word_diff


@pytest.fixture
def reviews(stage: Stage) -> Path:
    path = stage.root / "reviews.csv"
    path.write_text("id,text\nr1,good\nr2,bad\nr3,fair\n", encoding="utf-8")
    return path


def run(headway: Headway, prompt: str, name: str, *more: str) -> None:
    done = headway("run", "reviews.csv", "--prompt", prompt, "--name", name, "-q", *more)
    assert done.code == 0, done.err


@pytest.mark.usefixtures("reviews")
def test_two_prompts_on_the_same_rows(stage: Stage, headway: Headway) -> None:
    run(headway, "say {{text}}", "v1")
    run(headway, "sing {{text}}", "v2")
    shown = headway("diff", "v1", "v2", "--limit", "2")
    assert shown.code == 0, shown.err
    assert "0 the same, 3 changed" in shown.out
    assert "r1:\necho: [-say-]{+sing+} good\n" in shown.out
    assert "… and 1 more changed" in shown.out
    assert "say {{text}}" in shown.out
    assert "latency" in shown.out
    assert "\x1b" not in shown.out, "no colours in a pipe"
    data = json.loads(headway("diff", "v1", "v2", "--json", "--limit", "0").out)
    assert (data["same"], data["changed"], data["failed"]) == (0, 3, 0)
    assert data["rows"][1] == {"id": "r2", "first": "echo: say bad", "second": "echo: sing bad"}
    assert data["first"]["prompt"] == "say {{text}}"
    assert data["second"]["latency"]["units"] == 3


@pytest.mark.usefixtures("reviews")
def test_a_terminal_has_colours_and_lines_that_fit(stage: Stage, headway: Headway) -> None:
    run(headway, "say {{text}} and a long explanation of what is wanted here", "v1")
    run(headway, "sing {{text}}", "v2")
    shown = on_terminal(stage, "diff", "v1", "v2")
    assert "\x1b[31m[-say-]\x1b[0m\x1b[32m{+sing+}\x1b[0m" in shown
    jobs = on_terminal(stage, "jobs", columns=70).splitlines()
    assert max(map(len, jobs)) == 70
    assert any(line.endswith("…") for line in jobs)


@pytest.mark.usefixtures("reviews")
def test_two_models_of_one_job(stage: Stage, headway: Headway) -> None:
    run(headway, "say {{text}}", "both", "--model", "a", "--model", "b")
    for args in (("both",), ("both", "--models", "a", "b")):
        data = json.loads(headway("diff", *args, "--json").out)
        assert (data["same"], data["changed"]) == (3, 0)
        assert (data["first"]["models"], data["second"]["models"]) == (["alpha/a"], ["alpha/b"])
    refused = headway("diff", "both", "--models", "a", "c")
    assert (refused.code, "has no model 'c' — it has a, b" in refused.err) == (2, True)


@pytest.mark.usefixtures("reviews")
def test_a_model_of_a_job_with_several_against_another_job(stage: Stage, headway: Headway) -> None:
    run(headway, "say {{text}}", "both", "--model", "a", "--model", "b")
    run(headway, "sing {{text}}", "one", "--model", "c")
    refused = headway("diff", "both", "one")
    assert (refused.code, "--models A B" in refused.err) == (2, True)
    data = json.loads(headway("diff", "both", "one", "--models", "b", "c", "--json").out)
    assert (data["changed"], data["only_first"], data["only_second"]) == (3, 0, 0)
    run(headway, "sing {{text}}", "both2", "--model", "a", "--model", "b")
    data = json.loads(headway("diff", "both", "both2", "--json").out)
    assert data["changed"] == 6
    assert data["rows"][0]["id"] == "r1@a"


def test_rows_that_are_only_in_one_job_failed_or_other_rows(
    stage: Stage, headway: Headway, reviews: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(headway, "say {{text}}", "v1")
    reviews.write_text("id,text\nr1,good\nr4,new\nr2,other\n", encoding="utf-8")
    run(headway, "say {{text}}", "v2")
    data = json.loads(headway("diff", "v1", "v2", "--json").out)
    counts = {name: data[name] for name in ("same", "changed", "only_first", "only_second", "other_input")}
    assert counts == {"same": 1, "changed": 1, "only_first": 1, "only_second": 1, "other_input": 1}
    assert "are these the same rows?" in headway("diff", "v1", "v2").out
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "reviews.csv", "--prompt", "x {{text}}", "--name", "v3", "-q").code == 1
    data = json.loads(headway("diff", "v2", "v3", "--json").out)
    assert data["failed"] + data["unfinished"] == 3


@pytest.mark.usefixtures("reviews")
def test_one_job_with_one_model_needs_another(stage: Stage, headway: Headway) -> None:
    run(headway, "say {{text}}", "v1")
    refused = headway("diff", "v1")
    assert (refused.code, "name a second job" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a b c", "a x c"),
        ("", "new"),
        ("same\nlines", "same\nlines more"),
        ("word " * 3_000, "word " * 2_999 + "other"),
        ("x", "y"),
    ],
)
def test_the_parts_of_a_diff_make_both_texts(first: str, second: str) -> None:
    """Except for long parts that are the same, which are shortened."""
    parts = list(word_diff(first, second))
    if not any(" … " in text for _, text in parts):
        assert "".join(text for kind, text in parts if kind != "added") == first
        assert "".join(text for kind, text in parts if kind != "removed") == second
    assert any(kind != "same" for kind, _ in parts)


def test_a_long_part_that_is_the_same_is_shortened() -> None:
    text = "word " * 100
    (kind, shown), *_ = word_diff(text + "a", text + "b")
    assert kind == "same"
    assert len(shown) < 150
