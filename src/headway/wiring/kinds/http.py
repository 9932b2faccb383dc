"""Servers: builds what asks an API over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

from headway.config import Config, ProviderConfig
from headway.errors import ConfigError
from headway.wiring.kinds.base import Built, ProviderBuilder


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
