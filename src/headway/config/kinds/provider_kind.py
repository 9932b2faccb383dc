"""The contract of a provider kind: what is known of it without starting anything.

`wiring/builders` has the other half: how its adapter is built, and what it needs on this machine.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headway.config.checks import Check
from headway.config.settings import ProviderConfig
from headway.core.model import LaneLimits
from headway.errors import ConfigError

#: What an HTTP header can carry and every provider's keys are made of.
KEY_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+")


class TableError(Exception):
    """A key of a provider's table that is missing, or that does not go with the others."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key, self.text = key, text


class ProviderKind(ABC):
    """One kind of provider, by its name in `kind = "…"`."""

    #: Which builder of `wiring.builders` makes its adapters.
    builder: ClassVar[str]
    #: Keys of `[providers.NAME]` that not every kind has, each with its check.
    keys: Mapping[str, Check]
    #: Whether requests and a key are sent to an address.
    is_server: bool = False
    #: Whether a row may have any form, because its work is no request to a model.
    takes_any_row: bool = False
    #: Whether a failure of one unit says nothing about the others.
    own_failures: bool = False
    #: Whether results say what they cost: the price list is not asked, and no budget needs a price.
    reports_cost: bool = False
    #: Whether the same request may be answered from the cache.
    cacheable: bool = False
    #: Variables that hold parts of a key, where the one of `api_key_env` is not set.
    other_variables: tuple[str, ...] = ()

    def __init__(self, name: str, keys: Mapping[str, Check]) -> None:
        self.name, self.keys = name, keys

    @abstractmethod
    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in the fields that a checked table leaves out. What only this kind has goes into `kind_settings`.

        Returns the limits of a provider that names none. Raises `TableError`.
        """

    @abstractmethod
    def host(self, provider: ProviderConfig) -> str:
        """Where its requests go, as it stands in the name of a lane."""

    def other_key(
        self, provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]
    ) -> str:
        """Its key where the variable of `api_key_env` is not set; "" where it needs none."""
        if provider.key_optional:
            return ""
        raise ConfigError(
            f"provider '{provider.name}': the environment variable {provider.api_key_env} is not set",
            hint="export it or put it in .env beside headway.toml",
        )

    def other_source(self, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
        """Where `other_key` takes a key from, for messages; "" where there is none."""
        return ""

    def account(self, key: str) -> str:
        """The part of a key that stays the same as long as the account does."""
        return key

    def identity(self, provider: ProviderConfig) -> str:
        """What answers there. The same rows are another job where it changes."""
        return self.name

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """The limits of a lane that has these by the configuration."""
        return limits

    def one_ahead(self, provider: ProviderConfig) -> bool:
        """Whether one unit of a lane goes first, and the others wait for it."""
        return False
