"""Programs as workers: real processes, their output and exit codes, their deadlines, and what they leave behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import Stage, wait_for
from tests.executors.conftest import gone_within
from tests.providers.wire import Admissions

from headway.config.settings import CommandConfig
from headway.core.model import Kind
from headway.executors.commands import program
from headway.executors.commands.agent_session import CONTINUE
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.command_adapter import CommandAdapter
from headway.fake.process import FakeProcess
from headway.providers.adapter import Answer, Request

Adapters = Callable[..., CommandAdapter]


@pytest.fixture
async def adapters(tmp_path: Path) -> AsyncIterator[Adapters]:
    """Makes adapters, and closes them."""
    made: list[CommandAdapter] = []

    def make(
        *command: str, cli: str = "", withheld: frozenset[str] = frozenset(), **more: Any
    ) -> CommandAdapter:
        settings = CommandConfig(command, preflight="none", **more)
        made.append(CommandAdapter(settings, AGENT_CLIS.get(cli), "m", str(tmp_path), withheld))
        return made[-1]

    yield make
    for adapter in made:
        await adapter.close()


async def send(adapter: CommandAdapter, prompt: str = "hello", timeout_s: float = 30.0, **row: Any) -> Answer:
    session, attempt = row.pop("session", ""), row.pop("attempt", 1)
    body = json.dumps({"prompt": prompt, **row}).encode()
    return await adapter.send(
        Request("command", body, session=session, attempt=attempt), timeout_s, Admissions()
    )


def text_of(answer: Answer) -> str:
    assert answer.outcome.kind is None, answer.outcome
    return str(json.loads(answer.body)["content"][0]["text"])


async def test_the_variable_of_the_directory_is_right(adapters: Adapters, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    python = adapters(sys.executable, "-c", "import os; print(os.environ['PWD'])", directory="sub", env=())
    assert text_of(await send(python)).strip() == str(tmp_path / "sub")


async def test_an_agent_that_retries_by_itself_is_ended_at_the_first_retry(
    adapters: Adapters, tmp_path: Path
) -> None:
    """Gemini CLI's words, as real runs print them, in two pieces."""
    agent = tmp_path / "gemini.py"
    agent.write_text(
        "import sys, time\n"
        "sys.stderr.write('Ripgrep is not available.\\nAttempt 1 failed: You exceeded your current quota.\\nPlease retry in 7s.. Retr')\n"
        "sys.stderr.flush()\n"
        "time.sleep(0.1)\n"
        "sys.stderr.write('ying after 8123ms...\\n')\n"
        "sys.stderr.flush()\n"
        "time.sleep(60)\n"
    )
    gemini = adapters(sys.executable, str(agent), cli="gemini-cli")
    answer = await send(gemini, timeout_s=30.0)
    assert answer.outcome.kind is Kind.RATE
    assert answer.outcome.hint is not None
    assert answer.outcome.hint.retry_after_s == 7.0
    assert answer.outcome.message == "You exceeded your current quota. Please retry in 7s."


# -- any program --------------------------------------------------------------------------------------------------


async def test_the_prompt_is_on_standard_input_and_never_in_the_command_line(adapters: Adapters) -> None:
    shell = adapters("sh", "-c", "cat; tr '\\0' ' ' < /proc/$$/cmdline", "{{model}}")
    answer = text_of(await send(shell, "the secret question"))
    assert answer.startswith("the secret question")
    assert answer.count("secret") == 1
    assert answer.rstrip().endswith("m"), "the model is filled in"


@pytest.mark.parametrize(
    ("output", "printed", "value"),
    [("json", '{"a": [1]}', {"a": [1]}), ("jsonl", '{"a": 1}\n\n{"a": 2}', [{"a": 1}, {"a": 2}])],
)
async def test_output_may_be_json(adapters: Adapters, output: str, printed: str, value: Any) -> None:
    answer = await send(adapters("printf", "%s", printed, output=output))
    assert json.loads(answer.body) == value


async def test_output_that_is_not_json_fails_the_attempt(adapters: Adapters) -> None:
    answer = await send(adapters("echo", "hello", output="json"))
    assert answer.outcome.kind is Kind.INVALID
    assert "its output is not JSON" in answer.outcome.message


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("exit 3", Kind.TRANSIENT),
        ("exit 75", Kind.HOLD),
        ("exit 9", Kind.QUOTA),
        ("kill -9 $$", Kind.CRASH),
        ("echo 'Error: 429 Too Many Requests, retry after 20 seconds' >&2; exit 1", Kind.RATE),
    ],
)
async def test_exit_codes_signals_and_error_texts_have_kinds(
    adapters: Adapters, script: str, kind: Kind
) -> None:
    answer = await send(adapters("sh", "-c", script, exit_codes={9: "quota"}))
    assert answer.outcome.kind is kind


