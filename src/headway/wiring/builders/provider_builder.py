"""The contract of a builder (a configured provider → its adapter, and what it needs on this machine), and the builder of all servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from headway.config import Config, ProviderConfig
from headway.errors import ConfigError
from headway.providers.adapter import Adapter

#: Called before a run that will send something. Raises where the provider cannot be used.
Check = Callable[[], Awaitable[None]]


class Built(msgspec.Struct, frozen=True):
    """An adapter, and its check before a run, where it has one."""

    adapter: Adapter
    check: Check | None = None


class ProviderBuilder(ABC):
    """Makes the adapters of one or more provider kinds. Heavy modules are imported in `build`."""

    #: What `doctor` calls the thing on this machine that a provider needs; "" where it needs none.
    part: str = ""

    @abstractmethod
    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a provider. `key` and `secrets` are removed from everything that comes back."""

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """What `doctor` prints of the provider's part. Raises `ConfigError` where it is missing. Starts nothing."""
        return ""


class HttpBuilder(ProviderBuilder):
    """Every server, whatever its dialect. The connection is checked by the first request."""

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """What asks a server. What is wrong with its address or its credentials names the provider."""
        from headway.providers.http.adapter import adapter_for

        try:
            adapter = adapter_for(
                provider.kind,
                provider.base_url,
                key,
                stream=provider.stream,
                profile=provider.profile or "",
                api_version=provider.api_version or "",
                region=provider.region or "",
                max_answer_bytes=provider.max_answer_bytes,
                secrets=secrets,
            )
        except ConfigError as error:
            raise ConfigError(f"provider '{provider.name}': {error.message}", hint=error.hint) from None
        return Built(adapter)
