"""The options of an `AgentWorker`, checked by the rules of headway.toml."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from headway.config import Config, ProviderConfig
from headway.config.toml_file import provider_from
from headway.errors import ConfigError, UsageError

AgentKind = Literal["claude", "codex", "gemini-cli", "opencode", "command"]
AGENT_KINDS: Final[tuple[str, ...]] = ("claude", "codex", "gemini-cli", "opencode", "command")
#: The name of the only provider.
_NAME: Final = "worker"


class AgentWorkerOptions(TypedDict, total=False):
    """The options of a worker, as in `[providers.NAME]` of headway.toml.

    command: the program and its arguments; required for "command". `{{model}}` and `{{directory}}` are filled in.
    model: the CLI's name of a model; its own default otherwise.
    directory: where it works, relative to the working directory.
    args: further arguments.
    env: the variables that it may see, besides PATH, HOME and the language (default: all of them).
    max_turns, allowed_tools, permission_mode, max_unit_cost: the CLI's own options, where it has them.
    resume: "session" (a further attempt continues the conversation) or "none".
    exit_codes: exit codes that mean a kind of failure: {75: "hold"}.
    failure_logs: a pattern of log files below the working directory that are searched for a rate limit after a failure.
    shared_directory: agents that may write to one directory run there side by side (default: one at a time).
    """

    command: Sequence[str]
    model: str
    directory: str | PathLike[str]
    args: Sequence[str]
    env: Sequence[str]
    max_turns: int
    allowed_tools: Sequence[str]
    permission_mode: str
    max_unit_cost: float
    resume: Literal["session", "none"]
    exit_codes: Mapping[int, str]
    failure_logs: str
    shared_directory: bool


def config_of(kind: str, options: Mapping[str, Any]) -> tuple[Config, ProviderConfig]:
    """The settings of a provider with these options. Raises UsageError."""
    if kind not in AGENT_KINDS:
        raise UsageError(f"the kind of the agent is {kind!r}", hint=f"one of {', '.join(AGENT_KINDS)}")
    root = Path.cwd()
    table = {name: _as_in_toml(value) for name, value in options.items()}
    # A lane that starts one unit first is a matter of a job's lanes.
    table = {"kind": kind, **table, "preflight": "none"}
    try:
        provider = provider_from(_NAME, table, root)
    except ConfigError as error:
        text = error.message.partition(f"providers.{_NAME}.")[2] or error.message
        raise UsageError(f"AgentWorker: {text}", hint=error.hint) from None
    return Config(None, root, "", {_NAME: provider}), provider


def _as_in_toml(value: Any) -> Any:
    if isinstance(value, PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else value
