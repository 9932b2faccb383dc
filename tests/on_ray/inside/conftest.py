"""These tests run only beside a cluster: `tests/on_ray/test_on_ray.py` starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

if not os.environ.get("HEADWAY_TEST_RAY"):
    collect_ignore_glob = ["test_*.py"]


class JobFolder:
    """A folder with a headway.toml, rows, and a function that leaves a file for each unit that it finished."""

    def __init__(self, path: Path) -> None:
        self.path, self.effects = path, path.parent / "effects"
        self.effects.mkdir()
        self._started: list[subprocess.Popen[str]] = []

    def configure(self, **providers: dict[str, Any]) -> None:
        """Write the settings."""
        lines = [f'[ray]\naddress = "{os.environ["HEADWAY_TEST_RAY"]}"\n']
        for name, settings in providers.items():
            table = {"executor": "ray", "preflight": "none", **settings}
            lines.append(f"[providers.{name}]")
            lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
        (self.path / "headway.toml").write_text("\n".join(lines) + "\n")

    def rows(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Write the input."""
        (self.path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def start(self, *args: str, **environ: str) -> subprocess.Popen[str]:
        """Start `headway` there."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headway", *args], cwd=self.path, env={**os.environ, **environ},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def results(self, name: str) -> list[dict[str, Any]]:
        """The rows of an output."""
        return [json.loads(line) for line in (self.path / name).read_text().splitlines()]

    def end(self) -> None:
        """Kill what a failed test left."""
        for process in self._started:
            with suppress(ProcessLookupError):
                process.kill()
            process.communicate()


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[JobFolder]:
    """A folder that travels, and one beside it for effects."""
    (tmp_path / "work").mkdir()
    folder = JobFolder(tmp_path / "work")
    yield folder
    folder.end()


MakeJob = Callable[[], JobFolder]
