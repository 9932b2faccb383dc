"""What the units of the executors' contract do: in a worker of `kind = "python"`, in any program, and in an agent CLI.

As a program it reads the act from its prompt; its argument says in which form it answers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

LIMIT = "Error: 429 Too Many Requests, retry after 20 seconds"


class Limited(Exception):
    """The refusal of a provider, as SDKs raise it."""

    status_code = 429
    headers: dict[str, str] = {"retry-after": "20"}  # noqa: RUF012


def perform(act: str) -> str:
    """Do one act; returns the answer."""
    name, _, argument = act.partition(" ")
    match name:
        case "say":
            return argument
        case "many":
            return "x" * int(argument)
        case "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        case "flood":
            sys.stderr.write("x" * 3_000_000)
            sys.stderr.flush()
            return "done"
        case "hang":
            # In a group of its own, with its pipes open: nothing but a search finds it.
            child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            Path("pids.part").write_text(f"{os.getpid()} {child.pid}")
            os.replace("pids.part", "pids")
            time.sleep(1000)
        case "fail":
            sys.stderr.write(f"trail: {argument}\n")
            sys.stderr.flush()
            raise ValueError(f"it broke: {argument}")
        case "limit":
            raise Limited(LIMIT)
    raise AssertionError(act)


def work(row: dict[str, Any]) -> dict[str, Any]:
    """The target of the Python workers."""
    return {"content": [{"type": "text", "text": perform(row["prompt"])}]}


def provide(prompt: str, options: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """The provider of an eval file."""
    return {"output": perform(prompt)}


def events(form: str, text: str) -> list[dict[str, Any]]:
    """The events of an agent CLI with this answer."""
    if form == "claude":
        message = {"id": "m", "content": [{"type": "text", "text": text}]}
        result = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "result": text}
        return [{"type": "assistant", "message": message, "session_id": "S"}, {**result, "session_id": "S"}]
    if form == "codex":
        item = {"id": "i", "type": "agent_message", "text": text}
        usage = {"input_tokens": 1, "output_tokens": 1}
        started = {"type": "thread.started", "thread_id": "S"}
        return [started, {"type": "item.completed", "item": item}, {"type": "turn.completed", "usage": usage}]
    if form == "gemini-cli":
        message = {"type": "message", "role": "assistant", "content": text}
        result = {"type": "result", "status": "success", "stats": {}}
        return [{"type": "init", "session_id": "S"}, message, result]
    part = {"sessionID": "S", "part": {"text": text}}
    return [{"type": "text", **part}, {"type": "step_finish", "sessionID": "S", "part": {}}]


def main() -> None:
    """As a program."""
    form = sys.argv[1]
    try:
        text = perform(sys.stdin.read())
    except (ValueError, Limited) as error:
        sys.exit(str(error))
    if form == "text":
        sys.stdout.write(text)
    else:
        for event in events(form, text):
            sys.stdout.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
