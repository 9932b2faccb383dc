"""A folder for a flow, `headway` called in this process, and a fake provider whose answers follow from the prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headway.cli import main
from headway.testing import FakeProvider, fake_provider

#: The tools of most tests. Every call leaves a line in calls.txt, in the folder where tools work.
TOOLS = """
import sys

def note(given):
    with open("calls.txt", "a") as file:
        file.write(given["node"] + ("" if given["index"] is None else f"#{given['index']}") + "\\n")

def issues(given):
    note(given)
    return ["a", "b", "c"]

def triage(given):
    note(given)
    if given["item"] in given["state"].get("broken", []):
        print("looked at", given["item"], file=sys.stderr)
        raise ValueError("cannot triage " + given["item"])
    return {"label": given["item"].upper(), "of": given["index"]}

def count(given):
    note(given)
    return len(given["state"]["labels"])

def whole(given):
    note(given)
    return given
"""
ANSWERS: list[dict[str, object]] = [
    {"contains": "#number", "turns": [7]},
    {"contains": "#wrong-number", "turns": ["seven"]},
    {"contains": "#mood", "turns": [{"mood": 3}, {"mood": "good"}]},
    {"contains": "#two", "turns": [{"title": "T", "body": "B"}]},
    {"contains": "#half", "turns": [{"title": "T"}]},
    {"contains": "#wrapped", "turns": [{"mood": "good"}]},
]


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass
class FlowFolder:
    """A folder with a flow in it."""

    root: Path
    headway: Callable[..., Done]
    provider: FakeProvider

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def flow(self, nodes: str, **more: str) -> None:
        """Write flow.yaml: the nodes, and other parts of the graph or of the file by name."""
        graph = "".join(
            f"  {name}:\n{text}" for name, text in more.items() if name in ("edges", "pipelines", "loops")
        )
        rest = "".join(f"{name}:\n{text}" for name, text in more.items() if name in ("state", "runtime"))
        self.write("flow.yaml", f"{rest}graph:\n  nodes:\n{nodes}{graph}")

    def results(self, name: str = "flow") -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / f"{name}.results.json").read_text())
        return found

    def calls(self) -> list[str]:
        """The calls of tools so far, in the order of their names."""
        path = self.root / "calls.txt"
        return sorted(path.read_text().split()) if path.exists() else []

    def new_calls(self, after: int) -> list[str]:
        """The calls of tools after the first ones."""
        path = self.root / "calls.txt"
        return sorted(path.read_text().split()[after:]) if path.exists() else []

    def latest(self) -> dict[str, Any]:
        """The results of the latest job."""
        found: dict[str, Any] = json.loads(self.headway("export").out)
        return found

    def sent(self) -> int:
        """Requests that the provider has received."""
        received: int = self.provider.stats()["total"]["received"]
        return received


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[FlowFolder]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P_KEY", "any")
    for name in ("HEADWAY_DB", "HEADWAY_CONFIG", "HEADWAY_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def call(*args: str) -> Done:
        capfd.readouterr()
        code = main(args)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    with fake_provider(answers=ANSWERS) as provider:
        made = FlowFolder(tmp_path, call, provider)
        made.write(
            "headway.toml",
            f"[providers.p]\nkind = 'openai'\nbase_url = '{provider.openai_url}'\nmodel = 'm'\napi_key_env = 'P_KEY'\n"
            "[providers.p.retry]\nbase = '1ms'\n",
        )
        made.write("tools/work.py", TOOLS)
        yield made
