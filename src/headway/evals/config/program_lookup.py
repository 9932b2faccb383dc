"""Providers that are programs, by their ids. `evals.programs` reads them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from headway.config import ProviderConfig
from headway.errors import ConfigError


def program_provider(
    identity: str, config: dict[str, Any], folder: Path, env: dict[str, str]
) -> ProviderConfig | None:
    """The provider of a program's id; None if it is no such id. Raises ConfigError or UsageError."""
    try:
        module = import_module("headway.evals.programs.program_providers")
    except ModuleNotFoundError:
        raise ConfigError(f"'{identity}': this version runs no programs") from None
    found: ProviderConfig | None = module.program_provider(identity, config, folder, env)
    return found
