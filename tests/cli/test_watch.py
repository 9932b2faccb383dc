"""`headway status --watch` on a real terminal, in a pipe and as JSON; and other views on a real terminal."""

from __future__ import annotations

import json
import re

from tests.cli.conftest import Headway
from tests.cli.test_live import Screen, screen
from tests.crash.stage import PATIENCE_S, Stage, wait_for

__all__ = ["screen"]  # The fixture.


def _succeeded(lines: list[str]) -> list[int]:
    found = (re.search(r"job in-\w+: running, (\d+) of 400 succeeded", line) for line in lines)
    return [int(match[1]) for match in found if match]


def test_the_state_is_updated_in_place_and_ctrl_c_ends_only_the_view(screen: Screen) -> None:
    screen.run("run", "in.jsonl", "-q", "&")
    screen.until("$ ")
    wait_for("the job", lambda: list((screen.folder / ".headway" / "jobs").glob("*/progress.json")))
    screen.type("clear", "Enter")
    screen.run("status", "--watch")
    [first] = wait_for("a state", lambda: _succeeded(screen.lines()))
    lines = wait_for(
        "a later state",
        lambda: [line for line in screen.lines() if max(_succeeded([line]), default=0) > first + 20],
    )
    assert len(_succeeded(screen.lines())) == 1, "drawn over the state before"
    assert len(lines) == 1
    screen.type("C-c")
    screen.type("echo left-$?", "Enter")
    screen.until("left-130")
    assert not any("Traceback" in line for line in screen.lines())
    screen.run("cancel")
    screen.until("asked job")


def test_a_pipe_gets_each_state_until_the_job_ends(stage: Stage) -> None:
    stage.configure("rpm = 300\nburst = 1")
    with stage.process("run", "in.jsonl", "-q") as run:
        wait_for("its progress", lambda: list((stage.root / ".headway" / "jobs").glob("*/progress.json")))
        with stage.process("status", "--watch", "--json") as watching:
            out, err = watching.communicate(timeout=PATIENCE_S)
        assert (watching.returncode, err) == (0, "")
        run.communicate(timeout=PATIENCE_S)
    states = [json.loads(line) for line in out.splitlines()]
    assert states[0]["state"] == "running"
    assert states[-1]["state"] == "complete"
    assert [state["succeeded"] for state in states] == sorted(state["succeeded"] for state in states)


def test_a_job_that_does_not_run_is_shown_once(headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    once = headway("status")
    assert headway("status", "--watch") == once


def test_a_plan_on_a_narrow_terminal_keeps_the_names_of_lanes(screen: Screen) -> None:
    screen.resize(40, 60)
    screen.run("plan", "in.jsonl")
    lines = screen.until("  limited by: ", "total", "beta/x")
    assert "alpha/x" in [line.strip() for line in lines]
    assert "beta/x" in [line.strip() for line in lines]
    assert any(re.fullmatch(r"  requests: 360", line.rstrip()) for line in lines), lines
