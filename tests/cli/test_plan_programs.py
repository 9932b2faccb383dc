"""`headway plan` for programs and agents: places, and what earlier units took."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

AGENT = """#!/usr/bin/env python3
import json, time
time.sleep(0.2)
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "done", "num_turns": 1,
                  "session_id": "s", "total_cost_usd": 0.25, "usage": {"input_tokens": 9, "output_tokens": 9}}))
"""
SETTINGS = '[providers.fixer]\nkind = "claude"\ncommand = ["./agent"]\nmodel = "sonnet"\nworkers = 3\nmemory_budget = 0\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "agent").write_text(AGENT)
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "headway.toml").write_text(SETTINGS)
    rows = [{"id": f"t{number}", "prompt": f"task {number}"} for number in range(1, 7)]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def headway(place: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headway", *args],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def plan(place: Path, *args: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(headway(place, "plan", "tasks.jsonl", "--json", *args))
    return shown


def test_before_the_first_unit_the_plan_says_that_nothing_is_known(place: Path) -> None:
    shown = headway(place, "plan", "tasks.jsonl")
    assert "'headway run FILE --first 1' shows it" in shown
    assert not any(word in shown for word in ("token", "price", "--limit", "requests"))
    report = plan(place)
    assert report["time_s"] is None
    assert report["cost_usd"] is None
    assert report["lanes"]["fixer/sonnet"]["time_s"] is None


def test_writers_share_a_directory_one_at_a_time(place: Path) -> None:
    report = plan(place)
    assert report["lanes"]["fixer/sonnet"]["binding"] == "one agent at a time in a directory"
    assert any("--worktree" in note and "3 run at once" in note for note in report["notes"])


def test_readers_run_in_all_workers(place: Path) -> None:
    (place / "headway.toml").write_text(SETTINGS + 'permission_mode = "plan"\n')
    assert plan(place)["lanes"]["fixer/sonnet"]["binding"] == "3 in flight"
    assert plan(place, "--concurrency", "2")["lanes"]["fixer/sonnet"]["binding"] == "--concurrency"


def test_rows_with_directories_of_their_own_run_side_by_side(place: Path) -> None:
    rows = [
        {"id": f"t{number}", "prompt": "x", "agent": {"directory": f"d{number % 3}"}} for number in range(6)
    ]
    for number in range(3):
        (place / f"d{number}").mkdir()
    (place / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert plan(place)["lanes"]["fixer/sonnet"]["binding"] == "3 in flight"


def test_a_finished_run_teaches_time_and_cost(place: Path) -> None:
    headway(place, "run", "tasks.jsonl", "--shared-directory", "-q")
    report = plan(place, "--fresh")
    lane = report["lanes"]["fixer/sonnet"]
    assert lane["learned_from"] == 6
    assert report["cost_usd"]["estimate"] == pytest.approx(1.5)
    assert 1.0 < report["time_s"]["estimate"] < 30.0
    assert any("learned from 6 earlier units" in note for note in report["notes"])
    again = plan(place)
    assert (again["requests"], again["succeeded"]) == (0, 6)
