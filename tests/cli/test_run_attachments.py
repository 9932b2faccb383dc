"""`headway run` with images and PDFs: the whole way to a provider that decodes them, and the records afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.batch.attachment_files import pdf, png
from tests.cli.conftest import Headway
from tests.cli.vendors import ACCESS
from tests.crash.stage import Stage

from headway.batch.answer_text import decoded, text_of
from headway.fake.fake_config import SECRET

PROVIDERS = """
[providers.{name}]
kind = "{kind}"
base_url = "{url}{root}"
api_key_env = "{key}"
model = "{model}"
{more}
"""
KINDS = {
    "o": ("openai", "/v1", "gpt-4o"),
    "a": ("anthropic", "", "claude-3"),
    "g": ("gemini", "", "gemini-2.5"),
    "b": ("bedrock", "", "anthropic.claude-3"),
    "z": ("azure", "", "gpt-4o"),
}


@pytest.fixture
def folder(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images and a document, and a provider of every kind."""
    (stage.root / "a.png").write_bytes(png(640, 480))
    (stage.root / "b.png").write_bytes(png(1024, 1024, b"x" * 300_000))
    (stage.root / "d.pdf").write_bytes(pdf(2))
    monkeypatch.setenv("AWS_PAIR", f"{ACCESS}:{SECRET}")
    tables = [
        PROVIDERS.format(
            name=name, kind=kind, url=stage.fake.url, root=root, model=model,
            key="AWS_PAIR" if kind == "bedrock" else "ALPHA_KEY", more='region = "us-east-1"' if kind == "bedrock" else "",
        )
        for name, (kind, root, model) in KINDS.items()
    ]  # fmt: skip
    (stage.root / "headway.toml").write_text('[run]\nprovider = "o"\n' + "".join(tables), encoding="utf-8")
    return stage.root


def answers(stage: Stage) -> list[str | None]:
    """The texts of the answers."""
    bodies = (row["response"] and json.dumps(row["response"]["body"]).encode() for row in stage.rows())
    return [text_of(decoded(body)) if body else None for body in bodies]


def count(stage: Stage, table: str) -> int:
    [(number,)] = stage.query(f"SELECT count(*) FROM {table}")
    return int(number)


A_ECHO = f"[image 640x480, {len(png(640, 480))} bytes]"
B_ECHO = f"[image 1024x1024, {len(png(1024, 1024, b'x' * 300_000))} bytes]"
D_ECHO = f"[document of 2 pages, {len(pdf(2))} bytes]"


@pytest.mark.usefixtures("folder")
def test_every_api_gets_images_and_documents(stage: Stage, headway: Headway) -> None:
    rows = [
        {"id": name, "prompt": "look", "model": f"{name}/{model}", "max_tokens": 200, "attachments": ["b.png", "d.pdf"]}
        for name, (_, _, model) in KINDS.items()
    ]  # fmt: skip
    responses = {"model": "o/gpt-4o", "input": "look"}
    claude = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 200, "messages": [{"role": "user", "content": "look"}]}  # fmt: skip
    rows += [
        {"custom_id": "responses", "url": "/v1/responses", "body": responses, "attachments": ["b.png", "d.pdf"]},
        {"custom_id": "invoke", "url": "/model/claude-3/invoke", "body": {**claude, "model": "b/claude-3"}, "attachments": ["b.png", "d.pdf"]},
    ]  # fmt: skip
    stage.write_input(rows)
    done = headway("run", "in.jsonl")
    assert done.code == 0, done.err
    assert answers(stage) == [f"echo: {B_ECHO}\n{D_ECHO}\nlook"] * 7
    assert all(row["headway"]["usage"]["input_tokens"] > 3_000 for row in stage.rows())
    assert count(stage, "attachments") == 2
    [(size,)] = stage.query("SELECT sum(length(body)) FROM requests")
    assert size < 10_000
    assert stage.out.stat().st_size < 20_000


