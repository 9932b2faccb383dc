"""`headway run` with patterns, directories and lists of files, and answers as files."""

from __future__ import annotations

import csv
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

PROMPT = ("--prompt", "say {{text}}")


@pytest.fixture
def docs(stage: Stage) -> Path:
    folder = stage.root / "docs"
    (folder / "sub").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/d.md"):
        (folder / name).write_text(f"text of {name}", encoding="utf-8")
    return folder


def results(stage: Stage, name: str = "docs.results.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (stage.root / name).read_text(encoding="utf-8").splitlines()]


def texts(stage: Stage, name: str = "docs.results.jsonl") -> dict[str, str]:
    return {row["custom_id"]: row["headway"]["text"] for row in results(stage, name)}


def attempts(stage: Stage) -> int:
    [(count,)] = stage.query("SELECT count(*) FROM attempts")
    return int(count)


def answer_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.answer.md"))


# -- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("docs")
def test_each_file_is_a_request_in_sorted_order(stage: Stage, headway: Headway) -> None:
    done = headway("run", "docs/*.txt", "--prompt", "say {{text}} of {{name}} in {{path}}")
    assert done.code == 0, done.err
    rows = results(stage)
    assert [row["custom_id"] for row in rows] == ["docs/a.txt", "docs/b.txt"]
    assert rows[0]["headway"]["text"] == "echo: say text of a.txt of a.txt in docs/a.txt"
    assert rows[0]["headway"]["metadata"] == {"path": "docs/a.txt", "name": "a.txt"}
    assert "results: docs.results.jsonl" in done.err


@pytest.mark.usefixtures("docs")
def test_recursive_patterns_directories_and_lists(stage: Stage, headway: Headway) -> None:
    assert headway("run", "docs/**/*.txt", *PROMPT, "--out", "1.jsonl").code == 0
    assert list(texts(stage, "1.jsonl")) == ["docs/a.txt", "docs/b.txt", "docs/sub/c.txt"]
    assert headway("run", "docs", *PROMPT, "--out", "2.jsonl").code == 0
    assert list(texts(stage, "2.jsonl")) == ["docs/a.txt", "docs/b.txt", "docs/sub/c.txt", "docs/sub/d.md"]
    assert headway("run", "docs/sub/d.md", "docs/b.txt", *PROMPT, "--out", "3.jsonl").code == 0
    assert list(texts(stage, "3.jsonl")) == ["docs/b.txt", "docs/sub/d.md"]
    assert headway("run", "docs/a.txt", *PROMPT, "--out", "4.jsonl").code == 0
    assert list(texts(stage, "4.jsonl")) == ["docs/a.txt"]


@pytest.mark.usefixtures("docs")
def test_a_table_of_files(stage: Stage, headway: Headway) -> None:
    assert headway("run", "docs/*.txt", *PROMPT, "--out", "t.csv", "-q").code == 0
    with (stage.root / "t.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["id", "path", "name", "answer", "status", "error"]
    assert table[1] == ["docs/a.txt", "docs/a.txt", "a.txt", "echo: say text of a.txt", "succeeded", ""]


def test_files_that_are_no_texts_are_named_before_anything_is_sent(
    stage: Stage, headway: Headway, docs: Path
) -> None:
    (docs / "binary.dat").write_bytes(b"\x00\x01\xff")
    (docs / "empty.txt").write_bytes(b" \n")
    (docs / "latin.txt").write_bytes(b"caf\xe9")
    (docs / "wide.txt").write_bytes("wide".encode("utf-16"))
    (docs / "bom.txt").write_bytes(b"\xef\xbb\xbfwith a mark")
    (docs / "gone.txt").symlink_to("nowhere")
    os.write(os.open(os.fsencode(docs) + b"/n\xff.txt", os.O_CREAT | os.O_WRONLY), b"name")
    refused = headway("run", "docs", "docs/gone.txt", *PROMPT)
    assert refused.code == 2
    for line in (
        "docs/binary.dat: a binary file, not a text",
        "docs/empty.txt: an empty file",
        "docs/latin.txt: not valid UTF-8: save it as UTF-8",
        "docs/wide.txt: written in UTF-16",
        "docs/gone.txt: cannot be read: no such file or directory",
        "its name is not valid UTF-8",
    ):
        assert line in refused.err, refused.err
    assert "6 bad rows; nothing was sent" in refused.err
    assert json.loads(headway("jobs", "--json").out) == []
    done = headway("run", "docs", "docs/gone.txt", *PROMPT, "--skip-bad-rows")
    assert done.code == 0, done.err
    assert texts(stage)["docs/bom.txt"] == "echo: say with a mark"


@pytest.mark.usefixtures("docs")
def test_mistakes_are_one_line(stage: Stage, headway: Headway) -> None:
    (stage.root / "t1.csv").write_text("a\n1\n")
    (stage.root / "t2.csv").write_text("a\n1\n")
    said = {
        (
            "docs/*.txt",
        ): "docs/*.txt is a set of files: say what to ask about each — --prompt 'Summarise: {{text}}'",
        ("docs/*.txt", "--prompt", "hello"): "uses nothing of the files",
        ("docs/*.txt", "--prompt", "say {text}"): "two braces: '{{text}}'",
        ("docs/*.txt", "--prompt", "say {{txet}}"): "did you mean 'text'?",
        ("docs/*.doc", *PROMPT): "no file matches docs/*.doc",
        ("nodocs/*.txt", *PROMPT): "there is no directory nodocs",
        ("t1.csv", "t2.csv", *PROMPT): "row by row, one file at a time",
        ("*.csv", *PROMPT): "row by row, one file at a time",
        ("in.jsonl", "t1.csv"): "row by row, one file at a time",
        ("-", "docs/a.txt", *PROMPT): "does not go with other files",
        ("docs/*.txt", *PROMPT, "--out", "x.jsonl", "--out-dir", "y"): "--out and --out-dir name two outputs",
        ("docs/*.txt", *PROMPT, "--out-dir", "headway.toml"): "is not a directory",
        ("docs/*.txt", *PROMPT, "--out-dir", "o", "--text-only"): "does not go with --out-dir",
    }
    for args, message in said.items():
        refused = headway("run", *args)
        assert refused.code == 2, (args, refused.err)
        assert message in refused.err, refused.err
        assert len(refused.err.splitlines()) == 1, refused.err


def test_the_same_files_are_the_same_job_and_a_changed_file_makes_another(
    stage: Stage, headway: Headway, docs: Path
) -> None:
    assert headway("run", "docs/*.txt", *PROMPT, "-q").code == 0
    assert "is already complete" in headway("run", "docs/*.txt", *PROMPT).err
    assert "is already complete" in headway("run", "docs/b.txt", "docs/a.txt", *PROMPT).err
    assert attempts(stage) == 2
    (docs / "b.txt").write_text("new text")
    changed = headway("run", "docs/*.txt", *PROMPT)
    assert changed.code == 0
    assert "1 of 2 answers are reused and not requested again" in changed.err
    assert "docs.results.jsonl has the results of job docs-" in changed.err
    assert attempts(stage) == 3


def test_with_a_cache_only_changed_files_are_sent_again(stage: Stage, headway: Headway, docs: Path) -> None:
    assert headway("run", "docs", *PROMPT, "--cache-all", "-q").code == 0
    (docs / "b.txt").write_text("new text")
    (docs / "aa.txt").write_text("new file")
    done = headway("run", "docs", *PROMPT, "--cache-all")
    assert "3 answered without a call" in done.err
    assert attempts(stage) == 4 + 2


@pytest.mark.usefixtures("docs")
def test_a_sample_of_files_is_taken_over_by_the_whole(stage: Stage, headway: Headway) -> None:
    assert headway("run", "docs/**/*.txt", *PROMPT, "--limit", "2", "-q").code == 0
    assert list(texts(stage, "docs.first-2.results.jsonl")) == ["docs/a.txt", "docs/b.txt"]
    done = headway("run", "docs/**/*.txt", *PROMPT)
    assert "2 of 3 answers are reused and not requested again" in done.err
    assert attempts(stage) == 3


@pytest.mark.usefixtures("docs")
def test_a_plan_and_a_dry_run_of_files(stage: Stage, headway: Headway) -> None:
    planned = headway("plan", "docs", *PROMPT, "--json")
    assert json.loads(planned.out)["requests"] == 4
    dry = json.loads(headway("run", "docs/*.txt", *PROMPT, "--dry-run", "--json").out)
    assert (dry["rows"], dry["out"]) == (2, str(stage.root / "docs.results.jsonl"))
    assert not list(stage.root.glob("*.results*"))


def test_many_long_files_need_little_memory(stage: Stage, headway: Headway) -> None:
    """200 MB of files: neither the reading nor a transaction holds them all."""
    folder = stage.root / "long"
    folder.mkdir()
    for number in range(200):
        (folder / f"{number}.txt").write_bytes(b"word " * 200_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = headway("run", "long", "--prompt", "{{text}}", "--max-tokens", "1", "--dry-run", "-q")
    assert done.code == 0, done.err
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mb < 120


# -- answers as files -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("docs")
def test_answers_as_files_are_never_read_as_input(stage: Stage, headway: Headway) -> None:
    out = stage.root / "docs" / "answers"
    done = headway("run", "docs/**/*", *PROMPT, "--out-dir", "docs/answers")
    assert done.code == 0, done.err
    assert "results: docs/answers/" in done.err
    assert answer_files(out) == [
        "docs/a.txt.answer.md", "docs/b.txt.answer.md", "docs/sub/c.txt.answer.md", "docs/sub/d.md.answer.md",
    ]  # fmt: skip
    assert (out / "docs/a.txt.answer.md").read_text() == "echo: say text of a.txt\n"
    assert not list(out.rglob(".*")), "neither a lock nor a temporary file stays"
    again = headway("run", "docs/**/*", *PROMPT, "--out-dir", "docs/answers")
    assert "is already complete" in again.err
    assert "4 files that Headway wrote were left out" in again.err
    beside = headway("run", "docs/**/*", "--prompt", "sing {{text}}", "--out-dir", ".", "-q")
    assert beside.code == 0, beside.err
    assert (stage.root / "docs/a.txt.answer.md").read_text() == "echo: sing text of a.txt\n"


@pytest.mark.usefixtures("docs")
def test_missing_answer_files_are_written_again(stage: Stage, headway: Headway) -> None:
    out = stage.root / "out"
    assert headway("run", "docs/*.txt", *PROMPT, "--out-dir", "out", "-q").code == 0
    (out / "docs/a.txt.answer.md").unlink()
    (out / "docs/b.txt.answer.md").write_bytes(b"")
    (out / ".answer.headway-tmp-left").write_bytes(b"half")
    assert headway("run", "docs/*.txt", *PROMPT, "-q").code == 0, "the job keeps its output"
    assert [(out / name).read_text() for name in answer_files(out)] == [
        "echo: say text of a.txt\n",
        "echo: say text of b.txt\n",
    ]
    assert not (out / ".answer.headway-tmp-left").exists()
    assert attempts(stage) == 2


@pytest.mark.usefixtures("docs")
def test_a_folder_with_other_answers_is_not_overwritten(stage: Stage, headway: Headway) -> None:
    out = stage.root / "out"
    assert headway("run", "docs/*.txt", *PROMPT, "--out-dir", "out", "-q").code == 0
    sing = ("run", "docs/*.txt", "--prompt", "sing {{text}}", "--out-dir", "out")
    refused = headway(*sing)
    assert refused.code == 2
    assert "has the answers of another job, 'docs-" in refused.err
    assert attempts(stage) == 2
    assert headway(*sing, "--force").code == 0
    assert (out / "docs/a.txt.answer.md").read_text() == "echo: sing text of a.txt\n"
    mine = stage.root / "mine" / "docs" / "a.txt.answer.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("my own")
    refused = headway("run", "docs/*.txt", *PROMPT, "--out-dir", "mine")
    assert refused.code != 0
    assert "exists and is not an answer of job" in refused.err
    assert mine.read_text() == "my own"


def test_a_unit_that_failed_has_no_file_until_it_succeeds(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    assert headway("run", "in.jsonl", "--out-dir", "out", "-q").code == 1
    assert answer_files(stage.root / "out") == []
    monkeypatch.setenv("ALPHA_KEY", "sk-crash-4f9a1c77e2b84d0c")
    assert headway("resume", "-q").code == 0, "resume writes to the folder again"
    assert len(answer_files(stage.root / "out")) == 10
    assert (stage.root / "out" / "u3.answer.md").read_text() == "echo: say 3\n"


def test_an_id_never_leads_out_of_the_folder(stage: Stage, headway: Headway) -> None:
    ids = [
        "../../up",
        "/abs/x",
        "a/./b",
        "..",
        "x" * 300,
        "é/ü",
        "a/b",
        "a//b",
        "abs/x",
        "a",
        "a.answer.md/b",
    ]
    stage.write_input([stage.row(index, id=one) for index, one in enumerate(ids)])
    assert headway("run", "in.jsonl", "--out-dir", "out/in", "-q").code == 0
    assert answer_files(stage.root) == sorted(
        f"out/in/{name}" for name in answer_files(stage.root / "out/in")
    )
    names = answer_files(stage.root / "out/in")
    assert len(names) == len(ids), "no two units share a file"
    assert {"a/b.answer.md", "abs/x.answer.md", "a.answer.md", "é/ü.answer.md"} <= set(names)
    assert any(name.startswith("__/__/up-") for name in names)


@pytest.mark.usefixtures("docs")
def test_a_link_that_leads_out_of_the_folder_is_refused(stage: Stage, headway: Headway) -> None:
    (stage.root / "out").mkdir()
    (stage.root / "elsewhere").mkdir()
    link = stage.root / "out" / "docs"
    link.symlink_to(stage.root / "elsewhere")
    refused = headway("run", "docs/*.txt", *PROMPT, "--out-dir", "out", "--force")
    assert refused.code == 2
    assert "leads out of --out-dir" in refused.err
    assert list((stage.root / "elsewhere").iterdir()) == []
    assert headway("run", "docs/*.txt", *PROMPT, "--out", "rows.jsonl", "-q").code == 0
    assert headway("export", "--out-dir", "out").code == 2
    link.unlink()
    link.symlink_to("kept")
    (stage.root / "out" / "kept").mkdir()
    assert headway("export", "--out-dir", "out").code == 0, "a link within the folder is fine"
    assert answer_files(stage.root / "out" / "kept") == ["a.txt.answer.md", "b.txt.answer.md"]


@pytest.mark.usefixtures("docs")
def test_export_writes_answer_files_too(stage: Stage, headway: Headway) -> None:
    assert headway("run", "docs/*.txt", *PROMPT, "-q").code == 0
    assert "wrote 2 answers to out" in headway("export", "--out-dir", "out").err
    assert answer_files(stage.root / "out") == ["docs/a.txt.answer.md", "docs/b.txt.answer.md"]
    assert headway("export", "--out-dir", "out").code == 2
    assert headway("export", "--out-dir", "out", "--force").code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("run", "x\udcff.csv", "--prompt", "{{text}}"),
        ("run", "t.csv", "--prompt", "{{text}}", "--out", "o\udcff.csv"),
        ("run", "d\udcff", "--prompt", "{{text}}"),
        ("ask", "hi", "-f", "x\udcff.csv"),
    ],
)
def test_a_name_that_is_not_utf_8_is_one_line(stage: Stage, command: tuple[str, ...]) -> None:
    for name in ("t.csv", "x\udcff.csv"):
        (stage.root / name).write_text("id,text\n1,a\n")
    (stage.root / "d\udcff").mkdir()
    (stage.root / "d\udcff" / "x.txt").write_text("x")
    done = stage.run(*command)
    assert done.returncode == 2, done.stderr
    assert "is not valid UTF-8 — rename the file or the folder\n" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_pipe_is_a_bad_row_and_one_file_counts_once(stage: Stage, headway: Headway) -> None:
    folder = stage.root / "pipes"
    folder.mkdir()
    os.mkfifo(folder / "b.txt")
    (folder / "a.txt").write_text("a")
    for arguments in (("pipes/*.txt",), ("pipes/b.txt",)):
        refused = headway("run", *arguments, *PROMPT)
        assert refused.code == 2
        assert "pipes/b.txt: cannot be read: not a regular file" in refused.err
    same = ("pipes/a.txt", str(folder / "a.txt"), f"../{stage.root.name}/pipes/a.txt")
    assert headway("run", *same, *PROMPT, "--out", "in.results.jsonl").code == 0
    assert [row["custom_id"] for row in stage.rows()] == ["pipes/a.txt"]
