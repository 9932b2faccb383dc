"""Sessions of agents: on record before anything else is read, resumed by the next attempt, and replaced with a remark if they are gone.

The refusals are what Claude Code 2.1.197, Codex 0.166, Gemini CLI 0.61 and 0.39, and opencode print.
"""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.executors.test_transcripts import agent, say
from tests.providers.wire import Admissions

from headway.config.settings import CommandConfig
from headway.executors.commands.agent_session import CONTINUE
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.command_adapter import CommandAdapter
from headway.providers.adapter import Answer, Request
from headway.providers.attempt_log import AgentProgress, EarlierSession


class Cli(NamedTuple):
    """`first` and `last` are events with the session "S"; `chosen` is the option for a chosen id, or ""."""

    name: str
    first: str
    last: str
    resume: str
    unknown: str
    chosen: str = ""
    taken: str = ""


CLIS = (
    Cli(
        "claude",
        '{"type":"system","subtype":"init","session_id":"S"}',
        '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Done.","session_id":"S"}',
        "--resume S",
        "No conversation found with session ID: S",
        "--session-id",
        "Error: Session ID S is already in use.",
    ),
    Cli(
        "codex",
        '{"type":"thread.started","thread_id":"S"}',
        '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Done."}}\n{"type":"turn.completed","usage":{}}',
        "resume S -",
        "Error: thread/resume: thread/resume failed: no rollout found for thread id S (code -32600)",
    ),
    Cli(
        "gemini-cli",
        '{"type":"init","session_id":"S","model":"m"}',
        '{"type":"message","role":"assistant","content":"Done.","delta":true}\n{"type":"result","status":"success","stats":{}}',
        "-r S",
        'Error resuming session: Invalid session identifier "S".',
        "--session-id",
        'Error starting session: Session ID "S" already exists. Use --resume to resume it, or provide a different ID.',
    ),
    Cli(
        "opencode",
        '{"type":"step_start","sessionID":"S","part":{}}',
        '{"type":"text","sessionID":"S","part":{"text":"Done."}}\n{"type":"step_finish","sessionID":"S","part":{}}',
        "-s S",
        "Error: Session not found",
    ),
)
by_cli = pytest.mark.parametrize("cli", CLIS, ids=[cli.name for cli in CLIS])


class Log:
    """An attempt's log in memory. The record of the session `held` waits for `durable`."""

    def __init__(self, earlier: EarlierSession | None = None, held: str = "") -> None:
        self.held = held
        self.earlier = earlier
        self.lines: list[bytes] = []
        self.messages: list[dict[str, object]] = []
        self.details: list[dict[str, object]] = []
        self.reached, self.durable = asyncio.Event(), asyncio.Event()

    def runs_in(self, pid: int) -> None:
        """Not looked at."""

    async def earlier_session(self) -> EarlierSession | None:
        return self.earlier

    def line(self, line: bytes, messages: bytes) -> Awaitable[None] | None:
        if line:
            self.lines.append(line)
        self.messages += json.loads(messages)
        return None

    async def record(self, details: bytes) -> None:
        self.details.append(json.loads(details))
        if self.details[-1]["session_id"] == self.held:
            self.reached.set()
            await self.durable.wait()

    def progress(self, progress: AgentProgress) -> None:
        """Not looked at."""


