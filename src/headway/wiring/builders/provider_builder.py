"""The contract of a builder (a configured provider → its adapter, and what it needs on this machine), and the builder of all servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from headway.config import Config, ProviderConfig
from headway.errors import ConfigError
from headway.providers.adapter import Adapter

#: Called before a run that will send something. Raises if the provider cannot be used.
Check = Callable[[], Awaitable[None]]


class Built(msgspec.Struct, frozen=True):
    """An adapter, and its check before a run, if it has one."""

    adapter: Adapter
    check: Check | None = None


class ProviderBuilder(ABC):
    """Makes the adapters of one or more provider kinds. Heavy modules are imported in `build`."""

    #: What a provider needs on this machine, for `doctor`; "" if it needs nothing.
    part: str = ""

    @abstractmethod
    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a provider. `key` and `secrets` are removed from everything that comes back."""

    def verify(self, config: Config, provider: ProviderConfig) -> str:
        """What `doctor` prints about the provider's part. Raises `ConfigError` if it is missing. Starts nothing."""
        return ""


class HttpBuilder(ProviderBuilder):
    """The builder of all servers. The first request checks the connection."""

    def build(self, config: Config, provider: ProviderConfig, key: str, secrets: Iterable[str]) -> Built:
        """The adapter of a server. Errors about its address or credentials name the provider."""
        from headway.providers.http.http_adapter import adapter_for

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
