"""Every example runs as its docstring says, against a provider on loopback."""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.fake.process import FakeProcess, fake_process
from headway.testing import FakeProvider, fake_provider

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MOOD = {"contains": "Classify", "turns": [{"mood": "good", "about": "delivery"}]}


def run(
    name: str,
    *arguments: str,
    cwd: Path,
    provider: FakeProvider | FakeProcess,
    stdin: str = "",
    **more: str,
) -> str:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HEADWAY_"))},
        "OPENAI_BASE_URL": f"{provider.url}/v1",
        "OPENAI_API_KEY": "any",
        "LARGE_URL": f"{provider.url}/v1",
        "LARGE_KEY": "sk-large",
        "SMALL_URL": f"{provider.url}/v1",
        "SMALL_KEY": "sk-small",
        "RPM": "6000",
        **more,
    }
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=cwd,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with fake_provider(latency="5ms", faults=["500/7"], answers=[MOOD]) as fake:
        yield fake


def test_translate_csv_pays_for_nothing_twice(tmp_path: Path, provider: FakeProvider) -> None:
    rows = "".join(f"t{number},word {number}\n" for number in range(40))
    (tmp_path / "texts.csv").write_text("id,text\n" + rows, encoding="utf-8")
    out = run("translate_csv.py", "texts.csv", "out.csv", cwd=tmp_path, provider=provider)
    assert out == "40 rows in out.csv\n"
    with (tmp_path / "out.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["id"] for row in table] == [f"t{number}" for number in range(40)]
    assert all(row["text"] in row["translation"] for row in table)  # The fake echoes.
    before = provider.stats()["total"]
    assert before["failed"] > 0
    run("translate_csv.py", "texts.csv", "out.csv", cwd=tmp_path, provider=provider)
    assert provider.stats()["total"]["received"] == before["received"]


def test_translate_csv_with_an_empty_table(tmp_path: Path, provider: FakeProvider) -> None:
    (tmp_path / "texts.csv").write_text("id,text,more\n", encoding="utf-8-sig")
    out = run("translate_csv.py", "texts.csv", "out.csv", cwd=tmp_path, provider=provider)
    assert out == "0 rows in out.csv\n"
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "id,text,more,translation\n"


@pytest.mark.parametrize(
    ("name", "arguments", "files", "message"),
    [
        ("translate_csv.py", ("none.csv", "out.csv"), {}, "none.csv cannot be read"),
        ("translate_csv.py", ("t.csv", "out.csv"), {"t.csv": ""}, "t.csv has no column 'id'"),
        (
            "translate_csv.py",
            ("t.csv", "out.csv"),
            {"t.csv": "id,words\n1,a\n"},
            "t.csv has no column 'text'",
        ),
        (
            "translate_csv.py",
            ("t.csv", "out.csv"),
            {"t.csv": "id,text\n1\n"},
            "t.csv, row 1: needs an id and a text",
        ),
        (
            "translate_csv.py",
            ("t.csv", "out.csv"),
            {"t.csv": "id,text\n1,a,b\n"},
            "t.csv, row 1: needs an id and a",
        ),
        (
            "translate_csv.py",
            ("t.csv", "o.csv"),
            {"t.csv": "id,text\n1,a\n1,b\n"},
            "two items have the key '1'",
        ),
        ("translate_csv.py", ("t.csv",), {}, "usage:"),
        ("two_providers.py", ("many",), {}, "usage:"),
        ("sdk_script.py", ("many",), {}, "usage:"),
        ("worker_pool.py", (), {}, "usage:"),
        ("worker_pool.py", ("none.txt",), {}, "none.txt: failed: FileNotFoundError"),
    ],
)
def test_errors_are_one_line_without_a_traceback(
    name: str,
    arguments: tuple[str, ...],
    files: dict[str, str],
    message: str,
    tmp_path: Path,
    provider: FakeProvider,
) -> None:
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError) as caught:
        run(name, *arguments, cwd=tmp_path, provider=provider)
    assert message in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_two_providers_names_missing_variables(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "two_providers.py")], cwd=tmp_path, env={}, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "set LARGE_URL, LARGE_KEY, SMALL_URL, SMALL_KEY\n")


