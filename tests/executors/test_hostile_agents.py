"""Agents that print what no reader expects: impossible numbers, output after the last event, processes that stay behind."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.executors.conftest import gone_within
from tests.providers.wire import Admissions

from headway.config.settings import CommandConfig
from headway.core.model import Kind
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.command_adapter import CommandAdapter
from headway.providers.adapter import Answer, Request

Run = Callable[..., Any]
_PRELUDE = """
import json, os, subprocess, sys, time
def say(**event):
    print(json.dumps(event), flush=True)
def result(text="good", **more):
    say(**{"type": "result", "subtype": "success", "is_error": False, "result": text, "num_turns": 1, "session_id": "S", **more})
"""


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    """Runs a script that prints Claude's events, and returns the answer."""
    made: list[CommandAdapter] = []

    async def once(script: str, timeout_s: float = 30.0, cli: str = "claude") -> Answer:
        program = tmp_path / "agent.py"
        program.write_text(_PRELUDE + script)
        settings = CommandConfig((sys.executable, str(program)), preflight="none")
        made.append(CommandAdapter(settings, AGENT_CLIS[cli], "m", str(tmp_path)))
        body = json.dumps({"prompt": "hello"}).encode()
        return await made[-1].send(Request("command", body), timeout_s, Admissions())

    yield once
    for adapter in made:
        await adapter.close()


def text_of(answer: Answer) -> str:
    assert answer.outcome.kind is None, answer.outcome
    return str(json.loads(answer.body)["content"][0]["text"])


@pytest.mark.parametrize("figure", ["-1000", "1e308", "1" + 400 * "0", str(2**63), "true", '"7"'])
async def test_impossible_figures_count_as_nothing(run: Run, figure: str) -> None:
    usage = f'{{"input_tokens": {figure}, "output_tokens": {figure}, "cache_read_input_tokens": {figure}}}'
    answer = await run(f"""
print('{{"type": "assistant", "message": {{"id": "m", "content": [], "usage": {usage}}}}}')
print('{{"type": "result", "subtype": "success", "is_error": false, "result": "good", "num_turns": {figure}, "total_cost_usd": {figure}, "usage": {usage}}}')
""")
    assert text_of(answer) == "good"
    used = answer.outcome.usage
    assert (used.input_tokens, used.output_tokens, used.cached_input_tokens, used.cost_usd) == (0, 0, 0, 0)
    assert json.loads(answer.body)["num_turns"] == 0


async def test_an_answer_that_came_before_the_deadline_counts_although_the_program_lingers(run: Run) -> None:
    answer = await run(
        "sys.stderr.write('Error: 429 rate limit exceeded\\n'); result(); time.sleep(1000)", timeout_s=2.0
    )
    assert text_of(answer) == "good"


@pytest.mark.parametrize("kind", ["limit", "turns"])
async def test_output_after_the_last_event_does_not_hide_what_it_said(run: Run, kind: str) -> None:
    said = {
        "limit": """
say(type="rate_limit_event", rate_limit_info={"status": "rejected", "rateLimitType": "five_hour", "resetsAt": int(time.time()) + 300})
result("You've hit your limit", is_error=True, api_error_status=429)""",
        "turns": 'result("", is_error=True, subtype="error_max_turns")',
    }[kind]
    answer = await run(f"{said}\nfor _ in range(3000): say(type='system', subtype='chatter', text=100 * 'x')")
    assert answer.outcome.kind is (Kind.HOLD if kind == "limit" else Kind.INVALID)


async def test_the_later_of_two_results_counts(run: Run) -> None:
    assert text_of(await run("result('first', is_error=True); result('second')")) == "second"
    failed = await run("result('first'); result('no', is_error=True, subtype='error_max_turns')")
    assert failed.outcome.kind is Kind.INVALID


async def test_a_process_that_left_the_group_of_an_agent_ends_with_it(run: Run, tmp_path: Path) -> None:
    await run("""
server = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
open("pid", "w").write(str(server.pid))
result()
""")
    assert gone_within(int((tmp_path / "pid").read_text()), 5.0)


@pytest.mark.parametrize("name", ["x\0y", "--dangerously-skip-permissions", "", 300 * "x", ["s"], "a b"])
async def test_what_cannot_be_an_id_of_a_session_is_none(run: Run, name: object) -> None:
    answer = await run(f"result(session_id={name!r})")
    assert json.loads(answer.body)["session_id"] == ""
    codex = await run(
        f"say(type='thread.started', thread_id={name!r}); say(type='turn.completed', usage={{}})", cli="codex"
    )
    assert json.loads(codex.body)["session_id"] == ""


def test_a_session_of_very_many_turns_is_read_in_linear_time() -> None:
    """The reader runs on the event loop: at 100,000 turns a sum over all of them took minutes."""
    reader = AGENT_CLIS["claude"].reader()
    turns = 100_000
    began_at = time.process_time()
    for n in range(turns):
        usage = {"input_tokens": 1, "output_tokens": 2}
        reader.event({"type": "assistant", "message": {"id": f"m{n}", "content": [], "usage": usage}})
        reader.event({"type": "assistant", "message": {"id": f"m{n}", "content": [], "usage": usage}})
    assert time.process_time() - began_at < 20.0
    assert reader.so_far is not None
    assert (reader.turns, reader.so_far.input_tokens, reader.so_far.output_tokens) == (
        turns,
        turns,
        2 * turns,
    )