@pytest.mark.usefixtures("folder")
def test_records_have_a_file_once_and_show_says_what_it_is(stage: Stage, headway: Headway) -> None:
    stage.write_input([{"id": f"u{n}", "prompt": f"{n}", "attachments": ["b.png"]} for n in range(200)])
    assert headway("run", "in.jsonl", "-q").code == 0
    assert answers(stage) == [f"echo: {B_ECHO}\n{n}" for n in range(200)]
    assert (count(stage, "attachments"), count(stage, "attachment_uses")) == (1, 1)
    assert stage.db.stat().st_size < 300_000 + 1_500_000
    [(content,)] = stage.query("SELECT content FROM messages WHERE \"index\" = 3 AND role = 'user'")
    assert len(content) < 400
    job = stage.job()["name"]
    shown = headway("show", job, "u3").out
    size = (stage.root / "b.png").stat().st_size
    assert f"image/png 1024x1024, {size:,} bytes, blake2b " in shown
    assert f'"url": "data:image/png;base64,[{size} bytes, blake2b ' in shown
    assert len(shown) < 4_000
    [file] = json.loads(headway("show", job, "u3", "--json").out)["request"]["attachments"]
    assert (file["type"], file["width"], file["height"], file["size"]) == ("image/png", 1024, 1024, size)
    assert len(headway("export", job).out) < 300_000


def test_a_table_attaches_its_columns(stage: Stage, folder: Path, headway: Headway) -> None:
    (folder / "t.csv").write_text("id,photo,more\n1,a.png,\n2,,\n3,a.png,d.pdf\n4,https://x.org/a.png,\n")
    done = headway(
        "run", "t.csv", "--prompt", "say {{id}}", "--attach", "{{photo}}", "--attach", "{{more}}", "--out", "in.results.jsonl"
    )  # fmt: skip
    assert done.code == 0, done.err
    assert answers(stage) == [
        f"echo: {A_ECHO}\nsay 1", "echo: say 2", f"echo: {A_ECHO}\n{D_ECHO}\nsay 3", "echo: [address]\nsay 4",
    ]  # fmt: skip
    unknown = headway("run", "t.csv", "--prompt", "p", "--attach", "{{foto}}")
    assert unknown.code == 2
    assert "t.csv has no column 'foto', which --attach names — did you mean 'photo'?" in unknown.err
    assert "--attach: '{{' is opened" in headway("run", "t.csv", "--prompt", "p", "--attach", "{{x").err
    assert "--attach is empty" in headway("run", "t.csv", "--prompt", "p", "--attach", " ").err


def test_parquet_attaches_its_columns(stage: Stage, folder: Path, headway: Headway) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"photo": ["a.png", None]}), folder / "t.parquet")
    done = headway("run", "t.parquet", "--prompt", "p", "--attach", "{{photo}}", "--out", "in.results.jsonl")
    assert done.code == 0, done.err
    assert answers(stage) == [f"echo: {A_ECHO}\np", "echo: p"]


def test_bad_files_are_named_with_their_lines_before_anything_is_sent(
    stage: Stage, folder: Path, headway: Headway
) -> None:
    (folder / "keys.png").write_text("OPENAI_API_KEY=sk-1")
    os.mkfifo(folder / "pipe.png")
    names = ["a.png", "none.png", "/etc/passwd", "keys.png", "pipe.png", "/dev/zero", ".", "a.png"]
    stage.write_input([{"id": f"u{n}", "prompt": "p", "attachments": [name]} for n, name in enumerate(names)])
    done = headway("run", "in.jsonl")
    assert done.code == 2
    assert done.err.splitlines()[:6] == [
        "in.jsonl:2: none.png does not exist",
        "in.jsonl:3: /etc/passwd is neither a PNG, JPEG, GIF or WebP image nor a PDF",
        "in.jsonl:4: keys.png is neither a PNG, JPEG, GIF or WebP image nor a PDF",
        "in.jsonl:5: pipe.png is a pipe, not a file",
        "in.jsonl:6: /dev/zero is a device, not a file",
        "in.jsonl:7: . is a directory, not a file",
    ]
    assert "nothing was sent" in done.err
    assert (count(stage, "jobs"), count(stage, "attachments"), count(stage, "attachment_uses")) == (0, 0, 0)
    done = headway("run", "in.jsonl", "--skip-bad-rows", "-q")
    assert done.code == 0, done.err
    assert answers(stage) == [f"echo: {A_ECHO}\np"] * 2


