"""The builders of provider kinds: which classes carry the attempts of a kind. `config.kinds` says which kind has which.

base    the contract
http    servers
python  functions
"""

from __future__ import annotations

from typing import Final

from headway.config import ProviderConfig, kind_of
from headway.wiring.kinds.base import Built, Check, ProviderBuilder
from headway.wiring.kinds.http import HttpBuilder
from headway.wiring.kinds.python import PythonBuilder

__all__ = ["BUILDERS", "Built", "Check", "ProviderBuilder", "builder_of"]

#: By the name that `ProviderKind.builder` has.
BUILDERS: Final[dict[str, ProviderBuilder]] = {"http": HttpBuilder(), "python": PythonBuilder()}


def builder_of(provider: ProviderConfig) -> ProviderBuilder:
    """What makes the adapter of a provider."""
    return BUILDERS[kind_of(provider).builder]
