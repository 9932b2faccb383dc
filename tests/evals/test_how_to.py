"""docs/how-to/evals.md: all of its commands, in order, in one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headway.testing import fake_provider

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "evals.md"
BLOCK = re.compile(r"^ *```\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
#: The address of the page, and the command that starts a server there.
ADDRESS = "http://127.0.0.1:8900"
START = re.compile(r"^headway fake .*&$", re.MULTILINE)
MARK = "==== block"
SHOWN = "passed, 2 failed"
ANSWERS: list[dict[str, object]] = [
    {"contains": "<rubric>", "turns": [{"pass": True, "score": 0.8, "reason": "It is polite."}]},
    {"contains": "In one word: the capital of Norway", "turns": ["Oslo"]},
    {"contains": "Norway", "turns": ["The capital of Norway is Oslo."]},
    {"contains": "France", "turns": ["Paris"]},
]


def blocks() -> list[str]:
    """The blocks of the page, without their indentation: commands, and one that shows what they print."""
    found = []
    for block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        indent = len(block) - len(block.lstrip(" "))
        found.append("\n".join(line[indent:] for line in block.splitlines()))
    return found


def commands() -> list[str]:
    return [block for block in blocks() if SHOWN not in block]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """What each block of the page prints, and its folder."""
    folder = tmp_path_factory.mktemp("page")
    program = folder / "headway"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headway "$@"\n')
    program.chmod(0o755)
    private = ("HEADWAY_CONFIG", "HEADWAY_DB", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    environ = {name: value for name, value in os.environ.items() if name not in private}
    environ |= {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "120"}
    with fake_provider(latency="2ms", answers=ANSWERS) as provider:
        environ |= {"OPENAI_BASE_URL": provider.openai_url, "ANTHROPIC_BASE_URL": provider.url}
        script = "".join(f"echo '{MARK}'\n{START.sub('', block)}\n" for block in commands())
        script = script.replace(ADDRESS, provider.url)
        done = subprocess.run(
            ["bash"],
            check=False,
            input=script,
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
    assert "Traceback" not in done.stdout
    return done.stdout.split(f"{MARK}\n")[1:], folder / "capitals"


def test_the_page_has_the_answers_of_the_fake_provider() -> None:
    import yaml

    text = re.search(r"fake.yaml <<END\n(.*?)\nEND", commands()[0], re.DOTALL)
    assert text is not None
    assert yaml.safe_load(text[1])["answers"] == ANSWERS


def test_the_first_run_shows_what_the_page_shows(page: tuple[list[str], Path]) -> None:
    """But for latencies: those of the page are of a slower provider."""
    [shown] = [block for block in blocks() if SHOWN in block]
    assert _without_times(shown) in _without_times(page[0][2])


def _without_times(text: str) -> str:
    return " ".join(re.sub(r"[\d.]+ ms", "0 ms", text).replace("─", "").split())


@pytest.mark.parametrize(
    ("number", "texts"),
    [
        (2, ("everything in it is supported", "dry run: nothing was sent", "8 units")),
        (3, ("The capital of Norway is Oslo.", "nothing was sent", "promptfooconfig.yaml: 4 units")),
        (4, ("8 of 8 answers are reused", "8 of 8 passed")),
        (5, ("4 of 8 answers are reused", "2 with another answer and the same verdict, 6 the same")),
        (6, ("8 of 32 answers are reused", "/judge: 8 succeeded", "8 of 8 passed")),
        (7, ("32 of 96 answers are reused", "steady", "24 of 24 passed")),
        (8, ("everything in it is supported", "/gpt-4.1-mini: 6 succeeded", "4 of 4 passed")),
    ],
)
def test_each_block_does_what_the_page_says(
    number: int, texts: tuple[str, ...], page: tuple[list[str], Path]
) -> None:
    printed = page[0][number]
    assert [text for text in texts if text not in printed] == [], printed


def test_every_file_is_written(page: tuple[list[str], Path]) -> None:
    names = ["results.html", "results.json", "results.csv", "results.xml", "results.md"]
    assert [name for name in names if not (page[1] / name).is_file()] == []