async def test_a_missing_program_stops_the_lane(adapters: Adapters) -> None:
    answer = await send(adapters("/no/such/program"))
    assert answer.outcome.kind is Kind.AUTH
    assert "/no/such/program cannot be started: no such file or directory" in answer.outcome.message


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 1000",
        "yes >&2",  # A full pipe that is not read would block it; here it is read, and the deadline still holds.
        "sleep 1000 & wait",
        "setsid sleep 1000 & echo $! > child; exec sleep 1000",
        "trap '' TERM INT; sleep 1000",
    ],
)
async def test_a_deadline_holds_whatever_the_program_does(
    adapters: Adapters, tmp_path: Path, script: str
) -> None:
    answer = await send(adapters("sh", "-c", script), timeout_s=0.5)
    assert answer.outcome.kind is Kind.TIMEOUT
    if (tmp_path / "child").exists():
        assert gone_within(int((tmp_path / "child").read_text()), 2.0), "a child that left the group"


async def test_a_child_that_keeps_the_pipes_open_does_not_delay_the_result(
    adapters: Adapters, tmp_path: Path
) -> None:
    answer = await send(adapters("sh", "-c", "sleep 1000 & echo $! > child; echo done"))
    assert text_of(answer) == "done\n"
    assert gone_within(int((tmp_path / "child").read_text()), 2.0)


async def test_a_large_prompt_that_is_not_read_and_large_output_do_no_harm(adapters: Adapters) -> None:
    shell = adapters("sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo ok")
    assert text_of(await send(shell, "x" * 5_000_000)) == "ok\n"


async def test_a_long_answer_is_whole(adapters: Adapters) -> None:
    answer = text_of(await send(adapters("seq", "1", "100000")))
    assert answer == "".join(f"{number}\n" for number in range(1, 100_001))


async def test_an_answer_above_the_ceiling_is_invalid_and_not_tried_again(tmp_path: Path) -> None:
    settings = CommandConfig(("seq", "1", "100000"), preflight="none")
    adapter = CommandAdapter(settings, None, "m", str(tmp_path), max_answer_bytes=1000)
    answer = await send(adapter)
    await adapter.close()
    assert answer.outcome.kind is Kind.INVALID
    assert "1,000 bytes" in answer.outcome.message
    assert len(answer.note) < 10_000


async def test_a_cancelled_attempt_leaves_no_process(adapters: Adapters, tmp_path: Path) -> None:
    task = asyncio.ensure_future(send(adapters("sh", "-c", "echo $$ > pid; exec sleep 1000")))
    pid = tmp_path / "pid"
    await asyncio.to_thread(wait_for, "its number", lambda: pid.exists() and pid.read_text().strip())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone_within(int((tmp_path / "pid").read_text()), 2.0)


async def test_a_row_may_change_settings_for_its_unit(adapters: Adapters, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    shell = adapters("sh", "-c", 'pwd; echo "$@"', "sh")
    answer = text_of(await send(shell, agent={"directory": "below", "args": ["--fast"]}))
    assert answer == f"{tmp_path}/below\n--fast\n"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"agent": 3}, '"agent" must be an object'),
        ({"agent": {"speed": 1}}, '"agent" has no key "speed"'),
        ({"agent": {"max_turns": "x"}}, '"agent": max_turns: expected a whole number'),
        ({"agent": {"directory": "nowhere"}}, "nowhere is not a directory"),
        ({"agent": {"args": ["\0"]}}, "a null character"),
        ({"agent": {"model": "a\0b"}}, "control characters"),
        ({"agent": {"max_turns": -1}}, "expected a whole number of 0 or more"),
        ({"agent": {"args": [4_000_000 * "x"]}}, "its arguments are too long"),
    ],
)
async def test_a_wrong_row_is_invalid(adapters: Adapters, row: dict[str, Any], message: str) -> None:
    answer = await send(adapters("cat"), **row)
    assert answer.outcome.kind is Kind.INVALID
    assert message in answer.outcome.message


async def test_a_program_gets_the_named_variables_or_all_but_the_keys_of_other_providers(
    adapters: Adapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "1")
    monkeypatch.setenv("OTHER_KEY", "another-providers-key")
    names = {line.partition("=")[0] for line in text_of(await send(adapters("env"))).splitlines()}
    assert {"MINE", "OTHER_KEY"} <= names
    withheld = text_of(await send(adapters("env", withheld=frozenset({"OTHER_KEY"}))))
    assert "MINE=1" in withheld
    assert "OTHER_KEY" not in withheld
    assert "MINE" not in text_of(await send(adapters("env", env=())))


# -- agent CLIs -----------------------------------------------------------------------------------------------------

CLAUDE = """#!/bin/sh
echo "$@" >> argv
cat >> stdin; echo >> stdin
case "$*" in *--resume*) [ -e known ] || { echo 'No conversation found with session ID: x' >&2; exit 1; } ;; esac
[ -e taken ] && rm taken && { echo 'Error: Session ID x is already in use.' >&2; exit 1; }
echo '{"type":"system","subtype":"init","session_id":"S"}'
echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]},"session_id":"S"}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"rate limit exceeded, resets 4pm"}]},"session_id":"S"}'
echo '{"type":"surprise","x":1}'
echo '{"type":"result","subtype":"success","is_error":false,"num_turns":2,"result":"Done.","session_id":"S","total_cost_usd":0.25,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":3}}'
[ -e linger ] && exec sleep 1000
exit 0
"""


