"""Builds the adapters of what an eval file describes itself: code, scripts, plain HTTP, echo. Templates in their settings are filled here,
so that a key from the environment reaches a request and no record.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.config import Config, ProviderConfig, dotenv_of
from headway.config.kinds.eval_programs import code_of, script_of, url_of
from headway.config.settings import CodeConfig, UrlConfig
from headway.errors import ConfigError
from headway.providers.scrubber import Scrubber, Secret
from headway.wiring.builders.provider_builder import Built, ProviderBuilder

#: A variable of the environment in a template.
_ENV_NAME: Final = re.compile(r"\benv(?:\.|\[\\?[\"'])([A-Za-z_]\w*)")
#: Shorter values are no secrets: "1", "true", "eu-west".
_SHORTEST_SECRET: Final = 8


class CodeBuilder(ProviderBuilder):
    """Python and JavaScript in worker processes."""

    part = "code"

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of code, or of a function that is a provider."""
        from headway.executors.code.code_adapter import CodeAdapter

        self.verify(config, provider)
        settings = code_of(provider)
        size = settings.workers or os.cpu_count() or 1
        env = environment_of(config, settings.variables)
        adapter = CodeAdapter(
            settings,
            size,
            provider.name,
            Scrubber([*secrets, *secrets_in(settings, env)]),
            provider.max_answer_bytes,
            _filled(settings.options, {"env": env}),
        )
        return Built(adapter)

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """Check that its file and its program exist."""
        settings = code_of(provider)
        if settings.language == "javascript":
            _need_node(provider.name)
        if settings.file and not Path(settings.file).is_file():
            raise ConfigError(
                f"{provider.name}: there is no file {settings.file}", hint="check the provider's id"
            )
        return f"{settings.language} runs {settings.file or 'the code of the eval'}"


class ScriptBuilder(ProviderBuilder):
    """`exec:` scripts."""

    part = "program"

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a script."""
        from headway.executors.commands.script_adapter import ScriptAdapter

        self.verify(config, provider)
        settings = script_of(provider)
        env = environment_of(config, settings.variables)
        withheld = frozenset(other.api_key_env for other in config.providers.values() if other.api_key_env)
        adapter = ScriptAdapter(
            settings,
            _filled(settings.options, {"env": env}),
            withheld,
            Scrubber([*secrets, *secrets_in(settings, env)]),
            provider.max_answer_bytes,
        )
        return Built(adapter)

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """Check that the program exists."""
        settings = script_of(provider)
        program = settings.command[0]
        there = os.path.join(settings.directory, program)
        if not (os.access(there, os.X_OK) if os.sep in program else shutil.which(program)):
            raise ConfigError(
                f"{provider.name}: there is no program '{program}'",
                hint="install it, or make the script executable (chmod +x)",
            )
        return f"{program} is there"


class UrlBuilder(ProviderBuilder):
    """Plain HTTP."""

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of an address. With JavaScript it has workers of its own."""
        from headway.executors.code.code_adapter import CodeAdapter
        from headway.executors.code.url_adapter import UrlAdapter
        from headway.providers.http.http_settings import HttpSettings

        settings = url_of(provider)
        env = environment_of(config, settings.variables)
        hidden = [*secrets, *secrets_in(settings, env)]
        origin = _filled(settings.url, {"env": env, "prompt": ""})
        http = HttpSettings(
            origin,
            Secret(""),
            False,
            profile="",
            max_answer_bytes=provider.max_answer_bytes,
            secrets=tuple(hidden),
        )
        code = None
        if _needs_javascript(settings):
            _need_node(provider.name)
            workers = CodeConfig(
                target=provider.name,
                preflight="none",
                language="javascript",
                directory=settings.directory,
                timeout_s=CODE_TIMEOUT_S,
            )
            code = CodeAdapter(workers, 1, provider.name, Scrubber(hidden), provider.max_answer_bytes)
        try:
            return Built(UrlAdapter(settings, http, _filled, env, code))
        except (ConfigError, ValueError):
            raise ConfigError(
                f"{provider.name}: {settings.url} is not an address of the form https://host/path",
                hint="its host cannot depend on the variables of a test",
            ) from None


class EchoBuilder(ProviderBuilder):
    """`echo`."""

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter, which sends nothing."""
        from headway.providers.echo_adapter import EchoAdapter

        return Built(EchoAdapter())


#: How long JavaScript may take to read a response.
CODE_TIMEOUT_S: Final = 30.0


def environment_of(config: Config, variables: Mapping[str, str]) -> dict[str, str]:
    """What `env.NAME` means in a template: the variables of the eval file, the environment, `.env`."""
    return {**dotenv_of(config), **os.environ, **variables}


def secrets_in(settings: msgspec.Struct, env: Mapping[str, str]) -> list[str]:
    """The values of variables that the settings put into requests: they are removed from everything that comes back."""
    names = _ENV_NAME.findall(msgspec.json.encode(settings).decode())
    return [env[name] for name in names if len(env.get(name, "")) >= _SHORTEST_SECRET]


def _filled(value: Any, values: Mapping[str, Any]) -> Any:
    from headway.evals.templates import render_value

    return render_value(value, values)


def _needs_javascript(settings: UrlConfig) -> bool:
    from headway.providers.http.url_request import is_path

    path_only = not settings.response or is_path(settings.response)
    return bool(settings.request or settings.response_file) or not path_only


def _need_node(name: str) -> None:
    if shutil.which("node") is None:
        raise ConfigError(
            f"{name}: there is no program 'node', which runs JavaScript",
            hint="install Node.js 20 or newer, or write the code in Python",
        )
