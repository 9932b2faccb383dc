"""`kind = "command"` (any program) and the kinds of agent CLIs: a program that is started for every unit."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headway.config import checks
from headway.config.kinds.agent_rows import own_settings, working_directory
from headway.config.kinds.provider_kind import ProviderKind, TableError
from headway.config.kinds.python import MOST_ON_CLUSTER
from headway.config.settings import CommandConfig, ProviderConfig, UnitResources
from headway.core.model import LaneLimits
from headway.errors import UsageError

#: Agent CLIs: the program of each, and what checks whether its account is open.
_AGENTS: Final = {
    "claude": ("claude", ("claude", "--print", "ping")),
    "codex": ("codex", ()),
    "gemini-cli": ("gemini", ()),
    "opencode": ("opencode", ()),
}
#: Agent CLIs: variables that name the folder of a login, and those that replace the login.
_LOGINS: Final = {
    "claude": (
        ("CLAUDE_CONFIG_DIR",),
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    ),
    "codex": (("CODEX_HOME",), ("CODEX_API_KEY",)),
    "gemini-cli": ((), ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL")),
    "opencode": (("XDG_DATA_HOME",), ()),
}
#: The kinds of agent CLIs. A provider of such a name needs no table.
AGENT_NAMES: Final = frozenset(_AGENTS)
#: Programs that run at once, unless configured (DESIGN §6).
WORKERS: Final = 4


def command_of(provider: ProviderConfig) -> CommandConfig:
    """The settings of a provider of these kinds."""
    assert isinstance(provider.kind_settings, CommandConfig)
    return provider.kind_settings


#: Options of agent CLIs that name a mode, and the modes in which nothing is written.
_MODE_OPTIONS: Final = ("--permission-mode", "--sandbox", "-s", "--approval-mode")
_READING: Final = frozenset({"plan", "read-only"})


def only_reads(permission_mode: str, args: Sequence[str]) -> bool:
    """Whether an agent CLI with these settings changes no files: Claude's `plan`, Codex's `read-only`."""
    modes = [permission_mode] if permission_mode else []
    for place, option in enumerate(args):
        name, equals, value = option.partition("=")
        if name in _MODE_OPTIONS:
            modes.append(value if equals else "".join(args[place + 1 : place + 2]))
    return bool(modes) and all(mode in _READING for mode in modes)


#: In modes and options with which an agent CLI asks for no permission at all.
_BYPASSING: Final = (
    "bypasspermissions",
    "danger-full-access",
    "--dangerously",
    "--allow-dangerously",
    "yolo",
)


def bypasses_permissions(permission_mode: str, args: Sequence[str]) -> bool:
    """Whether an agent CLI with these settings may do anything without being asked."""
    return any(word in text.lower() for text in (permission_mode, *args) for word in _BYPASSING)


#: The error of a row that would bypass permissions.
ONLY_IN_TOML: Final = '"agent": permissions are bypassed only by permission_mode or args in headway.toml'


def login_variables(provider: ProviderConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variables that name the folder of an agent CLI's login, and those that replace the login."""
    return _LOGINS.get(provider.kind, ((), ()))


