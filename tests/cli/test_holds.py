"""A run that meets a hold reports it once while it waits, and names it in its summary."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing

import pytest
from tests.crash.stage import Stage

from headway.reports.holds import HoldHistory
from headway.stores.records import JobEvent

from .conftest import Done, Headway

REASON = "You've hit your limit · resets 4pm (America/Los_Angeles)"
#: Four workers meet the limit one after another; workers that start later do not.
AGENT = """
import sys, time
from pathlib import Path

def work(payload):
    began, met = time.time(), Path("met")
    if payload < 4:
        while len(list(Path(".").glob("in-*"))) + met.exists() * 4 < 4:  # All four are in flight.
            Path(f"in-{payload}").touch()
            time.sleep(0.01)
    if not met.exists() or began < met.stat().st_mtime:
        met.exists() or met.touch()
        time.sleep(0.15 * payload)
        print("You've hit your limit", file=sys.stderr)
        sys.exit(1)
    return payload
"""
CONFIG = """
[providers.work]
kind = "python"
target = "agent:work"
workers = 4
preflight = "none"
[providers.work.retry]
base = "10ms"
cap = "20ms"
hold_margin = "50ms"
default_wait = "1s"
"""


@pytest.fixture
def agents(stage: Stage) -> Stage:
    """Fifteen units whose workers meet a limit."""
    (stage.root / "headway.toml").write_text(CONFIG)
    (stage.root / "agent.py").write_text(AGENT)
    stage.write_input([{"id": f"u{index}", "payload": index} for index in range(15)])
    return stage


def lane_line(done: Done, lane: str) -> str:
    [line] = [line for line in done.err.splitlines() if line.startswith(f"  {lane}: ")]
    return line


def test_a_limit_that_workers_meet_is_reported_once_and_in_the_summary(
    agents: Stage, headway: Headway
) -> None:
    done = headway("run", "in.jsonl", "--progress", "plain")
    assert done.code == 0, done.err
    assert done.err.count("held until") == 1, done.err
    line = lane_line(done, "work/work")
    assert re.search(r"15 succeeded; (.* used\); )?held \d\.\d s: You've hit your limit$", line), line
    assert "no limit" not in line

    report = headway("status")
    assert re.search(r"work/work was held \d\.\d s: You've hit your limit\n", report.out), report.out
    holds = json.loads(headway("status", "--json").out)["holds"]["work/work"]
    assert (holds["holds"], holds["reason"]) == (1, "You've hit your limit")
    assert holds["held_s"] == pytest.approx(1.3, abs=0.9)
    assert "held " in headway("lanes").out


def recorded_hold(stage: Stage, headway: Headway, seconds: float) -> None:
    """A recorded hold, as after "come back later"; the input is new work for the same lane."""
    assert headway("run", "in.jsonl", "-q").code == 0
    with closing(sqlite3.connect(stage.db)) as db, db:
        hold = "UPDATE lanes SET record = json_set(record, '$.held_until_utc', ?, '$.hold_reason', ?)"
        db.execute(hold, (time.time() + seconds, REASON))
    db.close()
    stage.units = 3
    stage.tag += "x"
    stage.write_input()


def test_a_hold_of_a_provider_is_in_the_summary(stage: Stage, headway: Headway) -> None:
    recorded_hold(stage, headway, 1.5)
    done = headway("run", "in.jsonl", "--force", "--progress", "plain", "--json")
    assert done.code == 0, done.err
    assert done.err.count("held until") == 1, done.err
    facts = json.loads(done.out)
    limits = facts["limits"]["alpha/gpt-x"]
    assert (limits["holds"], limits["held_for"]) == (1, REASON)
    assert 0.1 < limits["held_s"] < 1.6
    assert facts["holds"]["alpha/gpt-x"]["reason"] == REASON


def test_a_run_that_only_waited_names_the_hold(stage: Stage, headway: Headway) -> None:
    recorded_hold(stage, headway, 3_600.0)
    done = headway("run", "in.jsonl", "--force", "--max-duration", "300ms", "--progress", "none")
    assert done.code == 3, done.err
    assert re.search(rf"0 succeeded; held 0\.\d s: {re.escape(REASON)}$", lane_line(done, "alpha/gpt-x"))


def test_a_run_that_is_parked_says_so(stage: Stage, headway: Headway) -> None:
    (stage.root / "headway.toml").write_text(CONFIG)
    (stage.root / "agent.py").write_text(
        "import headway\n"
        "def work(payload):\n"
        "    if payload < 2: return payload\n"
        '    raise headway.RateLimited(retry_after=3600, reason="come back in an hour")\n'
    )
    stage.write_input([{"id": f"u{index}", "payload": index} for index in range(6)])
    done = headway("run", "in.jsonl", "--max-hold", "10s", "--progress", "none")
    assert done.code == 4, done.err
    assert lane_line(done, "work/work").endswith("held for longer than --max-hold")
    assert "work/work stopped: hold: come back in an hour" in done.err


def heard(*events: tuple[float, str, float | None], end_utc: float) -> tuple[int, float]:
    held = HoldHistory()
    for at_utc, what, until_utc in events:
        held.add(JobEvent(at_utc, "a", what, "so", until_utc))
    held.end(end_utc)
    return held.holds, held.held_s


def test_holds_are_summed_up_from_events() -> None:
    assert heard((0.0, "held", 10.0), (10.5, "released", None), end_utc=50.0) == (1, 10.5)
    assert heard((0.0, "held", 10.0), (2.0, "held", 30.0), (30.0, "released", None), end_utc=50.0) == (
        1,
        30.0,
    )
    assert heard((0.0, "held", 10.0), (4.0, "reopened", None), end_utc=50.0) == (1, 4.0)
    assert heard((0.0, "held", 10.0), end_utc=6.0) == (1, 6.0), "it was interrupted"
    assert heard((0.0, "held", 10.0), end_utc=90.0) == (1, 10.0), "its process died"
    assert heard((0.0, "held", 10.0), (40.0, "held", 45.0), (45.0, "released", None), end_utc=90.0) == (
        2,
        15.0,
    )
    assert heard((0.0, "stopped", 900.0), end_utc=90.0) == (0, 0.0)
