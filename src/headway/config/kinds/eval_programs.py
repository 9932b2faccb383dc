"""The kinds of providers that only an eval file brings: code, functions, scripts, plain HTTP, and echo.

No table of headway.toml can have them: their settings are written in the eval file, and their requests are made for evals only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from headway.config.kinds.programs import WORKERS
from headway.config.kinds.provider_kind import ProviderKind
from headway.config.settings import CodeConfig, ProviderConfig, ScriptConfig, UrlConfig
from headway.core.model import LaneLimits

_NO_KEYS: Final[Mapping[str, Any]] = {}


class EvalProgramKind(ProviderKind):
    """A provider that an eval file describes."""

    takes_any_row = True
    own_failures = True
    reports_cost = True

    def __init__(self, name: str) -> None:
        super().__init__(name, _NO_KEYS)

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Only tables of headway.toml are completed."""
        return {}

    def host(self, provider: ProviderConfig) -> str:
        """The provider: two of them may run the same file with other settings."""
        return provider.name


class CodeKind(EvalProgramKind):
    """Functions and code in Python or JavaScript, in worker processes."""

    builder = "code"

    def identity(self, provider: ProviderConfig) -> str:
        """Another function makes another job."""
        settings = code_of(provider)
        return f"{self.name} {settings.language} {settings.file}:{settings.function}"

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """No more units than workers: a unit that waits for a free worker would hold a slot."""
        size = code_of(provider).workers or os.cpu_count() or 1
        return msgspec.structs.replace(limits, max_concurrency=min(limits.max_concurrency or size, size))


class ScriptKind(EvalProgramKind):
    """A program that gets the prompt as an argument."""

    builder = "script"

    def identity(self, provider: ProviderConfig) -> str:
        """Another command line makes another job."""
        return f"{self.name} {' '.join(script_of(provider).command)}"

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """A few at once: a program takes memory and a core."""
        size = script_of(provider).workers or WORKERS
        return msgspec.structs.replace(limits, max_concurrency=limits.max_concurrency or size)


class UrlKind(EvalProgramKind):
    """Plain HTTP."""

    builder = "url"
    own_failures = False
    cacheable = True

    def host(self, provider: ProviderConfig) -> str:
        """Host and port: several addresses of one host share its limits."""
        return urlsplit(url_of(provider).url).netloc.rpartition("@")[2] or provider.name

    def identity(self, provider: ProviderConfig) -> str:
        """Another address makes another job."""
        return f"{self.name} {url_of(provider).method} {url_of(provider).url}"


class EchoKind(EvalProgramKind):
    """Answers with the prompt."""

    builder = "echo"


def code_of(provider: ProviderConfig) -> CodeConfig:
    """The settings of a provider of kind `code`."""
    assert isinstance(provider.kind_settings, CodeConfig)
    return provider.kind_settings


def script_of(provider: ProviderConfig) -> ScriptConfig:
    """The settings of a provider of kind `script`."""
    assert isinstance(provider.kind_settings, ScriptConfig)
    return provider.kind_settings


def url_of(provider: ProviderConfig) -> UrlConfig:
    """The settings of a provider of kind `url`."""
    assert isinstance(provider.kind_settings, UrlConfig)
    return provider.kind_settings


EVAL_PROGRAMS: Final = (CodeKind("code"), ScriptKind("script"), UrlKind("url"), EchoKind("echo"))
