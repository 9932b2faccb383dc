"""Runs of agent CLIs as they print them: the events of each CLI, and how a run with them is judged."""

from __future__ import annotations

import json
from typing import Any

from headway.config.settings import CommandConfig
from headway.executors.commands import run_outcome
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.program import ProgramEnd
from headway.executors.limit_evidence import LimitDetector
from headway.executors.work_result import WorkResult

Event = dict[str, Any]


def judged(cli: str, events: list[Event] | str, *, code: int = 0, stderr: str = "") -> WorkResult:
    """The result of a run that printed these events and ended with this exit code."""
    printed = events if isinstance(events, str) else "".join(json.dumps(event) + "\n" for event in events)
    reader = AGENT_CLIS[cli].reader()
    for line in printed.encode().splitlines():
        reader.take(line)
    reader.finish()
    end = ProgramEnd(code, False, printed.encode(), stderr.encode(), 1, 0.0, 1.0)
    result = run_outcome.of_agent(AGENT_CLIS[cli], reader, end, CommandConfig((cli,)), 600.0)
    return result if result.end == "value" else LimitDetector().read(result)


def talk(cli: str, text: str) -> list[Event]:
    """A conversation in which the model, its thoughts, its tools and their results say this text."""
    made = {"claude": _claude, "codex": _codex, "gemini-cli": _gemini, "opencode": _opencode}
    return made[cli](text)


def ending(cli: str, text: str) -> list[Event]:
    """The events at the end of a run whose answer is this text."""
    events: dict[str, list[Event]] = {
        "claude": [
            {"type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "result": text,
             "num_turns": 2, "session_id": "s", "total_cost_usd": 0.1, "usage": {"input_tokens": 1, "output_tokens": 1}},
        ],
        "codex": [{"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}],
        "gemini-cli": [{"type": "result", "status": "success", "stats": {"input_tokens": 1, "output_tokens": 1}}],
        "opencode": [
            {"type": "step_finish", "sessionID": "s", "part": {"cost": 0.1, "tokens": {"input": 1, "output": 1}}},
        ],
    }  # fmt: skip
    return events[cli]


def _claude(text: str) -> list[Event]:
    parts = [
        {"type": "thinking", "thinking": text},
        {"type": "text", "text": text},
        {"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "a.py", "content": text}},
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": text, "is_error": True}
    return [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"]},
        {"type": "assistant", "message": {"role": "assistant", "content": parts}, "session_id": "s"},
        {"type": "user", "message": {"role": "user", "content": [result]}, "tool_use_result": {"stdout": text, "stderr": text}},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1795003212, "rateLimitType": "five_hour", "overageStatus": "rejected", "isUsingOverage": False}},
    ]  # fmt: skip


def _codex(text: str) -> list[Event]:
    items = [
        {"id": "i0", "type": "reasoning", "text": text},
        {"id": "i1", "type": "command_execution", "command": f"echo {text}", "aggregated_output": text, "exit_code": 1, "status": "failed"},
        {"id": "i2", "type": "mcp_tool_call", "tool": "read", "arguments": {"path": text}, "result": {"content": text}},
        {"id": "i3", "type": "todo_list", "items": [{"text": text, "completed": False}]},
        {"id": "i4", "type": "agent_message", "text": text},
    ]  # fmt: skip
    return [
        {"type": "thread.started", "thread_id": "s"},
        {"type": "turn.started"},
        *({"type": "item.completed", "item": item} for item in items),
    ]


def _gemini(text: str) -> list[Event]:
    return [
        {"type": "init", "session_id": "s"},
        {"type": "tool_use", "tool_id": "t", "tool_name": "read_file", "parameters": {"path": text}},
        {"type": "tool_result", "tool_id": "t", "status": "error", "output": text},
        {"type": "message", "role": "assistant", "content": text},
    ]


def _opencode(text: str) -> list[Event]:
    state = {"status": "completed", "input": {"command": text}, "output": text}
    return [
        {"type": "step_start", "sessionID": "s", "part": {"type": "step-start"}},
        {"type": "reasoning", "sessionID": "s", "part": {"type": "reasoning", "text": text}},
        {"type": "tool_use", "sessionID": "s", "part": {"callID": "t", "tool": "bash", "state": state}},
        {"type": "text", "sessionID": "s", "part": {"type": "text", "text": text}},
    ]
