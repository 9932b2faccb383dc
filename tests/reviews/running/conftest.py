"""A small tree that `headway review` reviews, as a user types it, against a fake provider with answers by script."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.cli import main
from headway.testing import FakeProvider, fake_provider

AXES = ("correctness", "security", "performance", "tests", "readability", "dead-code")
FILES = {
    "src/add.py": "import os\n\n\ndef add(a, b):\n    return a - b\n",
    "src/deep/two.py": "def two():\n    return 2\n",
    "src/one.py": "one = 1\n",
}


def finding(quote: str, *, line: int = 1, **fields: Any) -> dict[str, Any]:
    """A finding as a model reports it."""
    usual = {
        "rule": "wrong-condition",
        "severity": "high",
        "confidence": 0.9,
        "message": "It subtracts.",
        "suggestion": "",
    }
    return {**usual, "start_line": line, "end_line": line, "quote": quote, **fields}


def report(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"findings": list(findings)}


#: What the fake says, the first that fits.
ANSWERS: tuple[dict[str, Any], ...] = (
    {"contains": "return a - b", "turns": [report(finding("return a - b", line=5))]},
    {"contains": "return 2", "turns": [report(finding("return 3", line=9)), report(finding("return 2", line=2))]},
    {"turns": [report()]},
)  # fmt: skip


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


class Tree(NamedTuple):
    """A folder with files to review."""

    root: Path
    provider: FakeProvider
    headway: Callable[..., Done]

    def review(self, *args: str) -> Done:
        return self.headway("review", "src", "--model", "alpha/m", *args)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def progress(self) -> dict[str, Any]:
        """The newest progress.json."""
        found = sorted(
            (self.root / ".headway/jobs").glob("*/progress.json"), key=lambda path: path.stat().st_mtime_ns
        )
        made: dict[str, Any] = json.loads(found[-1].read_text())
        return made

    def statuses(self) -> dict[str, str]:
        return {path: file["status"] for path, file in self.progress()["files"].items()}

    def reviews(self) -> dict[str, str]:
        """The reviews of files, without the times in them."""
        folder = self.root / ".headway/reviews"
        return {
            str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.review.md"))
        }

    def sent(self) -> int:
        received: int = self.provider.stats()["total"]["received"]
        return received


Trees = Callable[..., Tree]


@pytest.fixture
def make_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Trees]:
    """Makes the tree, with a provider that has these settings."""
    providers = []

    def call(*args: str) -> Done:
        capfd.readouterr()
        code = main(args)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    def make(settings: str = "", **account: Any) -> Tree:
        entered = fake_provider(**{"latency": "2ms", "answers": ANSWERS, **account})
        provider = entered.__enter__()
        providers.append(entered)
        tree = Tree(tmp_path, provider, call)
        for path, text in FILES.items():
            tree.write(path, text)
        tree.write(
            "headway.toml",
            f'[providers.alpha]\nkind = "openai"\nbase_url = "{provider.openai_url}"\napi_key_env = "P_KEY"\n'
            f'retry = {{base = "10ms", cap = "50ms"}}\n{settings}\n',
        )
        return tree

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P_KEY", "sk-any")
    yield make
    for entered in providers:
        entered.__exit__(None, None, None)


@pytest.fixture
def tree(make_tree: Trees) -> Tree:
    return make_tree()