class CommandKind(ProviderKind):
    """A program. Its logins and keys are its own: Headway gives it the environment."""

    builder = "command"
    takes_any_row = True
    own_failures = True
    reports_cost = True

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """A program has no address, and no key unless the table names a variable."""
        agent = _AGENTS.get(self.name)
        if agent is not None:
            values.setdefault("command", (agent[0],))
            values.setdefault("preflight_command", agent[1])
        elif "command" not in values:
            raise TableError(
                "command", 'missing; the program and its arguments, such as ["agent", "{{model}}"]'
            )
        if values.get("preflight") == "command" and not values.get("preflight_command"):
            raise TableError(
                "preflight_command", "missing; the command that checks whether the account is open"
            )
        fields = CommandConfig.__struct_fields__
        values["kind_settings"] = CommandConfig(
            **{field: values.pop(field) for field in fields if field in values}
        )
        if agent is None:
            values.setdefault("model", os.path.basename(values["kind_settings"].command[0]))
        else:
            values.setdefault("model", DEFAULT_MODEL)
        settings = values["kind_settings"]
        if settings.executor != "ray" and settings.resources != UnitResources():
            raise TableError("resources", 'only a cluster has them: set executor = "ray"')
        values["base_url"] = ""
        if "api_key_env" not in values:
            values["api_key_env"], values["key_optional"] = "", True
        return {}

    def host(self, provider: ProviderConfig) -> str:
        """The program, and the provider: two providers may start the same program with other settings."""
        return f"{command_of(provider).command[0]} ({provider.name})"

    def login(self, provider: ProviderConfig, environ: Mapping[str, str]) -> str:
        """An agent CLI's keys and address, or else the folder of its login, as far as it sees these variables.

        Two providers that start the same CLI with the same login use one account.
        """
        agent = _LOGINS.get(self.name)
        if agent is None:
            return ""
        seen = command_of(provider).env
        folder, keys = agent
        visible = {
            name: environ.get(name, "") for name in (*folder, "HOME", *keys) if seen is None or name in seen
        }
        parts = [f"{name}={visible[name]}" for name in keys if visible.get(name)]
        home = next((visible[name] for name in (*folder, "HOME") if visible.get(name)), "")
        return "\n".join((self.name, *(parts or [home])))

    def identity(self, provider: ProviderConfig) -> str:
        """Another command line makes another job."""
        return f"{self.name} {' '.join(command_of(provider).command)}"

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """A few at once: a program takes memory and a core."""
        settings = command_of(provider)
        size = settings.workers or (MOST_ON_CLUSTER if settings.executor == "ray" else WORKERS)
        return msgspec.structs.replace(limits, max_concurrency=limits.max_concurrency or size)

    def check_row(self, payload: Any, provider: ProviderConfig, root: str) -> None:
        """A program gets a prompt, and settings of its unit that fit."""
        if isinstance(payload, dict) and payload.get("system") is not None:
            raise UsageError("a program gets no system prompt: write it at the beginning of the prompt")
        prompt = payload.get("prompt") if isinstance(payload, dict) else None
        if not isinstance(prompt, str) or not prompt.strip():
            raise UsageError('expected a "prompt": a text, which the program gets on standard input')
        if own := own_settings(payload):
            settings = command_of(provider)
            mode, args = own.get("permission_mode", ""), own.get("args", ())
            if bypasses_permissions(mode, args) and not bypasses_permissions(
                settings.permission_mode, settings.args
            ):
                raise UsageError(ONLY_IN_TOML)
            if "directory" in own:
                working_directory(settings, own, root)

    def one_ahead(self, provider: ProviderConfig) -> bool:
        """One unit, unless the preflight is off."""
        return command_of(provider).preflight != "none"


#: The model of an agent CLI where none is named: the CLI chooses.
DEFAULT_MODEL: Final = "default"

_KEYS: Final = {
    "command": checks.command,
    "directory": checks.text,
    "args": checks.arguments,
    "env": checks.variables,
    "workers": checks.attempts,
    "preflight": checks.preflight,
    "preflight_command": checks.command,
    "preflight_timeout": checks.some_time,
    "failure_logs": checks.below,
    "exit_codes": checks.exit_code_kinds,
    "memory_budget": checks.memory_budget,
    "executor": checks.executor,
    "resources": checks.resources,
}
_AGENT_KEYS: Final = {
    "max_turns": checks.count,
    "allowed_tools": checks.arguments,
    "permission_mode": checks.text,
    "max_unit_cost": checks.amount,
    "resume": checks.resume_mode,
}
COMMANDS: Final = (
    CommandKind("command", {**_KEYS, "output": checks.command_output}),
    *(CommandKind(name, {**_KEYS, **_AGENT_KEYS}) for name in _AGENTS),
)
