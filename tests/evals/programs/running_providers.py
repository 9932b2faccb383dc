"""Providers of eval files, built as a run builds them, and asked once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.providers.wire import Admissions

from headway.config import Config, ProviderConfig
from headway.evals.programs.program_providers import program_provider
from headway.evals.programs.program_requests import PATH, program_request, program_version
from headway.providers.adapter import Answer, Request
from headway.wiring.builders import Built, builder_of


class BuiltProvider:
    """A provider that is open."""

    def __init__(self, provider: ProviderConfig, built: Built) -> None:
        self.provider, self.built = provider, built

    async def ask(self, prompt: Any, timeout_s: float = 60.0, **context: Any) -> Answer:
        body = program_request(prompt, {"vars": {}, **context}, program_version(self.provider))
        return await self.built.adapter.send(Request(PATH, body), timeout_s, Admissions())


def provider_of(provider_id: str, folder: Path, config: Mapping[str, Any] | None = None) -> ProviderConfig:
    provider = program_provider(provider_id, config or {}, folder)
    assert provider is not None
    return provider


@asynccontextmanager
async def opened(
    provider_id: str, folder: Path, config: Mapping[str, Any] | None = None, secrets: tuple[str, ...] = ()
) -> AsyncIterator[BuiltProvider]:
    provider = provider_of(provider_id, folder, config)
    built = builder_of(provider).build(Config(None, folder, ""), provider, "", secrets)
    await built.adapter.open()
    try:
        yield BuiltProvider(provider, built)
    finally:
        await built.adapter.close()
