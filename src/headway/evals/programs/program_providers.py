"""Ids of providers that are programs or plain HTTP → the settings of a provider: `exec:…`, `python:…`, `file://…`, `https://…`, `echo`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import ProviderConfig
from headway.config.settings import CodeConfig, ScriptConfig
from headway.core.model import Kind
from headway.errors import UsageError
from headway.evals.programs.code_files import LANGUAGES, code_file, split_file
from headway.evals.programs.file_digest import digest
from headway.evals.programs.http_keys import url_settings

#: The beginning of their names. No table of headway.toml can have such a name.
PREFIX: Final = "eval:"
#: sysexits.h: "try again later". It stays a rate limit.
_EX_TEMPFAIL: Final = 75
#: A script that fails is not run again.
_FINAL: Final = {code: Kind.INVALID.value for code in range(1, 256) if code != _EX_TEMPFAIL}

_Made = tuple[str, str, msgspec.Struct | None]
_Config = Mapping[str, Any]


def program_provider(
    provider_id: str, config: _Config, folder: Path, env: Mapping[str, str] | None = None
) -> ProviderConfig | None:
    """The settings of a provider, or None if the id names another kind. `env` are variables for its templates, besides those of the
    environment. Relative paths begin in `folder`. Raises UsageError.
    """
    make = _maker(provider_id)
    if make is None:
        return None
    kind, model, settings = make(provider_id, config, folder)
    if settings is not None and env:
        settings = msgspec.structs.replace(settings, variables=dict(env))
    version = digest(msgspec.json.encode(config, order="deterministic"))[:6] if config else ""
    return ProviderConfig(
        name=PREFIX + provider_id + (f" ({version})" if version else ""),
        kind=kind,
        base_url="",
        api_key_env="",
        model=model,
        key_optional=True,
        kind_settings=settings,
    )


def _maker(provider_id: str) -> Callable[[str, _Config, Path], _Made] | None:
    if provider_id == "echo":
        return _echo
    if provider_id.startswith("exec:"):
        return _script
    if provider_id.startswith(("http://", "https://")) or provider_id in ("http", "https"):
        return _url
    if provider_id.startswith(("python:", "file://")):
        return _function
    return None


def _echo(provider_id: str, config: _Config, folder: Path) -> _Made:
    for key in config:
        raise UsageError(f"{provider_id}: config.{key}: it answers with the prompt, and has no settings")
    return "echo", "echo", None


def _script(provider_id: str, config: _Config, folder: Path) -> _Made:
    try:
        command = tuple(shlex.split(provider_id.removeprefix("exec:")))
    except ValueError as error:
        raise UsageError(
            f"{provider_id}: {str(error).lower()}", hint="quote the command as in a shell"
        ) from None
    if not command:
        raise UsageError(f"{provider_id}: a command is missing", hint="write exec: python3 provider.py")
    settings = ScriptConfig(
        command=command,
        preflight="none",
        directory=str(folder),
        exit_codes=_FINAL,
        workers=_workers(config),
        options=dict(config),
    )
    return "script", Path(command[-1]).name, settings


def _function(provider_id: str, config: _Config, folder: Path) -> _Made:
    if provider_id.startswith("python:"):
        file, function = split_file(provider_id.removeprefix("python:"), folder)
    else:
        file, function = code_file(provider_id, folder)
    language = LANGUAGES.get(Path(file).suffix)
    if language is None:
        raise UsageError(f"{provider_id}: a provider in a file is Python (.py) or JavaScript (.js)")
    if not Path(file).is_file():
        raise UsageError(f"{provider_id}: there is no file {file}")
    if "pythonExecutable" in config:
        raise UsageError(
            f"{provider_id}: config.pythonExecutable is not supported: Headway's own Python runs the function",
            hint="install what it imports beside Headway, or run it with exec:",
        )
    name = Path(file).name + (f":{function}" if function else "")
    settings = CodeConfig(
        target=name,
        preflight="none",
        language=language,
        directory=str(folder),
        workers=_workers(config),
        timeout_s=_seconds(config.get("timeout", 0)),
        file=file,
        function=function,
        options=dict(config),
    )
    return "code", name, settings


def _url(provider_id: str, config: _Config, folder: Path) -> _Made:
    settings = url_settings(provider_id, config, folder)
    if not settings.url.startswith(("http://", "https://", "{{")):
        raise UsageError(f"{provider_id}: config.url is missing", hint="write url: https://host/path")
    return "url", settings.url.partition("?")[0].rstrip("/").rpartition("/")[2] or "http", settings


def _workers(config: _Config) -> int:
    value = config.get("workers", 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError("config.workers must be a number of processes")
    return value


def _seconds(milliseconds: Any) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or milliseconds < 0:
        raise UsageError("config.timeout must be a number of milliseconds")
    return milliseconds / 1000.0
