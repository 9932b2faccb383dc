"""The contract of a provider kind: what can be known about it without starting anything.

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

#: The characters of keys: those that an HTTP header can carry.
KEY_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+")


class TableError(Exception):
    """A key of a provider's table is missing, or does not fit the others."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key, self.text = key, text


class ProviderKind(ABC):
    """One kind of provider, by its name in `kind = "…"`."""

    #: Which builder of `wiring.builders` makes its adapters.
    builder: ClassVar[str]
    #: Keys of `[providers.NAME]` that not every kind has, each with its check.
    keys: Mapping[str, Check]
    #: Whether requests and a key go to an address.
    is_server: bool = False
    #: Whether rows may have any form, because they are not requests to a model.
    takes_any_row: bool = False
    #: Whether a failure of one unit says nothing about the others.
    own_failures: bool = False
    #: Whether results report their cost: then the price list is not read, and a budget needs no price.
    reports_cost: bool = False
    #: Whether the same request may be answered from the cache.
    cacheable: bool = False
    #: Variables that hold parts of a key if `api_key_env` is not set.
    other_variables: tuple[str, ...] = ()

    def __init__(self, name: str, keys: Mapping[str, Check]) -> None:
        self.name, self.keys = name, keys

    @abstractmethod
    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in the fields that a checked table leaves out. Settings of this kind alone go into `kind_settings`.

        Returns the limits of a provider that sets none. Raises `TableError`.
        """

    @abstractmethod
    def host(self, provider: ProviderConfig) -> str:
        """Where its requests go, for the lane's key."""

    def other_key(
        self, provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]
    ) -> str:
        """Its key if the variable of `api_key_env` is not set; "" if it needs none."""
        if provider.key_optional:
            return ""
        raise ConfigError(
            f"provider '{provider.name}': the environment variable {provider.api_key_env} is not set",
            hint="export it or put it in .env beside headway.toml",
        )

    def other_source(self, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
        """Where `other_key` takes a key from, for messages; "" if there is none."""
        return ""

    def account(self, key: str) -> str:
        """The part of a key that stays the same as long as the account does."""
        return key

    def login(self, provider: ProviderConfig, environ: Mapping[str, str]) -> str:
        """What identifies the account that its program is logged in to; "" if it has none, or if the key does."""
        return ""

    def identity(self, provider: ProviderConfig) -> str:
        """What answers there: part of a job's identity."""
        return self.name

    def lane_limits(self, provider: ProviderConfig, limits: LaneLimits) -> LaneLimits:
        """A lane's limits, given the configured ones."""
        return limits

    def check_row(self, payload: Any, provider: ProviderConfig, root: str) -> None:  # noqa: B027 - most kinds take any row
        """Check a row that is not a request to a model; `root` is where relative paths begin. Raises UsageError."""

    def one_ahead(self, provider: ProviderConfig) -> bool:
        """Whether one unit of a lane runs first and the others wait for it."""
        return False
