"""A model's name → its provider, and the model's name there (DESIGN §4).

`NAME/rest` goes to provider NAME if that is configured, and NAME is stripped. Any other name, with or without slashes, is
a model of `[run] provider` or of the only provider.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from headway.config import Config, ProviderConfig, kind_of
from headway.config.near_names import near_name
from headway.errors import MissingModel, UsageError

#: Routes that are cached. Files name a handful of models; one that names a million must not use memory for each.
REMEMBERED: Final = 1024
_LONGEST_SHOWN: Final = 80
#: The hint for a row without a model. `ask` replaces it: it has no rows.
NAME_ONE: Final = "name one in the row or with --model"
NO_MODEL: Final = '"model" is missing'


class Target(msgspec.Struct, frozen=True, gc=False):
    """A provider and a model."""

    provider: str
    kind: str
    model: str


class Router:
    """Finds the target of every row of one job."""

    def __init__(self, config: Config) -> None:
        self._providers, self._root = config.providers, str(config.root)
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
                raise self._only_provider(model, name)
            return _target(self._providers[name], rest)
        if self._default is None:
            raise self._undecided(model)
        return _target(self._default, model)

    def check_row(self, target: Target, payload: object) -> None:
        """Raise UsageError if the provider of a target cannot take a row that is not a request to a model."""
        provider = self._providers[target.provider]
        kind_of(provider).check_row(payload, provider, self._root)

    def check_flag(self, flag: str, model: str) -> None:
        """Raise if the model of a flag has no provider. The error names the flag."""
        try:
            self.route(model)
        except UsageError as error:
            raise UsageError(named_by(flag, model, error.message), hint=error.hint) from None

    def suspected_mistake(self, model: str) -> str | None:
        """A warning about a model that looks like a provider, but goes to the default provider; None for others."""
        name, slash, rest = model.partition("/")
        if self._default is None or (slash and (not rest or name in self._providers)):
            return None
        sent = f"'{_cut(model)}' is sent to {self._default.name} as a model"
        if not slash:
            is_mistake = name in self._providers and name not in _known_models(self._default)
            return f"{sent}, and is a provider; did you mean {self._example(name)}?" if is_mistake else None
        near = near_name(name, self._providers)
        if near is None:
            return None
        return f"no provider '{_cut(name)}': {sent}; did you mean {near}/{_cut(rest)}?"

    def _unnamed(self) -> Target:
        if self._default is None:
            several = f"there are several providers ({', '.join(self._providers)})"
            first = next(iter(self._providers))
            raise MissingModel(
                f"{NO_MODEL}, and {several}",
                UsageError(
                    f"no row names a model, and {several}",
                    hint=f"name one with --model, such as {first}/MODEL; or set provider in [run]",
                ),
                hint=f"write '{first}/MODEL', or set provider in [run]",
            )
        if self._default.model is None:
            table = f"[providers.{self._default.name}]"
            lacking = f"provider '{self._default.name}' has no default model"
            raise MissingModel(
                f"{NO_MODEL}, and {lacking}",
                UsageError(
                    f"no row names a model, and {lacking}",
                    hint=f"name one with --model, or set model in {table} of headway.toml",
                ),
                hint=f"{NAME_ONE}, or set model in {table}",
            )
        return _target(self._default, self._default.model)

    def _undecided(self, model: str) -> UsageError:
        """A name that no provider claims, though there are several."""
        name, _, rest = model.partition("/")
        if model in self._providers:
            return self._only_provider(model, model)
        import difflib  # imported only for an error

        near = difflib.get_close_matches(name, self._providers, n=1) if rest else []
        known = [one.name for one in self._providers.values() if model in _known_models(one)]
        hint = f"write '{(known or list(self._providers))[0]}/{_cut(model)}', or set provider in [run]"
        return UsageError(
            f"\"model\" '{_cut(model)}' names no provider, and there are several ({', '.join(self._providers)})",
            hint=f"did you mean '{near[0]}/{_cut(rest)}'?" if near and not known else hint,
        )

    def _only_provider(self, model: str, name: str) -> UsageError:
        return UsageError(
            f"\"model\" '{_cut(model)}' names a provider and no model of it",
            hint=f"write PROVIDER/MODEL, such as {self._example(name)}",
        )

    def _example(self, provider: str) -> str:
        """The provider's default model, as a row would name it."""
        return f"{provider}/{self._providers[provider].model or 'MODEL'}"


def named_by(flag: str, model: str, message: str) -> str:
    """An error of `route` about a model that a flag names."""
    quoted = f"\"model\" '{_cut(model)}'"
    text = f"{flag} {_cut(model)}"
    return message.replace(quoted, text) if quoted in message else f"{text}: {message}"


def _known_models(provider: ProviderConfig) -> set[str | None]:
    """The models that headway.toml names for a provider."""
    return {provider.model, *provider.models, *provider.prices, *provider.likes, *provider.max_costs} - {""}


def _default(config: Config) -> ProviderConfig | None:
    """The provider of rows that name no provider."""
    if config.run.provider is not None:
        return config.providers.get(config.run.provider)
    return next(iter(config.providers.values())) if len(config.providers) == 1 else None


def _target(provider: ProviderConfig, model: str) -> Target:
    return Target(provider.name, provider.kind, model)


def _cut(model: str) -> str:
    return model if len(model) <= _LONGEST_SHOWN else model[:_LONGEST_SHOWN] + "…"
