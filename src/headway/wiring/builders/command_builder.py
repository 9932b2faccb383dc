"""`kind = "command"` and agent CLIs: builds the adapter of a program, and checks that the program exists."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from headway.config import Config, ProviderConfig
from headway.config.kinds.programs import DEFAULT_MODEL, command_of
from headway.errors import ConfigError
from headway.providers.scrubber import Scrubber
from headway.wiring.builders.on_ray import run_program_on_ray
from headway.wiring.builders.provider_builder import Built, ProviderBuilder


class CommandBuilder(ProviderBuilder):
    """Programs."""

    part = "program"

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a program. It gets no key of another provider, and secrets are removed from what comes back."""
        from headway.executors.commands.clis.agent_clis import AGENT_CLIS
        from headway.executors.commands.command_adapter import CommandAdapter

        self.verify(config, provider)
        model = provider.model if provider.model != DEFAULT_MODEL else ""
        others = (other.api_key_env for other in config.providers.values() if other.name != provider.name)
        withheld = frozenset(name for name in others if name and name != provider.api_key_env)
        adapter = CommandAdapter(
            command_of(provider),
            AGENT_CLIS.get(provider.kind),
            model or "",
            str(config.root),
            withheld,
            Scrubber(secrets),
            provider.max_answer_bytes,
        )
        if command_of(provider).executor == "ray":
            run_program_on_ray(adapter, config, provider)
            return Built(adapter, adapter.check)
        return Built(adapter)

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """Check that the program and its directory exist."""
        from headway.executors.commands.command_adapter import missing_program

        settings = command_of(provider)
        place = f"{config.path or 'headway.toml'}: providers.{provider.name}"
        on_ray = settings.executor == "ray"
        if not on_ray and (name := missing_program(settings)):
            raise ConfigError(
                f"{place}: there is no program '{name}'", hint="install it, or name it with command = [...]"
            )
        if settings.preflight == "command" and shutil.which(settings.preflight_command[0]) is None:
            raise ConfigError(
                f"{place}.preflight_command: there is no program '{settings.preflight_command[0]}'",
                hint='install it, or set preflight = "canary"',
            )
        directory = os.path.join(config.root, os.path.expanduser(settings.directory))
        if not os.path.isdir(directory):
            raise ConfigError(
                f"{place}.directory: {settings.directory} is not a directory",
                hint="create it, or name another directory",
            )
        return (
            f"{settings.command[0]} runs on the nodes of Ray" if on_ray else f"{settings.command[0]} is there"
        )
