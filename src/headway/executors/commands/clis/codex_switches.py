"""Switches that turn off Codex's own retries and telemetry.

Retries are a setting of the model provider that the user's config.toml chooses, so that file is read first. The built-in provider
takes no settings: a copy of it with another name does, and it uses the same login. Telemetry costs five seconds at the end of every run
where it cannot be sent.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

_TELEMETRY: Final = ("-c", "analytics.enabled=false")
_BUILT_IN: Final = "openai"
_COPY: Final = "headway"
_NO_RETRIES: Final = {"request_max_retries": 0, "stream_max_retries": 0}
#: Arguments of a user that choose a provider: then that choice is left alone.
_CHOOSE: Final = ("--oss", "--profile", "-p", "--local-provider")


def codex_switches(environ: Mapping[str, str], args: Sequence[str]) -> tuple[str, ...]:
    """The switches for a run with this environment and these arguments of the user."""
    if any(arg.partition("=")[0] in _CHOOSE or "model_provider" in arg for arg in args):
        return _TELEMETRY
    config = _config(environ)
    own = (
        config.get("profiles", {}).get(config.get("profile"), {})
        if isinstance(config.get("profiles"), dict)
        else {}
    )
    provider = own.get("model_provider") or config.get("model_provider") or _BUILT_IN
    tables = config.get("model_providers")
    if isinstance(tables, dict) and provider in tables and "." not in provider:
        chosen = (f"model_providers.{provider}.{name}={value}" for name, value in _NO_RETRIES.items())
        return (*_TELEMETRY, *(part for setting in chosen for part in ("-c", setting)))
    if provider != _BUILT_IN:
        return _TELEMETRY
    address = config.get("openai_base_url")
    copy = {"name": "OpenAI", "requires_openai_auth": True, "wire_api": "responses", **_NO_RETRIES}
    if isinstance(address, str):
        copy["base_url"] = address
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in copy.items())
    settings = (f'model_provider="{_COPY}"', f"model_providers.{_COPY}={{{table}}}")
    return (*_TELEMETRY, *(part for setting in settings for part in ("-c", setting)))


def _config(environ: Mapping[str, str]) -> dict[str, Any]:
    home = environ.get("CODEX_HOME") or os.path.join(environ.get("HOME", ""), ".codex")
    try:
        with open(os.path.join(home, "config.toml"), "rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError):
        return {}
