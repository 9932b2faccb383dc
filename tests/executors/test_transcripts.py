"""What agents print is on record while they run, byte for byte and without secrets, and stays there after a crash."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage, wait_for

from headway.fake.process import FakeProcess
from headway.reports import transcripts
from headway.stores.row_conversion import uid
from headway.wiring.store_access import open_store_file

INIT = '{"type":"system", "subtype":"init","session_id":"S"}'
LOOK = (
    '{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I look."},'
    '{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"a.py"}}],"usage":{"input_tokens":10,"output_tokens":2}}}'
)
RESULT = (
    '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Done.","session_id":"S",'
    '"total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":3}}'
)


def agent(tmp_path: Path, script: str, kind: str = "claude", more: str = "") -> Stage:
    """A stage whose agent is a shell script."""
    program = tmp_path / "agent"
    program.write_text(f'#!/bin/sh\necho "$@" >> argv\nprompt=$(cat); echo "$prompt" >> stdin\n{script}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "headway.toml").write_text(
        f'[providers.a]\nkind = "{kind}"\ncommand = ["{program}"]\npreflight = "none"\n{more}'
    )
    stage = Stage(tmp_path, FakeProcess("", 0, 0), "agents", 1)
    stage.write_input([{"id": "u0", "prompt": "do it"}])
    return stage


def say(*lines: str) -> str:
    return "\n".join(f"cat <<'END'\n{line}\nEND" for line in lines)


def lines_of(stage: Stage, after: int = 0) -> list[Any]:
    with open_store_file(stage.address or str(stage.db), read_only=True) as store:
        return transcripts.lines(store, uid(1, 0), after)


def test_lines_are_on_record_while_the_agent_runs(tmp_path: Path) -> None:
    stage = agent(tmp_path, f"{say(INIT, LOOK)}\nwhile [ ! -e go ]; do sleep 0.05; done\n{say(RESULT)}")
    with stage.process("run", "in.jsonl", "-q") as process:
        wait_for("the first lines", lambda: stage.db.exists() and _count(stage) == 2)
        running = lines_of(stage)
        [(status,)] = stage.query("SELECT status FROM units")
        shown = stage.run("show", "in", "u0").stdout
        (tmp_path / "go").touch()
        assert process.wait(30) == 0, process.communicate()
    assert status == "running"
    assert [line.line.decode() for line in running] == [INIT, LOOK]
    assert "attempt 1, running" in shown
    assert "I look." in shown
    rest = lines_of(stage, running[-1].id)
    assert [line.line.decode() for line in rest] == [RESULT]
    assert rest[0].attempt == 1
    roles = stage.query("SELECT role, attempt FROM messages ORDER BY attempt, position")
    assert roles == [("user", None), ("assistant", 1), ("assistant", 1)], "what the answer says is there once"
    [note] = stage.query("SELECT note FROM notes")
    assert "messages" not in json.loads(note[0]), "the conversation is stored once"


def _count(stage: Stage) -> int:
    try:
        [(count,)] = stage.query("SELECT count(*) FROM transcripts")
    except Exception:
        return 0
    return int(count)


def test_what_was_committed_survives_a_kill_and_the_session_is_resumed(tmp_path: Path) -> None:
    stage = agent(
        tmp_path, f'{say(INIT, LOOK)}\ncase "$*" in *--resume*) ;; *) exec sleep 1000;; esac\n{say(RESULT)}'
    )
    with stage.process("run", "in.jsonl", "-q") as process:
        wait_for("the first lines", lambda: stage.db.exists() and _count(stage) == 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert stage.run("resume", "-q").returncode == 0
    assert [line.attempt for line in lines_of(stage)] == [1, 1, 2, 2, 2, 2]
    assert "--resume S" in (tmp_path / "argv").read_text().splitlines()[1]
    notes = {number: json.loads(note) for number, note in stage.query("SELECT number, note FROM notes")}
    assert notes[1]["session_id"] == "S"
    assert notes[2]["directory"] == str(tmp_path)
    assert notes[2]["files"] == ["a.py"]
    assert (notes[2]["turns"], notes[2]["exit_code"]) == (2, 0)


def test_a_chosen_session_is_on_record_before_the_agent_starts(tmp_path: Path) -> None:
    stage = agent(tmp_path, f'case "$*" in *--resume*) ;; *) exec sleep 1000;; esac\n{say(INIT, RESULT)}')
    with stage.process("run", "in.jsonl", "-q") as process:
        wait_for("the agent", lambda: (tmp_path / "argv").exists() and (tmp_path / "argv").read_text())
        process.send_signal(signal.SIGKILL)
        process.wait()
    [(note,)] = stage.query("SELECT note FROM notes")
    session = json.loads(note)["session_id"]
    assert f"--session-id {session}" in (tmp_path / "argv").read_text()
    assert stage.run("resume", "-q").returncode == 0
    assert f"--resume {session}" in (tmp_path / "argv").read_text().splitlines()[1]


@pytest.mark.parametrize("secret", ["sk-ant-api03-abcdefghijklmnop", "not-known-by-its-form"])
def test_secrets_are_blotted_out_of_lines_and_messages(tmp_path: Path, secret: str) -> None:
    told = LOOK.replace("I look.", f"the key is {secret}")
    stage = agent(tmp_path, say(INIT, told, f"plain text with {secret}", RESULT))
    stage.env["SOME_TOKEN"] = secret
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    recorded = lines_of(stage)
    assert not any(secret.encode() in line.line for line in recorded)
    assert secret not in json.dumps([line.messages for line in recorded])
    assert recorded[0].line.decode() == INIT, "other lines are as they were printed"
    assert "the key is" in json.loads(recorded[1].line)["message"]["content"][0]["text"]
