"""Requests for providers that are programs or plain HTTP. They hold the prompt and the variables, and no setting of the provider: keys in
settings are filled in when a request is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import ProviderConfig
from headway.config.settings import CodeConfig, ScriptConfig, UrlConfig
from headway.evals.programs.file_digest import digest, file_digest

#: The path of their requests.
PATH: Final = "eval"


def program_version(provider: ProviderConfig) -> str:
    """Digits that change with the settings of a provider, and with the content of its files. Part of each request."""
    settings = provider.kind_settings
    encoded = b"" if settings is None else msgspec.json.encode(settings)
    files = (file_digest(path) for path in _files(settings))
    return digest(provider.kind.encode(), encoded, *(part.encode() for part in files))


def program_request(prompt: Any, context: Mapping[str, Any], version: str) -> bytes:
    """The request for a prompt. `context` is what a script gets as its context: `vars`, and what else is known of the cell."""
    return msgspec.json.encode({"prompt": prompt, "context": dict(context), "version": version})


def _files(settings: msgspec.Struct | None) -> tuple[Path, ...]:
    if isinstance(settings, CodeConfig) and settings.file:
        return (Path(settings.file),)
    if isinstance(settings, UrlConfig) and settings.response_file:
        return (Path(settings.response_file),)
    if isinstance(settings, ScriptConfig):
        folder = Path(settings.directory)
        return tuple(folder / part for part in settings.command if (folder / part).is_file())
    return ()
