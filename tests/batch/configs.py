"""Configurations that the tests of batches share."""

from __future__ import annotations

from pathlib import Path

from headway.config import Config, ProviderConfig, RunConfig

ALPHA = ProviderConfig("alpha", "openai", "http://127.0.0.1:8900", "ALPHA_KEY", model="gpt-d")
BETA = ProviderConfig("beta", "anthropic", "http://127.0.0.1:8901", "BETA_KEY", model="claude-d")
BARE = ProviderConfig("bare", "openai", "http://127.0.0.1:8902", "BARE_KEY")


def config(*providers: ProviderConfig, run: str | None = None) -> Config:
    """A configuration with these providers."""
    return Config(
        path=None,
        root=Path("/nowhere"),
        db="/nowhere/headway.db",
        providers={provider.name: provider for provider in providers},
        run=RunConfig(provider=run),
    )


#: Both kinds; what names no provider is OpenAI's.
BOTH = config(ALPHA, BETA, run="alpha")