def program(tmp_path: Path, script: str) -> str:
    path = tmp_path / "agent"
    path.write_text(f'#!/bin/sh\necho "$@" >> argv\ncat >> stdin; echo >> stdin\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def complain(text: str) -> str:
    return f"cat >&2 <<'END'\n{text}\nEND"


async def attempt(
    tmp_path: Path, cli: Cli, script: str, log: Log, number: int = 1, **settings: str
) -> Answer:
    config = CommandConfig((program(tmp_path, script),), preflight="none", **settings)  # type: ignore[arg-type]
    adapter = CommandAdapter(config, AGENT_CLIS[cli.name], "m", str(tmp_path))
    body = json.dumps({"prompt": "do it"}).encode()
    request = Request("command", body, session="job unit", attempt=number, log=log)
    try:
        return await adapter.send(request, 30.0, Admissions())
    finally:
        await adapter.close()


def starts(tmp_path: Path) -> list[str]:
    return (tmp_path / "argv").read_text().splitlines()


@by_cli
async def test_the_session_is_durable_before_the_next_line_is_read(tmp_path: Path, cli: Cli) -> None:
    log = Log(held="S")
    sending = asyncio.ensure_future(attempt(tmp_path, cli, say(cli.first, cli.last), log))
    await asyncio.wait_for(log.reached.wait(), 30.0)
    assert log.lines == [cli.first.encode()]
    assert len(log.details) == (2 if cli.chosen else 1), "a chosen id is on record before the start"
    pid = log.details[-1].pop("pid")
    assert log.details[-1] == {"session_id": "S", "directory": str(tmp_path)}
    assert isinstance(pid, int)
    log.durable.set()
    assert (await sending).outcome.kind is None
    assert len(log.lines) > 1


@by_cli
async def test_a_further_attempt_resumes_the_session(tmp_path: Path, cli: Cli) -> None:
    log = Log(EarlierSession("S", str(tmp_path), succeeded=False))
    answer = await attempt(tmp_path, cli, say(cli.first, cli.last), log, 2)
    assert answer.outcome.kind is None
    [started] = starts(tmp_path)
    assert cli.resume in started
    assert (tmp_path / "stdin").read_text().strip() == CONTINUE
    assert log.messages[0] == {"role": "user", "content": CONTINUE}
    assert json.loads(answer.note)["session_id"] == "S"


@by_cli
async def test_a_session_that_is_gone_is_replaced_and_the_record_says_so(tmp_path: Path, cli: Cli) -> None:
    log = Log(EarlierSession("S", str(tmp_path), succeeded=False))
    said = ""
    if cli.name == "claude":  # It prints a result as well.
        said = say(
            '{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"session_id":"S"}'
        )
    refuse = f"case \"$*\" in *'{cli.resume}'*)\n{complain(cli.unknown)}\n{said}\nexit 1;; esac"
    answer = await attempt(tmp_path, cli, f"{refuse}\n{say(cli.first, cli.last)}", log, 2)
    assert answer.outcome.kind is None, answer.outcome
    refused, started = starts(tmp_path)
    assert cli.resume in refused
    assert cli.resume not in started
    assert (tmp_path / "stdin").read_text().split("\n")[1] == "do it"
    note = "there is no session S to resume: a new session starts"
    assert json.loads(answer.note)["session_note"] == note
    assert {"role": "headway", "content": note} in log.messages


@pytest.mark.parametrize("cli", [cli for cli in CLIS if cli.taken], ids=lambda cli: cli.name)
async def test_an_id_that_is_taken_is_replaced(tmp_path: Path, cli: Cli) -> None:
    log = Log()
    refuse = f"[ -e seen ] || {{ touch seen\n{complain(cli.taken)}\nexit 1; }}"
    answer = await attempt(tmp_path, cli, f"{refuse}\n{say(cli.first, cli.last)}", log)
    assert answer.outcome.kind is None, answer.outcome
    first, second = (line.partition(f"{cli.chosen} ")[2].split()[0] for line in starts(tmp_path))
    assert first != second
    assert "is in use already" in json.loads(answer.note)["session_note"]
    assert [details["session_id"] for details in log.details] == [first, second, "S"]


async def test_an_older_gemini_cli_gets_no_id(tmp_path: Path) -> None:
    cli = next(cli for cli in CLIS if cli.name == "gemini-cli")
    refuse = 'case "$*" in *--session-id*) echo "Unknown arguments: session-id, sessionId" >&2; exit 1;; esac'
    answer = await attempt(tmp_path, cli, f"{refuse}\n{say(cli.first, cli.last)}", Log())
    assert answer.outcome.kind is None, answer.outcome
    assert "--session-id" not in starts(tmp_path)[1]
    assert "session_note" not in json.loads(answer.note)


async def test_a_session_of_another_directory_is_not_resumed(tmp_path: Path) -> None:
    log = Log(EarlierSession("S", "/elsewhere", succeeded=False))
    answer = await attempt(tmp_path, CLIS[1], say(CLIS[1].first, CLIS[1].last), log, 2)
    assert "resume" not in starts(tmp_path)[0]
    assert "worked in /elsewhere" in json.loads(answer.note)["session_note"]


@pytest.mark.parametrize("resume", ["session", "none"])
async def test_a_session_that_succeeded_or_must_not_be_resumed_is_not(tmp_path: Path, resume: str) -> None:
    log = Log(EarlierSession("S", str(tmp_path), succeeded=resume == "session"))
    await attempt(tmp_path, CLIS[1], say(CLIS[1].first, CLIS[1].last), log, 2, resume=resume)
    assert "resume" not in starts(tmp_path)[0]


# -- as a user runs it ----------------------------------------------------------------------------------------------


@by_cli
def test_an_attempt_after_a_failure_goes_on_in_the_session(tmp_path: Path, cli: Cli) -> None:
    fail = f"[ -e seen ] || {{ touch seen\n{say(cli.first)}\nkill -9 $$\n}}"
    stage = agent(
        tmp_path, f"{fail}\n{say(cli.first, cli.last)}", cli.name, '[providers.a.retry]\nbase = "10ms"\n'
    )
    done = stage.run("run", "in.jsonl", "-q")
    assert done.returncode == 0, done.stderr
    assert cli.resume in starts(tmp_path)[1]
    shown = stage.run("show", "in", "u0").stdout
    assert "killed by SIGKILL" in shown
    assert shown.count("session: S") == 2
    assert f"directory: {tmp_path}" in shown


def test_a_new_job_with_the_same_units_has_other_sessions(tmp_path: Path) -> None:
    stage = agent(tmp_path, say(CLIS[0].first, CLIS[0].last))
    for _ in range(2):
        assert stage.run("run", "in.jsonl", "-q", "--fresh", "--force").returncode == 0
    first, second = (line.partition("--session-id ")[2].split()[0] for line in starts(tmp_path))
    assert first != second
