"""The example flows are valid, and run against the fake provider with the answers beside them."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.flows.flow_file import check_flow

EXAMPLES = Path(__file__).parents[2] / "examples" / "flows"


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("review", ("read_diff", "review", "synthesise")),
        ("triage", ("issues", "label", "count")),
        ("improve", ("polish", "save")),
        ("translate", ("chapters", "book_pages", "bind")),
    ],
)
def test_an_example_is_valid_and_needs_no_input(name: str, order: tuple[str, ...]) -> None:
    checked = check_flow(EXAMPLES / name / "flow.yaml")
    assert checked.problems == ()
    assert checked.flow is not None
    assert checked.flow.step_order == order
    assert checked.flow.inputs == ()


def test_the_page_of_examples_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "tools/draw_flow_examples.py", "--check"],
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The results of an example in a copy of its folder: the two commands of its comment, on a free port."""
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True)
    comment = [line for line in (folder / "flow.yaml").read_text().splitlines() if line.startswith("#   ")]
    serve, use = (line.removeprefix("#   ") for line in comment)
    assert serve == f"cd examples/flows/{name}; headway fake --config fake.yaml &"
    assert use == "FAKE_KEY=any headway run flow.yaml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    settings = folder / "headway.toml"
    settings.write_text(settings.read_text().replace("8900", port))
    monkeypatch.setenv("FAKE_KEY", "any")
    for variable in ("OPENAI_API_KEY", "HEADWAY_CONFIG", "HEADWAY_DB"):
        monkeypatch.delenv(variable, raising=False)
    command = [sys.executable, "-m", *serve.partition("; ")[2].removesuffix(" &").split(), "--port", port]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as fake:
        try:
            assert fake.stdout is not None
            fake.stdout.readline()  # It listens.
            done = subprocess.run(
                [sys.executable, "-m", *use.split()[1:]],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        finally:
            fake.kill()
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "flow.results.json").read_text())
    assert found["status"] == "success"
    return found


def test_a_change_is_reviewed_in_dimensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("review", tmp_path, monkeypatch)
    assert found["state"]["report"] == "Line 3: an empty list divides by zero."
    assert found["state"]["findings"] == ["Line 3: an empty list divides by zero.", "none", "none", "none"]


def test_issues_are_triaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("triage", tmp_path, monkeypatch)
    assert found["state"]["labels"] == ["bug", "feature", "Question"]
    assert found["state"]["counts"] == {"bug": 1, "feature": 1, "question": 1}


def test_a_text_is_improved_until_its_check_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("improve", tmp_path, monkeypatch)
    assert found["nodes"]["improve"]["units"] == 2
    assert (tmp_path / "improved.txt").read_text() == "Headway runs your work and loses none of it."


def test_a_book_is_translated_with_a_glossary_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run("translate", tmp_path, monkeypatch)
    assert found["state"]["glossary"] == ["tide = Tide"] * 3
    assert found["state"]["book"].splitlines()[0] == "Der Lotse wartete am Kai auf die Tide."
    assert len(found["state"]["pages"]) == 3
