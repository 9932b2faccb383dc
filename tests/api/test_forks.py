"""A callable that forks and whose child comes back: every answer on record belongs to its unit, from the worker itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway

HERE = Path(__file__).parent
UNITS = 30


@pytest.fixture(autouse=True)
def _acts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def act(name: str) -> Any:
    import forking_acts  # type: ignore[import-not-found]  # beside this file, on the path of its workers too

    return getattr(forking_acts, name)


@pytest.mark.parametrize("name", ["child_returns", "child_returns_later", "child_has_no_program"])
def test_every_answer_is_its_own_items(name: str) -> None:
    got = headway.map(act(name), range(UNITS), isolation="process", workers=2)
    assert got == [("worker", n) for n in range(UNITS)]


def test_a_forked_child_exits_as_usual_and_reports_no_usage() -> None:
    results = list(headway.stream(act("child_exits"), [0, 3, 300], isolation="process", workers=1))
    assert sorted((result.item, result.value) for result in results) == [(0, 0), (3, 3), (300, 300 % 256)]
    assert [result.usage for result in results] == [None] * 3


@pytest.mark.parametrize("target", ["row", "row_without_program"])
def test_every_row_has_its_own_answer(tmp_path: Path, target: str) -> None:
    (tmp_path / "headway.toml").write_text(
        f'[providers.work]\nkind = "python"\ntarget = "forking_acts:{target}"\nworkers = 2\n'
    )
    (tmp_path / "forking_acts.py").write_text((HERE / "forking_acts.py").read_text())
    rows = "".join(json.dumps({"id": f"u{n}", "payload": {"n": n}}) + "\n" for n in range(UNITS))
    (tmp_path / "in.jsonl").write_text(rows)
    private = ("HEADWAY_CONFIG", "HEADWAY_DB")
    done = subprocess.run(
        [sys.executable, "-m", "headway", "run", "in.jsonl"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in private},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in (tmp_path / "in.results.jsonl").read_text().splitlines()]
    answers = {result["custom_id"]: result["response"]["body"] for result in results}
    assert answers == {f"u{n}": {"who": "worker", "n": n} for n in range(UNITS)}