def test_classify_without_input(tmp_path: Path, provider: FakeProvider) -> None:
    assert run("classify.py", cwd=tmp_path, provider=provider, stdin="\n") == "none\n"


def test_classify(tmp_path: Path) -> None:
    with fake_provider(answers=[MOOD]) as provider:
        out = run("classify.py", cwd=tmp_path, provider=provider, stdin="Came in a day.\n\nAll well.\n")
    assert out.splitlines() == [
        "good   delivery      Came in a day.",
        "good   delivery      All well.",
        "2 good",
    ]


def test_classify_retries_an_answer_that_does_not_fit_and_reports_it(tmp_path: Path) -> None:
    odd = {"contains": "Classify", "turns": [{"mood": "odd", "about": "it"}]}
    with fake_provider(answers=[odd]) as provider:
        with pytest.raises(AssertionError, match=r"Invalid enum value 'odd'[\s\S]*none"):
            run("classify.py", cwd=tmp_path, provider=provider, stdin="Came in a day.\n")
        assert provider.stats()["total"]["ok"] == 2  # One retry.


def test_two_providers_with_the_fake_of_its_docstring(tmp_path: Path) -> None:
    with fake_process("--config", str(EXAMPLES / "fake.yaml")) as provider:
        out = run("two_providers.py", "120", cwd=tmp_path, provider=provider)
        stats = provider.stats()
    large, small = (line.split(":")[0] for line in out.splitlines())
    assert (large, small) == ("large", "small")
    accounts = stats["accounts"]
    assert (accounts["large"]["ok"], accounts["small"]["ok"]) == (100, 20)
    assert stats["total"]["lost"] == 0


def test_worker_pool_continues_where_it_stopped(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"f{number}.txt").write_text(f"file {number}", encoding="utf-8")
    with fake_provider(latency="5ms") as provider:
        out = run("worker_pool.py", "f0.txt", "f1.txt", "f2.txt", cwd=tmp_path, provider=provider)
        assert sorted(line.split(":")[0] for line in out.splitlines()) == ["f0.txt", "f1.txt", "f2.txt"]
        files = [f"f{number}.txt" for number in range(5)]
        run("worker_pool.py", *files, cwd=tmp_path, provider=provider)
        assert provider.stats()["total"]["received"] == 5


def test_sdk_script_succeeds_only_with_headways_client(tmp_path: Path) -> None:
    with fake_provider(rpm=1200, burst="1s", latency="20ms", faults=["500/25"]) as provider:
        with pytest.raises(AssertionError, match=r"\d answers, [1-9]\d* failed"):
            run("sdk_script.py", "80", cwd=tmp_path, provider=provider, PLAIN="1")
        provider.reset()
        assert run("sdk_script.py", "80", cwd=tmp_path, provider=provider) == "80 answers, 0 failed\n"
        total = provider.stats()["total"]
    assert (total["ok"], total["lost"], total["repeats"]) == (80, 0, 0)


def cells(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


async def test_the_notebook_runs_inside_a_running_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a kernel: one namespace, and the value of a cell is that of its last line."""
    monkeypatch.setenv("OPENAI_BASE_URL", "")  # Removes what the notebook sets, after the test.
    monkeypatch.delenv("OPENAI_BASE_URL")
    names: dict[str, Any] = {"__name__": "__main__"}
    values = [cell_value(cell, names) for cell in cells(EXAMPLES / "explore.ipynb")]
    assert len(names["answers"]) == 200
    assert "What is 0 in words?" in values[2][0]
    assert values[3].endswith(" tokens")


def cell_value(cell: str, names: dict[str, Any]) -> Any:
    tree = ast.parse(cell)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "cell", "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_every_example_is_tested_and_listed() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    names = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")]
    assert names
    assert [name for name in names if f'"{name}"' not in source or f"]({name})" not in listed] == []


def test_every_docstring_says_how_to_run_it_without_a_key() -> None:
    for path in EXAMPLES.glob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert f"python examples/{path.name}" in docstring, path.name
        assert "Without a key:\n    headway fake" in docstring, path.name
