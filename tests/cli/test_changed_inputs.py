"""`headway run` with an input that has changed: rows that are the same keep their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, wait_for

PROMPT = ("--prompt", "say {{text}}")
WORDS = [f"word {number}" for number in range(6)]


def write_table(stage: Stage, words: list[str]) -> None:
    (stage.root / "t.csv").write_text("text\n" + "".join(f"{word}\n" for word in words), encoding="utf-8")


def table(stage: Stage, headway: Headway, words: list[str], *flags: str) -> tuple[str, dict[str, str]]:
    """Run a table of these words; returns what was said, and the texts by id."""
    write_table(stage, words)
    done = headway("run", "t.csv", *PROMPT, *flags)
    assert done.code == 0, done.err
    return done.err, texts(headway)


def texts(headway: Headway) -> dict[str, str]:
    rows = [json.loads(line) for line in headway("export").out.splitlines()]
    return {row["custom_id"]: row["headway"]["text"] for row in rows}


def echoes(words: list[str]) -> dict[str, str]:
    return {f"row-{number}": f"echo: say {word}" for number, word in enumerate(words, 2)}


def attempts(stage: Stage) -> int:
    [(count,)] = stage.query("SELECT count(*) FROM attempts")
    return int(count)


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ([*WORDS, "new"], 1),
        ([*WORDS[:3], "new", *WORDS[3:]], 1),
        (["new", *WORDS[1:]], 1),
        (WORDS[::-1], 0),
        ([WORDS[4], "new", *WORDS[:2]], 1),
        ([*WORDS, WORDS[0]], 1),
    ],
    ids=["appended", "inserted", "changed", "reversed", "mixed", "the same row once more"],
)
def test_rows_of_a_table_without_ids_are_found_by_their_requests(
    stage: Stage, headway: Headway, words: list[str], sent: int
) -> None:
    table(stage, headway, WORDS)
    first = stage.job()["name"]
    write_table(stage, words)
    plan = json.loads(headway("run", "t.csv", *PROMPT, "--dry-run", "--json").out)
    assert plan["requests"] == sent, "a plan knows it, too"
    said, answers = table(stage, headway, words)
    assert answers == echoes(words)
    assert attempts(stage) == 6 + sent
    reused = f"{len(words) - sent} of {len(words)} answers are reused and not requested again"
    assert f"the input has changed since job {first}: {reused}" in said
    assert "is already complete" in headway("run", "t.csv", *PROMPT).err


def test_fresh_reuses_nothing_and_is_reused_itself(stage: Stage, headway: Headway) -> None:
    table(stage, headway, WORDS)
    said, _ = table(stage, headway, [*WORDS, "new"], "--fresh")
    assert "reused" not in said
    assert attempts(stage) == 6 + 7
    table(stage, headway, [*WORDS, "new", "newer"])
    assert attempts(stage) == 6 + 7 + 1


def test_another_question_reuses_nothing(stage: Stage, headway: Headway) -> None:
    table(stage, headway, WORDS)
    write_table(stage, [*WORDS, "new"])
    asked = headway("run", "t.csv", *PROMPT, "--max-tokens", "7")
    assert "this is a new job" in asked.err
    assert attempts(stage) == 6 + 7
    stage.configure(model="another")
    assert headway("run", "t.csv", *PROMPT).code == 0
    assert attempts(stage) == 6 + 7 + 7


def test_answers_of_older_versions_are_found_behind_a_sample(stage: Stage, headway: Headway) -> None:
    table(stage, headway, WORDS)
    table(stage, headway, ["new", *WORDS], "--limit", "2")
    assert attempts(stage) == 7
    table(stage, headway, ["new", *WORDS, "newer"])
    assert attempts(stage) == 8


def test_with_the_sample_of_a_changed_table_the_rest_is_reused(stage: Stage, headway: Headway) -> None:
    table(stage, headway, WORDS)
    table(stage, headway, ["new", *WORDS], "--limit", "2")
    table(stage, headway, ["new", *WORDS])
    assert attempts(stage) == 7


def test_two_models(stage: Stage, headway: Headway) -> None:
    both = ("--model", "gpt-x", "--model", "gpt-y")
    table(stage, headway, WORDS, *both)
    table(stage, headway, ["new", *WORDS], *both)
    assert attempts(stage) == 12 + 2


# -- rows with ids ------------------------------------------------------------------------------------------------------


def test_rows_with_ids_keep_their_answers_only_with_the_same_request(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    rows = [stage.row(index) for index in range(10)]
    rows[4]["prompt"] = "say it differently"
    rows[5]["id"] = "renamed"
    rows[6]["model"] = "gpt-y"
    rows.insert(2, stage.row(10))
    stage.write_input(rows)
    plan = json.loads(headway("run", "in.jsonl", "--dry-run", "--json").out)
    assert plan["requests"] == 4
    done = headway("run", "in.jsonl")
    assert done.code == 0
    assert "7 of 11 answers are reused" in done.err
    assert attempts(stage) == 10 + 4
    assert texts(headway)["u4"].startswith("echo: say it differently")


def test_another_provider_with_the_same_model_is_another_request(stage: Stage, headway: Headway) -> None:
    same = (
        f'\n[providers.beta]\nkind = "openai"\nbase_url = "{stage.fake.url}/v1"\napi_key_env = "ALPHA_KEY"\n'
    )
    stage.configure(more=same)
    stage.write_input([stage.row(index, model="alpha/gpt-x") for index in range(4)])
    assert headway("run", "in.jsonl", "-q").code == 0
    stage.write_input([stage.row(index, model=f"{'beta' if index else 'alpha'}/gpt-x") for index in range(4)])
    assert headway("run", "in.jsonl", "-q").code == 0
    assert attempts(stage) == 4 + 3


def test_later_turns_and_rows_with_stored_names_are_sent_again(stage: Stage, headway: Headway) -> None:
    rows: list[dict[str, Any]] = [
        stage.row(0, conversation="c"),
        stage.row(1, conversation="c"),
        stage.row(2, store_as="name"),
        {**stage.row(3), "prompt": "about {{name}}"},
    ]
    stage.write_input(rows)
    assert headway("run", "in.jsonl", "-q").code == 0
    stage.write_input([*rows, stage.row(4)])
    plan = json.loads(headway("run", "in.jsonl", "--dry-run", "--json").out)
    assert plan["requests"] == 3
    assert headway("run", "in.jsonl", "-q").code == 0
    assert attempts(stage) == 4 + 3


def test_failed_rows_are_sent_again(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    assert headway("run", "in.jsonl", "-q", "--limit", "4").code == 0
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "-q").code == 1
    monkeypatch.setenv("ALPHA_KEY", "sk-good-again")
    stage.write_input([stage.row(index) for index in range(9)])
    done = headway("run", "in.jsonl")
    assert "4 of 9 answers are reused" in done.err
    assert done.code == 0


def test_a_changed_input_whose_run_was_killed_resumes(stage: Stage, headway: Headway) -> None:
    table(stage, headway, WORDS)
    write_table(stage, ["slow 1", *WORDS, "slow 2"])
    stage.env["ALPHA_KEY"] = "sk-stuck-account"
    with stage.process("run", "t.csv", *PROMPT) as process:
        wait_for(
            "both are sent",
            lambda: stage.query("SELECT count(*) FROM units WHERE status = 'running'") == [(2,)],
        )
        process.kill()
        process.wait()
    assert attempts(stage) == 6
    assert headway("resume").code == 0
    assert texts(headway) == echoes(["slow 1", *WORDS, "slow 2"])
    [(sent,)] = stage.query("SELECT count(*) FROM attempts WHERE outcome = 'succeeded'")
    assert sent == 8


# -- files --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def docs(stage: Stage) -> Path:
    folder = stage.root / "docs"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.txt").write_text(f"text {name}", encoding="utf-8")
    return folder


FILES = ("run", "docs", *PROMPT, "--out-dir", "out")


def answer_files(stage: Stage) -> dict[str, str]:
    return {path.name[0]: path.read_text() for path in sorted((stage.root / "out").rglob("*.answer.md"))}


def test_the_folder_of_answers_follows_its_files(stage: Stage, headway: Headway, docs: Path) -> None:
    assert headway(*FILES).code == 0
    before = {path: path.stat().st_mtime_ns for path in (stage.root / "out").rglob("*.answer.md")}
    (docs / "b.txt").write_text("changed")
    (docs / "d.txt").write_text("text d")
    assert headway(*FILES, "--dry-run").code == 0
    done = headway(*FILES)
    assert done.code == 0, done.err
    assert "2 of 4 answers are reused and not requested again" in done.err
    assert attempts(stage) == 3 + 2
    assert answer_files(stage) == {
        "a": "echo: say text a\n", "b": "echo: say changed\n", "c": "echo: say text c\n", "d": "echo: say text d\n"
    }  # fmt: skip
    kept = [path.name for path, at in before.items() if path.stat().st_mtime_ns == at]
    assert sorted(kept) == ["a.txt.answer.md", "c.txt.answer.md"]


def test_answers_of_files_that_are_gone_are_left_and_counted(
    stage: Stage, headway: Headway, docs: Path
) -> None:
    assert headway(*FILES).code == 0
    (docs / "a.txt").unlink()
    done = headway(*FILES)
    assert done.code == 0
    assert "out still has 1 answer of an input that is gone\n" in done.err
    assert sorted(answer_files(stage)) == ["a", "b", "c"]
    (docs / "a.txt").write_text("another a")
    assert headway(*FILES).code == 0
    assert answer_files(stage)["a"] == "echo: say another a\n"
    assert attempts(stage) == 3 + 0 + 1


def test_the_first_version_of_files_takes_its_folder_back(stage: Stage, headway: Headway, docs: Path) -> None:
    assert headway(*FILES).code == 0
    (docs / "b.txt").write_text("changed")
    assert headway(*FILES).code == 0
    (docs / "b.txt").write_text("text b")
    assert headway(*FILES).code == 0
    assert answer_files(stage)["b"] == "echo: say text b\n"
    assert attempts(stage) == 4


def test_a_folder_of_another_question_or_a_fresh_job_needs_force(
    stage: Stage, headway: Headway, docs: Path
) -> None:
    assert headway(*FILES).code == 0
    assert headway(*FILES, "--fresh").code == 2
    assert headway(*FILES, "--max-tokens", "7").code == 2
    assert attempts(stage) == 3
    (docs / "d.txt").write_text("text d")
    mine = next((stage.root / "out").rglob("a.txt.answer.md")).with_name("d.txt.answer.md")
    mine.write_text("a file of the user")
    assert headway(*FILES).code == 2
    assert mine.read_text() == "a file of the user"


def test_other_arguments_reuse_nothing(stage: Stage, headway: Headway, docs: Path) -> None:
    assert headway("run", "docs", *PROMPT, "-q").code == 0
    (docs / "b.txt").write_text("changed")
    assert headway("run", "docs/*.txt", *PROMPT, "-q").code == 0
    assert attempts(stage) == 6
