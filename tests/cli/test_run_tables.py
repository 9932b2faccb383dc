"""`headway run` with tables, samples and dry runs."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage, contents

PROMPT = ("--prompt", "say {{text}}")


@pytest.fixture
def reviews(stage: Stage) -> Path:
    path = stage.root / "reviews.csv"
    path.write_text('id,text,stars\nr1,good,5\nr2,"bad, really",1\nr3,"two\nlines",3\n', encoding="utf-8")
    return path


def results(stage: Stage, name: str = "reviews.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (stage.root / name).read_text(encoding="utf-8").splitlines()]


def answers(rows: list[dict[str, Any]]) -> list[str]:
    return [row["response"]["body"]["choices"][0]["message"]["content"] for row in rows]


def sheet(path: Path, delimiter: str = ",") -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter, strict=True))


def attempts(stage: Stage) -> int:
    [(count,)] = stage.query("SELECT count(*) FROM attempts")
    return int(count)


ECHOES = ["echo: say good", "echo: say bad, really", "echo: say two\nlines"]


# -- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reviews")
def test_each_row_of_a_table_is_a_request(stage: Stage, headway: Headway) -> None:
    done = headway("run", "reviews.csv", *PROMPT, "--out", "reviews.results.jsonl")
    assert done.code == 0, done.err
    rows = results(stage)
    assert answers(rows) == ECHOES
    assert [row["custom_id"] for row in rows] == ["r1", "r2", "r3"]
    assert rows[1]["headway"]["metadata"] == {"text": "bad, really", "stars": "1"}


@pytest.mark.usefixtures("reviews")
def test_a_misspelt_column_comes_before_the_check_of_the_output(stage: Stage, headway: Headway) -> None:
    (stage.root / "reviews.results.csv").write_text("mine")
    refused = headway("run", "reviews.csv", "--prompt", "say {{txet}}")
    assert refused.code == 2
    assert "has no column 'txet', which --prompt names — did you mean 'text'?" in refused.err
    assert "reviews.results.csv exists" in headway("run", "reviews.csv", *PROMPT).err


def test_the_same_prompt_resumes_and_another_is_a_new_job(
    stage: Stage, headway: Headway, reviews: Path
) -> None:
    assert headway("run", "reviews.csv", *PROMPT, "-q").code == 0
    assert "is already complete" in headway("run", "reviews.csv", *PROMPT).err
    (stage.root / "ask.txt").write_text("say {{text}}\n")
    assert "is already complete" in headway("run", "reviews.csv", "--prompt", "@ask.txt").err
    packed = stage.root / "reviews.csv.gz"
    packed.write_bytes(gzip.compress(reviews.read_bytes()))
    assert "is already complete" in headway("run", "reviews.csv.gz", *PROMPT).err
    assert attempts(stage) == 3
    other = headway("run", "reviews.csv", "--prompt", "sing {{ text }}", "--out", "sung.jsonl")
    assert other.code == 0
    assert "this is a new job" in other.err
    assert answers(results(stage, "sung.jsonl"))[0] == "echo: sing good"
    assert attempts(stage) == 6


@pytest.mark.usefixtures("reviews")
def test_mistakes_are_refused_before_anything_is_sent(stage: Stage, headway: Headway) -> None:
    said = {
        ("run", "reviews.csv"): "is a table",
        ("run", "in.jsonl", *PROMPT): "--prompt is for tables",
        ("run", "reviews.csv", "--prompt", "{{txet}}"): "has no column 'txet', which --prompt names — did you mean 'text'?",
        ("run", "reviews.csv", *PROMPT, "--system", "{{star}}"): "which --system names — did you mean 'stars'?",
        ("run", "reviews.csv", "--prompt", "@nowhere.txt"): "--prompt @nowhere.txt: no such file",
        ("run", "reviews.csv", "--prompt", " "): "--prompt is empty",
        ("run", "reviews.csv", "--prompt", "{{text"): "opened and not closed",
        ("run", "reviews.csv", *PROMPT, "--out", "reviews.csv", "--force"): "is the input itself",
        ("run", "reviews.csv", *PROMPT, "--out", "r.csv", "--out-order", "completion"): "--out-order",
        ("run", "reviews.csv", *PROMPT, "--out", "r.csv.gz"): "not written compressed",
        ("run", "reviews.csv", *PROMPT, "--limit", "0"): "--limit",
        ("run", "reviews.csv", *PROMPT, "--max-tokens", "0"): "--max-tokens",
    }  # fmt: skip
    for args, message in said.items():
        refused = headway(*args)
        assert refused.code == 2, args
        assert message in refused.err
        assert len(refused.err.splitlines()) == 1, refused.err
    assert not list(stage.root.glob("reviews.results.*"))
    if stage.db.exists():
        assert json.loads(headway("jobs", "--json").out) == []


def test_ragged_rows_are_named_or_left_out(stage: Stage, headway: Headway, reviews: Path) -> None:
    with reviews.open("a") as file:
        file.write("r4,short\nr5,fine,2\n")
    refused = headway("run", "reviews.csv", *PROMPT)
    assert refused.code == 2
    assert "reviews.csv:6: expected 3 cells, not 2" in refused.err
    assert headway("run", "reviews.csv", *PROMPT, "--skip-bad-rows").code == 0
    table = sheet(stage.root / "reviews.results.csv")
    assert [row[0] for row in table] == ["id", "r1", "r2", "r3", "r5"]


def test_flags_for_rows_that_lack_something(stage: Stage, headway: Headway) -> None:
    stage.write_input([stage.row(0), stage.row(1, model="alpha/gpt-own")])
    assert headway("run", "in.jsonl", "--model", "gpt-flag", "--max-tokens", "50").code == 0
    rows = stage.rows()
    assert [row["headway"]["lane"] for row in rows] == ["alpha/gpt-flag", "alpha/gpt-own"]
    assert (
        "is already complete" in headway("run", "in.jsonl", "--model", "gpt-flag", "--max-tokens", "50").err
    )
    assert headway("run", "in.jsonl", "--model", "gpt-other", "--out", "o.jsonl").code == 0
    assert results(stage, "o.jsonl")[0]["headway"]["lane"] == "alpha/gpt-other"


# -- output -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reviews")
@pytest.mark.parametrize(("name", "delimiter"), [("out/answers.csv", ","), ("answers.tsv", "\t")])
def test_results_as_a_table(stage: Stage, headway: Headway, name: str, delimiter: str) -> None:
    done = headway("run", "reviews.csv", *PROMPT, "--out", name)
    assert done.code == 0, done.err
    assert f"results: {name}" in done.err
    assert sheet(stage.root / name, delimiter) == [
        ["id", "text", "stars", "answer", "status", "error"],
        ["r1", "good", "5", ECHOES[0], "succeeded", ""],
        ["r2", "bad, really", "1", ECHOES[1], "succeeded", ""],
        ["r3", "two\nlines", "3", ECHOES[2], "succeeded", ""],
    ]
    assert not list(stage.root.rglob("*.new"))


def test_results_of_rows_as_a_table(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--out", "answers.csv").code == 0
    rows = sheet(stage.root / "answers.csv")
    assert rows[:2] == [["id", "answer", "status", "error"], ["u0", "echo: say 0", "succeeded", ""]]
    assert len(rows) == 11


def test_columns_with_the_names_of_added_ones(stage: Stage, headway: Headway) -> None:
    (stage.root / "quiz.csv").write_text("question,answer\n1+1,2\n")
    assert headway("run", "quiz.csv", "--prompt", "{{question}}", "--out", "r.csv").code == 0
    assert sheet(stage.root / "r.csv") == [
        ["id", "question", "answer", "headway_answer", "status", "error"],
        ["row-2", "1+1", "2", "echo: 1+1", "succeeded", ""],
    ]


@pytest.mark.usefixtures("reviews")
def test_a_table_of_another_job_is_not_overwritten(stage: Stage, headway: Headway) -> None:
    mine = stage.root / "mine.csv"
    mine.write_text("my,own\n1,2\n")
    refused = headway("run", "reviews.csv", *PROMPT, "--out", "mine.csv")
    assert refused.code == 2
    assert "--force" in refused.err
    assert mine.read_text() == "my,own\n1,2\n"
    assert headway("run", "reviews.csv", *PROMPT, "--out", "ours.csv").code == 0
    first = (stage.root / "ours.csv").read_bytes()
    (stage.root / "ours.csv").unlink()
    assert headway("run", "reviews.csv", *PROMPT, "--out", "ours.csv").code == 0, "written again"
    assert headway("run", "reviews.csv", *PROMPT, "--out", "ours.csv").code == 0, "and again"
    assert (stage.root / "ours.csv").read_bytes() == first
    for _ in range(2):
        assert headway("run", "reviews.csv", *PROMPT, "--out", "elsewhere.csv").code == 0
    assert (stage.root / "elsewhere.csv").read_bytes() == first
    refused = headway("run", "reviews.csv", *PROMPT, "--out", "mine.csv")
    assert (refused.code, mine.read_text()) == (2, "my,own\n1,2\n"), "a job that is done neither"
    assert headway("run", "reviews.csv", *PROMPT, "--out", "mine.csv", "--force").code == 0
    assert mine.read_bytes() == first
    other = headway("run", "reviews.csv", "--prompt", "sing {{text}}", "--out", "ours.csv")
    assert other.code == 2, "another job's table is not this one's"
    assert "ours.csv has the results of another job, 'reviews-" in other.err
    assert not list(stage.root.rglob("*.new"))


@pytest.mark.usefixtures("reviews")
def test_every_table_that_a_job_wrote_is_its_own(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even the table of two runs ago, with failures that succeeded later."""
    run = ("run", "reviews.csv", *PROMPT, "-q", "--out")
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert [headway(*run, name).code for name in ("one.csv", "two.csv", "three.csv")] == [1, 1, 1]
    monkeypatch.setenv("ALPHA_KEY", "sk-another-one")
    assert headway(*run, "two.csv").code == 0, "while there is work to do"
    done = headway(*run, "one.csv")
    assert done.code == 0, f"and when all is done: {done.err}"
    assert (stage.root / "one.csv").read_bytes() == (stage.root / "two.csv").read_bytes()
    other = ("run", "reviews.csv", "--prompt", "sing {{text}}", "--out", "one.csv")
    assert headway(*other).code == 2, "of no other job"
    assert headway(*other, "--force").code == 0
    assert headway(*run, "one.csv").code == 2, "and no more when another has replaced it"


