"""Killed while an agent's lines, its session and its process are recorded: nothing is lost, and the session goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.crash.sampling import SIDES
from tests.crash.test_commit_points import kill
from tests.executors.test_transcripts import LOOK, RESULT, agent, lines_of, say

from headway.executors.commands.agent_session import CONTINUE

INIT = '{"type":"system","subtype":"init"}'


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_an_agent_runs(tmp_path: Path, side: str) -> None:
    printed = (INIT, LOOK, RESULT.replace('"session_id":"S",', ""))
    script = "\n".join(f"{say(line)}\nsleep 0.2" for line in printed)
    stage = agent(tmp_path, script)
    points = [kill(name, side) for name in ("add_process", "add_note", "set_process", "add_line")]
    for point in points:
        stage.ends_by_kill("run", "in.jsonl", "-q", faults=point)
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    assert stage.query("SELECT status, attempts FROM units") == [("succeeded", len(points) + 1)]
    by_attempt: dict[int, list[str]] = {}
    for line in lines_of(stage):
        if line.line:
            by_attempt.setdefault(line.attempt, []).append(line.line.decode())
    assert by_attempt[len(points) + 1] == list(printed)
    assert all(lines == list(printed[: len(lines)]) for lines in by_attempt.values())
    sessions = {
        line.split("--session-id ")[-1].split("--resume ")[-1].split()[0] for line in starts(tmp_path)
    }
    assert len(sessions) == 1, "one conversation"
    told = (tmp_path / "stdin").read_text().split("\n")
    assert told[0] == "do it"
    assert told[-2] == CONTINUE
    assert stage.query("SELECT count(*) FROM workers WHERE status IN ('idle', 'busy')") == [(0,)]
    lost = stage.query("SELECT count(*), count(worker) FROM attempts WHERE outcome = 'lost'")
    assert lost[0][0] == len(points)


def starts(tmp_path: Path) -> list[str]:
    return (tmp_path / "argv").read_text().splitlines()
