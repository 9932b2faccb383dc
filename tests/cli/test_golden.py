"""Complete transcripts of the commands about jobs: every text and every JSON key.

Each scenario's output is compared with a file in `golden/`. Digits become `#` and instants `TIME`, so that two runs print
the same; JSON keeps its keys, their order and its texts. `HEADWAY_WRITE_GOLDEN=1` rewrites the files: review the diff
before you commit it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage

from .conftest import Done, Headway

GOLDEN = Path(__file__).with_name("golden")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+Z)?|\b\d\d:\d\d:\d\d\b")
#: Names that differ from run to run.
NAME = re.compile(r"\bin-[0-9a-f]{6}\b")
ACCOUNT = re.compile(
    r"(?<=\|)[0-9a-f]{6,}(?=\|)|(?<=, account )[0-9a-f]{6,}(?=,)|(?<=\bchatcmpl-)[0-9a-f]+|(?<=\breq_)[0-9a-f]+"
)
#: The limits that a short run came close to depend on timing; tests/reports checks their keys.
BY_TIMING = "depends on timing"
#: Headway's own frames of a traceback are left out.
OURS = re.compile(r'(?<=Traceback \(most recent call last\):\n).*?(?= +File "DIR)', re.DOTALL)
#: Which limit bound depends on the speed of the machine; other tests check these texts.
BOUND = re.compile(r"(?<= succeeded; ).*|(?<=latest run: ).*")
LOOKS = (
    ("jobs",), ("jobs", "--json"), ("status",), ("status", "--json"),
    ("show", "in", "u1"), ("show", "in", "u1", "--json"), ("lanes",), ("lanes", "--json"),
)  # fmt: skip

WORK = """
from headway import RateLimited

def work(payload):
    if payload == 1:
        raise ValueError("one is not a number of ours")
    print("said on the way")
    return {"twice": 2 * payload}
"""
WORKERS = """
[providers.work]
kind = "python"
target = "work:work"
workers = 2
preflight = "none"
[providers.work.retry]
base = "10ms"
cap = "20ms"
[run]
max_attempts = 2
"""


def _plain(text: str, stage: Stage) -> str:
    text = (
        text.replace(str(stage.root), "DIR").replace(stage.fake.url, "http://HOST").replace(stage.tag, "TAG")
    )
    text = text.replace(stage.fake.url.removeprefix("http://"), "HOST")
    text = OURS.sub("", BOUND.sub("LIMIT", text))
    text = ACCOUNT.sub("ACCOUNT", NAME.sub("in-NAME", TIME.sub("TIME", text)))
    return re.sub(r" {2,}(?=\S)", "  ", re.sub(r"\d+(,\d{3})*(\.\d+)?", "#", text))


def _shape(value: Any, stage: Stage) -> Any:
    """The value with its keys; a figure becomes "#", null stays."""
    if isinstance(value, dict):
        return {
            _plain(key, stage): BY_TIMING
            if key in ("limits", "shares", "unreached") and isinstance(each, list)
            else _shape(each, stage)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_shape(each, stage) for each in value]
    if isinstance(value, str):
        return _plain(value, stage)
    return "#" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _transcript(args: Iterable[str], done: Done, stage: Stage) -> str:
    head = f"$ headway {' '.join(args)}\nexit code {done.code}"
    if "--json" in args:
        out = json.dumps(_shape(json.loads(done.out), stage), indent=1, ensure_ascii=False)
    else:
        out = _plain(done.out, stage)
    return f"{head}\n-- stdout\n{out.strip()}\n-- stderr\n{_plain(done.err, stage).strip()}\n"


def _matches(name: str, stage: Stage, headway: Headway, *commands: tuple[str, ...]) -> None:
    transcript = "\n".join(_transcript(args, headway(*args), stage) for args in commands)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("HEADWAY_WRITE_GOLDEN"):
        path.write_text(transcript, encoding="utf-8")
    assert transcript == path.read_text(encoding="utf-8")


def test_a_job_that_is_done(stage: Stage, headway: Headway) -> None:
    run = ("run", "in.jsonl", "--progress", "none")
    stage.configure("max_concurrency = 8\nrpm = 6000")
    _matches("done", stage, headway, run, run, (*run, "--json"), *LOOKS)


def test_a_budget_that_is_used_up(stage: Stage, headway: Headway) -> None:
    dear = "[providers.alpha.prices]\ninput = 1000\noutput = 1000"
    stage.configure("max_concurrency = 1", provider="max_cost = 0.05", more=dear)
    stage.write_input([stage.row(index, max_tokens=5) for index in range(10)])
    run = ("run", "in.jsonl", "--progress", "none")
    _matches("budget", stage, headway, run, (*run, "--json"), *LOOKS)


def test_a_lane_that_stopped(stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPHA_KEY", "sk-revoked-account")
    stage.configure("max_concurrency = 1")
    run = ("run", "in.jsonl", "--progress", "none")
    _matches("stopped", stage, headway, run, (*run, "--json"), *LOOKS)


def test_units_that_failed(stage: Stage, headway: Headway) -> None:
    (stage.root / "headway.toml").write_text(WORKERS)
    (stage.root / "work.py").write_text(WORK)
    stage.write_input([{"id": f"u{index}", "payload": index} for index in range(3)])
    run = ("run", "in.jsonl", "--progress", "none")
    _matches("failed", stage, headway, run, *LOOKS)


def test_a_process_that_died(stage: Stage, headway: Headway) -> None:
    stage.configure("max_concurrency = 1")
    assert headway("run", "in.jsonl", "--progress", "none").code == 0
    with sqlite3.connect(stage.db) as db:
        db.execute('UPDATE units SET status = ? WHERE "index" > 7', ("running",))
        db.execute("UPDATE jobs SET state = 'running', finished_utc = NULL")
    db.close()
    _matches("died", stage, headway, ("status",), ("status", "--json"))
