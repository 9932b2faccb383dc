"""`kind = "command"`: any program. The prompt comes on standard input; the output is text, JSON, or JSON lines."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headway.executors.commands.agent_task import AgentTask
from headway.providers.error_messages import short_message

#: Characters of an output that is not JSON in its message.
_QUOTED: Final = 80
_NAME: Final = re.compile(r"\{\{\s*(model|directory|session_id|max_turns)\s*\}\}")


def filled(command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
    """The command line of a task: `{{model}}`, `{{directory}}`, `{{session_id}}` and `{{max_turns}}` are filled in.

    The prompt has no name here: a command line has a limit, and every user of the machine can read it.
    """
    return (*(_NAME.sub(lambda found: str(getattr(task, found[1])), part) for part in command), *task.args)


def value_of(output: bytes, form: str) -> Any:
    """What a program printed, as `output` says. Raises ValueError."""
    if form == "text":
        return output.decode("utf-8", errors="replace")
    if form == "json":
        return _json(output)
    lines = (line for line in output.split(b"\n") if line.strip())
    return [_json(line) for line in lines]


def _json(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        start = short_message(text[: 4 * _QUOTED].decode("utf-8", errors="replace").strip())[:_QUOTED]
        quoted = f' ("{start}")' if start else ""
        raise ValueError(f"its output is not JSON{quoted}: {error}; print logs on standard error") from None
