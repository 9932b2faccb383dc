"""Names of the providers that an eval brings. A name follows from the place alone (address, key variable, version), because answers are
kept by it: another limit or another order of the file keeps them, and another server never gets those of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from headway.config import Config, ProviderConfig
from headway.core.model import LaneLimits


class ProviderNames:
    """Gives names. Which keys are set changes none: a job that stopped for want of a key finds its providers again. Providers of one place have one name, and the limits and prices of all their models."""

    def __init__(self, config: Config) -> None:
        self._tables = {} if config.providers_are_guessed else config.providers
        self._taken: dict[str, ProviderConfig] = {}

    def named(self, provider: ProviderConfig, *, is_usual: bool) -> ProviderConfig:
        """The provider under its name: that of its table, or of its vendor if it `is_usual`; otherwise with a digest of its place."""
        stem, table = provider.name, self._tables.get(provider.name)
        if not (is_usual if table is None else is_same_place(table, provider)):
            stem = f"{stem}-{blake2b(_place(provider), digest_size=3).hexdigest()}"
        number, name = 1, stem
        while name in self._taken and not _agree(self._taken[name], provider):
            number += 1
            name = f"{stem}-{number}"
        known = self._taken.get(name, provider)
        self._taken[name] = msgspec.structs.replace(with_models_of(known, provider), name=name)
        return self._taken[name]


def with_models_of(provider: ProviderConfig, other: ProviderConfig) -> ProviderConfig:
    """The provider with the limits and prices of both."""
    models, prices = {**provider.models, **other.models}, {**provider.prices, **other.prices}
    return msgspec.structs.replace(provider, models=models, prices=prices)


def is_same_place(one: ProviderConfig, other: ProviderConfig) -> bool:
    """Whether both send the same requests to the same address."""
    return _place(one) == _place(other)


def _place(provider: ProviderConfig) -> bytes:
    bare = msgspec.structs.replace(provider, name="", model=None, models={}, prices={}, limits=LaneLimits())
    plain = msgspec.to_builtins(bare, enc_hook=str, str_keys=True)
    return msgspec.json.encode(plain, order="sorted")


def _agree(one: ProviderConfig, other: ProviderConfig) -> bool:
    """Whether two providers can be one."""
    return (
        is_same_place(one, other)
        and one.limits == other.limits
        and _same_where_both(one.models, other.models)
        and _same_where_both(one.prices, other.prices)
    )


def _same_where_both(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())