def test_files_outside_the_folder_of_the_input_are_named(
    stage: Stage, folder: Path, headway: Headway, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("private") / "x.png"
    other.write_bytes(png(7, 7))
    (folder / "link.png").symlink_to(other)
    stage.write_input([{"id": "u0", "prompt": "p", "attachments": ["link.png", "a.png"]}])
    warned = headway("run", "in.jsonl").err
    assert f"warning: 1 attached file is outside the folder of the input: {folder / 'link.png'}" in warned
    stage.write_input([{"id": "u0", "prompt": "p", "attachments": [str(folder / "a.png"), "./b.png"]}])
    assert "outside" not in headway("run", "in.jsonl", "--force").err


def test_a_changed_file_is_a_new_job_that_keeps_the_other_answers(
    stage: Stage, folder: Path, headway: Headway
) -> None:
    rows = [{"id": "u0", "prompt": "p", "attachments": ["a.png"]}, {"id": "u1", "prompt": "p", "attachments": ["b.png"]}]  # fmt: skip
    stage.write_input(rows)
    assert headway("run", "in.jsonl", "-q").code == 0
    assert "is already complete" in headway("run", "in.jsonl").err
    (folder / "b.png").write_bytes(png(100, 100))
    done = headway("run", "in.jsonl", "--force")
    assert done.code == 0
    assert "these rows were run before with other attached files, as job" in done.err
    assert "1 of 2 answers are reused and not requested again" in done.err
    assert answers(stage) == [f"echo: {A_ECHO}\np", f"echo: [image 100x100, {len(png(100, 100))} bytes]\np"]
    assert count(stage, "attempts") == 3
    fresh = headway("run", "in.jsonl", "--fresh", "--force", "-q")
    assert fresh.code == 0
    assert count(stage, "attachments") == 3


@pytest.mark.usefixtures("folder")
def test_a_sample_keeps_its_answers(stage: Stage, headway: Headway) -> None:
    stage.write_input([{"id": f"u{n}", "prompt": f"{n}", "attachments": ["a.png"]} for n in range(6)])
    assert headway("run", "in.jsonl", "-q", "--limit", "2").code == 0
    done = headway("run", "in.jsonl")
    assert "with another --limit" in done.err
    assert "2 of 6 answers are reused" in done.err
    assert count(stage, "attempts") == 6


def test_the_cache_knows_files_by_their_content(stage: Stage, folder: Path, headway: Headway) -> None:
    (folder / "same.png").write_bytes((folder / "a.png").read_bytes())
    names = ["a.png", "same.png", "b.png"]
    stage.write_input(
        [
            {"id": f"u{n}", "prompt": "p", "temperature": 0, "attachments": [name]}
            for n, name in enumerate(names)
        ]
    )
    assert headway("run", "in.jsonl", "--cache", "-q").code == 0
    assert [row["headway"]["status"] for row in stage.rows()] == ["succeeded", "cached", "succeeded"]
    assert answers(stage)[1] == f"echo: {A_ECHO}\np"
    assert count(stage, "attachments") == 2


@pytest.mark.usefixtures("folder")
def test_later_turns_of_a_conversation_send_the_files_again(stage: Stage, headway: Headway) -> None:
    rows: list[dict[str, Any]] = [
        {"id": "u0", "prompt": "what is it?", "conversation": "c", "attachments": ["b.png"]},
        {"id": "u1", "prompt": "and this?", "conversation": "c", "attachments": ["a.png"]},
        {"id": "u2", "prompt": "compare", "conversation": "c"},
    ]
    stage.write_input(rows)
    done = headway("run", "in.jsonl")
    assert done.code == 0, done.err
    tokens = [row["headway"]["usage"]["input_tokens"] for row in stage.rows()]
    assert tokens[0] > 765
    assert tokens[1] > 765 + 425
    assert tokens[2] > tokens[1]
    assert count(stage, "attachments") == 2
    [(longest,)] = stage.query("SELECT max(length(body)) FROM rendered")
    assert longest < 2_000
    sizes = [chars for (chars,) in stage.query("SELECT chars FROM units ORDER BY uid")]
    assert sizes[2] > sizes[1] > 4 * (765 + 425)
    assert sizes[2] == pytest.approx(4 * tokens[2], rel=0.1)


@pytest.mark.usefixtures("folder")
def test_a_correction_sends_the_files_again_and_records_a_mark(stage: Stage, headway: Headway) -> None:
    schema = {
        "type": "object",
        "properties": {"mood": {"type": "string"}, "score": {"type": "number", "maximum": 1}},
    }
    (stage.root / "s.json").write_text(json.dumps(schema))
    stage.write_input([{"id": "u0", "prompt": "#repaired", "attachments": ["b.png"]}])
    done = headway("run", "in.jsonl", "--schema", "s.json")
    assert done.code == 0, done.err
    assert stage.rows()[0]["headway"]["attempts"] == 2
    assert stage.rows()[0]["headway"]["usage"]["input_tokens"] > 765
    [(longest,)] = stage.query("SELECT max(length(request)) FROM repairs")
    assert longest < 3_000


def test_memory_does_not_grow_with_the_requests_that_send_a_file(stage: Stage, folder: Path) -> None:
    """As base64, all requests together have 192 MB."""
    (folder / "c.png").write_bytes(png(1024, 1024, os.urandom(3_000_000)))
    stage.write_input([{"id": f"u{n}", "prompt": f"{n}", "attachments": ["c.png"]} for n in range(48)])
    program = (
        "import sys\nfrom headway.cli import main\ncode = main(sys.argv[1:])\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "in.jsonl", "-q"],
        cwd=folder, env=stage.environ(AWS_PAIR="a:b"), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(stage.rows()) == 48
    assert int(done.stdout) < 140_000, done.stdout  # KB
    assert stage.db.stat().st_size < 5_000_000


@pytest.mark.usefixtures("folder")
def test_a_plan_counts_them(stage: Stage, headway: Headway) -> None:
    stage.write_input([{"id": f"u{n}", "prompt": "p", "attachments": ["b.png"]} for n in range(10)])
    plan = json.loads(headway("plan", "in.jsonl", "--json").out)
    assert 7_650 <= plan["input_tokens"]["estimate"] <= 8_000
    assert headway("run", "in.jsonl", "-q").code == 0
    used = sum(row["headway"]["usage"]["input_tokens"] for row in stage.rows())
    assert used == pytest.approx(plan["input_tokens"]["estimate"], rel=0.05)


def test_resume_does_not_need_the_files_any_more(stage: Stage, folder: Path, headway: Headway) -> None:
    (folder / "headway.toml").write_text(
        (folder / "headway.toml")
        .read_text()
        .replace('api_key_env = "ALPHA_KEY"', 'api_key_env = "BROKEN"', 1)
    )
    os.environ["BROKEN"] = "sk-broken-account"
    try:
        stage.write_input([{"id": "u0", "prompt": "p", "attachments": ["b.png"]}])
        assert headway("run", "in.jsonl", "-q", "--max-attempts", "1").code == 1
        (folder / "b.png").unlink()
        os.environ["BROKEN"] = "sk-any-other"
        done = headway("resume")
    finally:
        del os.environ["BROKEN"]
    assert done.code == 0, done.err
    assert answers(stage) == [f"echo: {B_ECHO}\np"]


def test_a_folder_of_images_is_asked_about_image_by_image(stage: Stage, headway: Headway) -> None:
    (stage.root / "photos").mkdir()
    for name in ("a", "b"):
        (stage.root / "photos" / f"{name}.png").write_bytes(png(comment=name.encode()))
    run = (
        "run",
        "photos/*.png",
        "--prompt",
        "Describe it",
        "--attach",
        "{{path}}",
        "--out",
        "in.results.jsonl",
    )
    assert headway(*run).code == 0
    assert [row["custom_id"] for row in stage.rows()] == ["photos/a.png", "photos/b.png"]
    assert all("[image" in (text or "") for text in answers(stage))
    assert count(stage, "attachments") == 2
