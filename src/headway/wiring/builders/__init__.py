"""The builders of provider kinds: which classes carry the attempts of a kind. `config.kinds` says which kind has which.

provider_builder  the contract, and the builder of servers
python_builder    the builder of functions
"""

from __future__ import annotations

from typing import Final

from headway.config import ProviderConfig, kind_of
from headway.wiring.builders.provider_builder import Built, Check, HttpBuilder, ProviderBuilder
from headway.wiring.builders.python_builder import PythonBuilder

__all__ = ["BUILDERS", "Built", "Check", "ProviderBuilder", "builder_of"]

#: By the name that `ProviderKind.builder` has.
BUILDERS: Final[dict[str, ProviderBuilder]] = {"http": HttpBuilder(), "python": PythonBuilder()}


def builder_of(provider: ProviderConfig) -> ProviderBuilder:
    """What makes the adapter of a provider."""
    return BUILDERS[kind_of(provider).builder]
