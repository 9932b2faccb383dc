"""A model's name → its provider, and the model's name there (DESIGN §4).

`NAME/rest` goes to provider NAME if that is configured, and NAME is stripped. Any other name, with or without slashes, is
a model of `[run] provider` or of the only provider.
"""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Final

import msgspec

from headway.config import Config, ProviderConfig, kind_of
from headway.errors import UsageError

#: Routes that are cached. Files name a handful of models; one that names a million must not use memory for each.
REMEMBERED: Final = 1024
_LONGEST_SHOWN: Final = 80


class Target(msgspec.Struct, frozen=True, gc=False):
    """A provider and a model."""

    provider: str
    kind: str
    model: str


class Router:
    """Finds the target of every row of one job."""

    def __init__(self, config: Config) -> None:
        self._providers = config.providers
        self._default = _default(config)
        self.route = lru_cache(REMEMBERED)(self._route)
        #: Whether any provider takes rows of any form.
        self.takes_any_row = any(kind_of(provider).takes_any_row for provider in config.providers.values())

    def _route(self, model: str | None) -> Target:
        """The target of a model's name; None: the row names no model. An error is one line that says what to do."""
        if not self._providers:
            raise UsageError(
                "there is no provider",
                hint="'headway init' writes a headway.toml; or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
            )
        if model is None:
            return self._unnamed()
        if not model.strip() or not model.isprintable():
            raise UsageError('"model" must be the name of a model')
        name, slash, rest = model.partition("/")
        if slash and name in self._providers:
            if not rest:
                raise UsageError(f"\"model\" '{_cut(model)}' names a provider and no model of it")
            return _target(self._providers[name], rest)
        if self._default is None:
            near = difflib.get_close_matches(name, self._providers, n=1) if rest else []
            meant = f"did you mean '{near[0]}/{_cut(rest)}'?" if near else None
            raise self._undecided(f"\"model\" '{_cut(model)}' names no provider", _cut(model), meant)
        return _target(self._default, model)

    def _unnamed(self) -> Target:
        if self._default is None:
            raise self._undecided('"model" is missing', "MODEL")
        if self._default.model is None:
            raise UsageError(
                f"\"model\" is missing, and provider '{self._default.name}' has none of its own",
                hint=f"name one in the row, give --model, or set model in [providers.{self._default.name}]",
            )
        return _target(self._default, self._default.model)

    def _undecided(self, what: str, model: str, meant: str | None = None) -> UsageError:
        names = list(self._providers)
        return UsageError(
            f"{what}, and there are several ({', '.join(names)})",
            hint=meant or f"write '{names[0]}/{model}', or set provider in [run]",
        )


def _default(config: Config) -> ProviderConfig | None:
    """The provider of rows that name no provider."""
    if config.run.provider is not None:
        return config.providers.get(config.run.provider)
    return next(iter(config.providers.values())) if len(config.providers) == 1 else None


def _target(provider: ProviderConfig, model: str) -> Target:
    return Target(provider.name, provider.kind, model)


def _cut(model: str) -> str:
    return model if len(model) <= _LONGEST_SHOWN else model[:_LONGEST_SHOWN] + "…"
