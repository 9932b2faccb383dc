"""An example of a provider kind with a builder of its own: returns every row after a configured word."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from headway.config import Config, ProviderConfig, ProviderKind, checks
from headway.config.kinds.provider_kind import TableError
from headway.core.model import LaneLimits
from headway.errors import ConfigError
from headway.providers.adapter import Admitted, Answer, Request
from headway.wiring.builders import Built, ProviderBuilder


class EchoConfig(msgspec.Struct, frozen=True):
    """`word` comes before every answer; "mute" is refused."""

    word: str


def word_of(provider: ProviderConfig) -> str:
    assert isinstance(provider.kind_settings, EchoConfig)
    return provider.kind_settings.word


class EchoKind(ProviderKind):
    """Two at once, no key, no price."""

    builder = "echo"
    takes_any_row = True
    own_failures = True
    reports_cost = True

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        if "word" not in values:
            raise TableError("word", "missing; the word before every answer")
        values["kind_settings"] = EchoConfig(values.pop("word"))
        values |= {"base_url": "", "api_key_env": "", "key_optional": True, "model": "echo"}
        return {"rpm": 6000.0}

    def host(self, provider: ProviderConfig) -> str:
        return "here"

    def identity(self, provider: ProviderConfig) -> str:
        return f"echo {word_of(provider)}"

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        return msgspec.structs.replace(limits, max_concurrency=2)


class EchoAdapter:
    """Answers at once, after a check."""

    def __init__(self, word: str) -> None:
        self.word, self.events = word, list[str]()

    async def check(self) -> None:
        self.events.append("check")

    async def open(self) -> None:
        self.events.append("open")

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.events.append("send")
        return Answer(status=200, body=msgspec.json.encode([self.word, msgspec.json.decode(request.body)]))

    async def close(self) -> None:
        self.events.append("close")


class EchoBuilder(ProviderBuilder):
    """Remembers the adapters that it built."""

    part = "voice"

    def __init__(self) -> None:
        self.adapters: list[EchoAdapter] = []

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        adapter = EchoAdapter(word_of(provider))
        self.adapters.append(adapter)
        return Built(adapter, adapter.check)

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        if word_of(provider) == "mute":
            raise ConfigError("there is no voice", hint="choose another word")
        return f"says {word_of(provider)}"


ECHO = EchoKind("echo", {"word": checks.text})
