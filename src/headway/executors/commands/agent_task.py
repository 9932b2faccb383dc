"""One unit for a program or an agent CLI: the settings of its provider, with what its row sets differently."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.config.kinds.agent_rows import own_settings, working_directory
from headway.config.kinds.programs import ONLY_IN_TOML, bypasses_permissions
from headway.config.settings import CommandConfig
from headway.errors import UsageError


class AgentTask(msgspec.Struct, frozen=True):
    """What a unit asks for. `session_id` is set if a session is chosen before the start; `resumes`: it exists already."""

    prompt: str
    model: str = ""
    directory: str = "."
    args: tuple[str, ...] = ()
    max_turns: int = 0
    allowed_tools: tuple[str, ...] = ()
    permission_mode: str = ""
    max_unit_cost: float = 0.0
    session_id: str = ""
    resumes: bool = False
    #: What it is told instead of the prompt.
    told: str = ""


def task_of(row: dict[str, Any], settings: CommandConfig, model: str, root: str) -> AgentTask:
    """The task of a row. Raises UsageError if the row does not fit."""
    prompt = row.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise UsageError('a unit for a program needs a "prompt": a text, which it gets on standard input')
    named = row.get("model")
    model = named if isinstance(named, str) and named else model
    own = own_settings(row)
    try:
        task = msgspec.convert({**_defaults(settings, model), **own, "prompt": prompt}, AgentTask)
    except msgspec.ValidationError as error:
        raise UsageError(f'"agent": {error}') from None
    if any("\0" in text for text in (task.model, task.permission_mode, *task.args, *task.allowed_tools)):
        raise UsageError('"agent": an argument of a program cannot have a null character')
    if bypasses_permissions(task.permission_mode, task.args) and not bypasses_permissions(
        settings.permission_mode, settings.args
    ):
        raise UsageError(ONLY_IN_TOML)
    directory = working_directory(settings, own, root)
    return msgspec.structs.replace(task, directory=directory)


def _defaults(settings: CommandConfig, model: str) -> dict[str, Any]:
    return {
        "model": model,
        "directory": settings.directory,
        "args": settings.args,
        "max_turns": settings.max_turns,
        "allowed_tools": settings.allowed_tools,
        "permission_mode": settings.permission_mode,
        "max_unit_cost": settings.max_unit_cost,
    }