@pytest.fixture
def claude(tmp_path: Path) -> str:
    """A script with the events of Claude Code."""
    path = tmp_path / "claude"
    path.write_text(CLAUDE)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


async def test_an_agents_events_become_one_conversation(adapters: Adapters, claude: str) -> None:
    answer = await send(adapters(claude, cli="claude"))
    assert text_of(answer) == "Done."
    usage = answer.outcome.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.cost_usd) == (
        22,
        3,
        7,
        0.25,
    )
    details = json.loads(answer.note)
    assert details["session_id"] == "S"
    assert details["messages"] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "I look."},
        {"role": "assistant", "tool_calls": [{"id": "t1", "name": "Bash", "arguments": {"command": "ls"}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "rate limit exceeded, resets 4pm"},
        {"role": "event", "content": {"type": "surprise", "x": 1}},
    ]


async def test_the_last_event_decides_and_a_process_that_lingers_is_killed(
    adapters: Adapters, claude: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "linger").touch()
    monkeypatch.setattr(program, "LINGER_S", 0.2)
    answer = await asyncio.wait_for(send(adapters(claude, cli="claude")), 20.0)
    assert text_of(answer) == "Done."


async def test_a_further_attempt_resumes_the_session_that_the_first_one_had(
    adapters: Adapters, claude: str, tmp_path: Path
) -> None:
    adapter = adapters(claude, cli="claude")
    await send(adapter, "do it", session="job 1 unit 7")
    (tmp_path / "known").touch()
    await send(adapter, "do it", session="job 1 unit 7", attempt=2)
    first, second = (tmp_path / "argv").read_text().splitlines()
    session = first.partition("--session-id ")[2].split()[0]
    assert f"--resume {session}" in second
    assert (tmp_path / "stdin").read_text().splitlines() == ["do it", CONTINUE]


@pytest.mark.parametrize("trouble", ["unknown", "taken"])
async def test_a_session_that_cannot_be_used_is_started_anew(
    adapters: Adapters, claude: str, tmp_path: Path, trouble: str
) -> None:
    if trouble == "taken":
        (tmp_path / "taken").touch()
    attempt = 2 if trouble == "unknown" else 1
    answer = await send(adapters(claude, cli="claude"), "do it", session="u", attempt=attempt)
    assert text_of(answer) == "Done."
    first, second = (tmp_path / "argv").read_text().splitlines()
    ids = [
        line.split()[line.split().index(flag) + 1]
        for line, flag in ((first, _flag(first)), (second, "--session-id"))
    ]
    assert (ids[0] == ids[1]) is (trouble == "unknown")
    assert (tmp_path / "stdin").read_text().splitlines()[-1] == "do it"


def _flag(line: str) -> str:
    return "--resume" if "--resume" in line else "--session-id"


@pytest.mark.parametrize(
    ("cli", "event", "kind"),
    [
        ("claude", {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429, "result": "API Error: Request rejected (429)"}, Kind.HOLD),
        ("claude", {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 401, "result": "Invalid API key"}, Kind.AUTH),
        ("claude", {"type": "result", "subtype": "success", "is_error": True, "api_error_status": 529, "result": "API Error: 529 Overloaded"}, Kind.OVERLOAD),
        ("codex", {"type": "turn.failed", "error": {"message": "You've hit your usage limit. Try again at 10:21 AM."}}, Kind.HOLD),
    ],
)  # fmt: skip
async def test_refusals_of_agents_have_their_kinds(
    adapters: Adapters, cli: str, event: dict[str, Any], kind: Kind
) -> None:
    script = f"echo '{json.dumps(event)}'; exit 1".replace("You've", "You have")
    answer = await send(adapters("sh", "-c", script, "sh", cli=cli))
    assert answer.outcome.kind is kind, answer.outcome


# -- as a user runs it ----------------------------------------------------------------------------------------------


def test_killed_engine_leaves_no_program_behind(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FakeProcess("", 0, 0), "commands", 2)
    (tmp_path / "headway.toml").write_text(
        '[providers.sh]\nkind = "command"\npreflight = "none"\n'
        'command = ["sh", "-c", "echo $$ >> pids; setsid sleep 1000 & echo $! >> pids; wait"]\n'
    )
    stage.write_input([{"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"}])
    pids = tmp_path / "pids"
    with stage.process("run", "in.jsonl", "-q") as process:
        wait_for("four processes", lambda: pids.exists() and len(pids.read_text().split()) == 4)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert all(gone_within(int(pid), 3.0) for pid in pids.read_text().split())


def test_a_row_without_a_prompt_is_reported_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text('[providers.sh]\nkind = "command"\ncommand = ["touch", "ran"]\n')
    (tmp_path / "in.jsonl").write_text('{"prompt": "x"}\n{"text": "y"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "headway", "run", "in.jsonl"],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert 'in.jsonl:2: expected a "prompt"' in done.stderr
    assert not (tmp_path / "ran").exists()