@pytest.mark.usefixtures("reviews")
def test_failures_are_in_the_table_and_replaced_later(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    stopped = headway("run", "reviews.csv", *PROMPT, "--out", "r.csv")
    assert stopped.code == 1
    rows = sheet(stage.root / "r.csv")
    assert [row[3] for row in rows[1:]] == ["", "", ""]
    assert all(row[5].startswith("auth") for row in rows[1:]), rows
    monkeypatch.setenv("ALPHA_KEY", "sk-another-one")
    assert headway("resume").code == 0
    assert [row[3] for row in sheet(stage.root / "r.csv")[1:]] == ECHOES


@pytest.mark.usefixtures("reviews")
def test_export_as_a_table(stage: Stage, headway: Headway) -> None:
    assert headway("run", "reviews.csv", *PROMPT, "--out", "r.csv", "-q").code == 0
    assert headway("export", "--out", "e.csv").code == 0
    assert (stage.root / "e.csv").read_bytes() == (stage.root / "r.csv").read_bytes()
    assert headway("export", "--out", "e.csv").code == 2
    assert headway("export", "--out", "e.tsv").code == 0
    assert sheet(stage.root / "e.tsv", "\t") == sheet(stage.root / "r.csv")
    assert headway("export", "--out", "e.csv.gz").code == 2
    assert len(headway("export").out.splitlines()) == 3


# -- samples and dry runs -----------------------------------------------------------------------------------------------


def test_a_sample_is_a_job_of_its_own(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "--limit", "3").code == 0
    assert [row["custom_id"] for row in results(stage, "in.first-3.results.jsonl")] == ["u0", "u1", "u2"]
    sample = stage.job()["name"]
    assert "is already complete" in headway("run", "in.jsonl", "--limit", "3").err
    whole = headway("run", "in.jsonl")
    assert whole.code == 0
    assert len(stage.rows()) == 10
    assert (
        f"another --limit, as job {sample}: 3 of 10 answers are reused and not requested again" in whole.err
    )
    assert "all runs:" not in whole.err, "it is the first run of this job"
    assert "this is a new job" not in whole.err


def test_no_row_of_a_sample_is_paid_for_twice(stage: Stage, headway: Headway) -> None:
    """Not even if the sample grows, shrinks or comes after the whole file; --fresh sends again."""
    for limit in ("2", "5", "3"):
        assert headway("run", "in.jsonl", "-q", "--limit", limit).code == 0
        assert len(results(stage, f"in.first-{limit}.results.jsonl")) == int(limit)
    assert attempts(stage) == 5
    report = json.loads(headway("run", "in.jsonl", "--dry-run", "--json").out)
    assert report["requests"] == 5, "a plan knows it, too"
    assert headway("run", "in.jsonl", "-q").code == 0
    assert attempts(stage) == 10
    assert contents(stage.rows())[4]["content"] == "echo: say 4"
    assert [row["headway"]["status"] for row in stage.rows()] == ["cached"] * 5 + ["succeeded"] * 5
    assert headway("run", "in.jsonl", "-q", "--limit", "9").code == 0
    assert attempts(stage) == 10
    assert headway("run", "in.jsonl", "-q", "--limit", "4", "--fresh").code == 0
    assert attempts(stage) == 14


def test_a_sample_with_another_prompt_is_not_reused(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q", "--limit", "2", "--max-tokens", "7").code == 0
    stage.configure(model="another")
    assert headway("run", "in.jsonl", "-q", "--limit", "2", "--force").code == 0
    stage.configure()
    assert headway("run", "in.jsonl", "-q").code == 0
    assert attempts(stage) == 14


def test_answers_of_a_sample_with_failures_are_reused(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "-q", "--limit", "2").code == 1
    monkeypatch.setenv("ALPHA_KEY", "sk-good-again")
    done = headway("run", "in.jsonl")
    assert done.code == 0
    assert "another --limit, as job in-" in done.err
    assert "it has no answers yet" in done.err
    assert {row["headway"]["status"] for row in stage.rows()} == {"succeeded"}


def test_a_bad_row_after_the_sample_is_ignored(stage: Stage, headway: Headway) -> None:
    with stage.input.open("a") as file:
        file.write("{not json\n")
    assert headway("run", "in.jsonl", "--limit", "10", "-q").code == 0
    assert headway("run", "in.jsonl", "--limit", "11", "-q").code == 2


@pytest.mark.usefixtures("reviews")
def test_a_dry_run_creates_nothing(stage: Stage, headway: Headway) -> None:
    before = sorted(stage.root.rglob("*"))
    done = headway("run", "reviews.csv", *PROMPT, "--max-tokens", "50", "--out", "new/r.csv", "--dry-run")
    assert done.code == 0, done.err
    assert "reviews.csv: 3 rows (dry run: nothing was sent)" in done.out
    assert "alpha/gpt-x" in done.out
    assert "latency" in done.out, "three rows of a window of eight"
    report = json.loads(headway("run", "in.jsonl", "--dry-run", "--json").out)
    lane = report["lanes"]["alpha/gpt-x"]
    assert (lane["requests"], lane["max_output_tokens"], lane["open_ended"]) == (10, 0, 10)
    assert lane["input_tokens"]["estimate"] == 12.5
    assert (report["rows"], report["bad_rows"], report["job"], report["succeeded"], report["out"]) == (
        10,
        0,
        None,
        0,
        str(stage.out),
    )
    assert headway("run", "in.jsonl", "--dry-run", "-q") == (0, "", "")
    assert sorted(stage.root.rglob("*")) == before


def test_a_dry_run_knows_the_job(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    done = headway("run", "in.jsonl", "--dry-run")
    assert done.code == 0
    assert "10 of 10 answers already" in done.out
    assert attempts(stage) == 10


def test_a_dry_run_refuses_what_a_run_refuses(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage.root / "taken.jsonl").write_text("mine\n")
    assert "--force" in headway("run", "in.jsonl", "--dry-run", "--out", "taken.jsonl").err
    assert headway("run", "in.jsonl", "--dry-run", "--only-failed").code == 2
    assert headway("run", "in.jsonl", "--dry-run", "--out", "taken.jsonl/below.jsonl").code != 0
    text = stage.input.read_text()
    stage.input.write_text(text + "{not json\n")
    refused = headway("run", "in.jsonl", "--dry-run")
    assert refused.code == 2
    assert "in.jsonl:11" in refused.err
    assert "1 bad row left out" in headway("run", "in.jsonl", "--dry-run", "--skip-bad-rows").out
    stage.input.write_text(text + text.splitlines()[0] + "\n")
    assert "(lines 1 and 11)" in headway("run", "in.jsonl", "--dry-run").err
    stage.input.write_text(text)
    monkeypatch.delenv("ALPHA_KEY")
    refused = headway("run", "in.jsonl", "--dry-run")
    assert refused.code == 2
    assert "ALPHA_KEY" in refused.err
    assert not stage.db.exists()


# -- cells that spreadsheets would run ------------------------------------------------------------------------------------

EVIL = '=HYPERLINK("http://evil/"&A1)'
CELLS = {
    EVIL: f"'{EVIL}",
    "+1-800-CALL": "'+1-800-CALL",
    "-5": "-5",
    "+1.5e3": "+1.5e3",
    "-": "'-",
    "-5+cmd|' /C calc'!A0": "'-5+cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "\t=1": "'\t=1",
    "\r=1": "'\r=1",
    "\n=1": "'\n=1",
    "＝1+1": "'＝1+1",
    "'=1": "'=1",
    " =1": "' =1",
    "\u00a0=1": "'\u00a0=1",
    "\ufeff=1": "'\ufeff=1",
    "\v\f-1": "'\v\f-1",
    " a - b": " a - b",
    "plain": "plain",
    "": "",
}


@pytest.fixture
def formulas(stage: Stage) -> None:
    """A job whose answers are these cells."""
    (stage.root / "parrot.py").write_text(
        "def say(payload):\n    return {'choices': [{'message': {'role': 'assistant', 'content': payload['say']}}]}\n"
    )
    (stage.root / "headway.toml").write_text(
        "[providers.work]\nkind = 'python'\ntarget = 'parrot:say'\nisolation = 'inline'\n"
    )
    stage.input.write_text(
        "".join(json.dumps({"id": f"{n}", "say": text}) + "\n" for n, text in enumerate(CELLS))
    )


def answers_in(path: Path, delimiter: str = ",") -> list[str]:
    header, *rows = sheet(path, delimiter)
    return [row[header.index("answer")] for row in rows]


@pytest.mark.usefixtures("formulas")
@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_safe_cells_contain_no_formulas(stage: Stage, headway: Headway, name: str, delimiter: str) -> None:
    assert headway("run", "in.jsonl", "--out", name).code == 0
    assert answers_in(stage.root / name, delimiter) == list(CELLS)  # Unchanged without the flag.
    assert headway("run", "in.jsonl", "--out", name, "--safe-cells").code == 0
    assert answers_in(stage.root / name, delimiter) == list(CELLS.values())
    assert headway("export", "--out", f"exported-{name}", "--safe-cells").code == 0
    assert answers_in(stage.root / f"exported-{name}", delimiter) == list(CELLS.values())


@pytest.mark.usefixtures("formulas")
def test_a_job_remembers_safe_cells(stage: Stage, headway: Headway) -> None:
    """The resume hint of a stopped run does not repeat the flag."""
    assert headway("run", "in.jsonl", "--out", "a.csv", "--safe-cells").code == 0
    (stage.root / "a.csv").unlink()
    assert headway("resume").code == 0
    assert answers_in(stage.root / "a.csv") == list(CELLS.values())


@pytest.mark.usefixtures("reviews")
def test_safe_cells_of_the_input_and_names_of_columns(stage: Stage, headway: Headway) -> None:
    (stage.root / "evil.csv").write_text("id,text,=cmd\n-1,hello,=2+3\n")
    assert headway("run", "evil.csv", *PROMPT, "--out", "a.csv", "--safe-cells").code == 0
    assert sheet(stage.root / "a.csv")[0][:3] == ["id", "text", "'=cmd"]
    assert sheet(stage.root / "a.csv")[1][:3] == ["-1", "hello", "'=2+3"]


def test_safe_cells_without_a_spreadsheet_are_refused(headway: Headway) -> None:
    for args in (("run", "in.jsonl"), ("run", "in.jsonl", "--out", "a.parquet"), ("export",)):
        done = headway(*args, "--safe-cells")
        assert done.code == 2
        assert "--safe-cells is for spreadsheets" in done.err


def test_a_prompt_without_a_column_is_warned_about(stage: Stage, headway: Headway) -> None:
    (stage.root / "in.csv").write_text("text\ngood\nbad\n", encoding="utf-8")
    warning = "warning: --prompt names no column: every row gets the same question; a column is named by '{{COLUMN}}'"
    same = headway("run", "in.csv", "--prompt", "say a word", "--progress", "none")
    assert same.code == 0
    assert warning in same.err.splitlines()
    assert warning in headway("plan", "in.csv", "--prompt", "say another").err
    assert (
        "warning"
        not in headway(
            "run", "in.csv", "--prompt", "say {{text}}", "--progress", "none", "--fresh", "--force"
        ).err
    )
    by_system = headway(
        "run", "in.csv", "--prompt", "say", "--system", "{{text}}", "--progress", "none", "--fresh", "--force"
    )
    assert "warning" not in by_system.err
