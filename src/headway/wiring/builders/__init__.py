"""The registry of builders: they make the adapters of provider kinds. `ProviderKind.builder` names the one of a kind.

provider_builder  the contract, and the builder of servers
python_builder    the builder of functions
command_builder   the builder of programs and agent CLIs
eval_builders     the builders of what an eval file describes itself
"""

from __future__ import annotations

from typing import Final

from headway.config import ProviderConfig, kind_of
from headway.wiring.builders.command_builder import CommandBuilder
from headway.wiring.builders.eval_builders import CodeBuilder, EchoBuilder, ScriptBuilder, UrlBuilder
from headway.wiring.builders.provider_builder import Built, Check, HttpBuilder, ProviderBuilder
from headway.wiring.builders.python_builder import PythonBuilder

__all__ = ["BUILDERS", "Built", "Check", "ProviderBuilder", "builder_of"]

#: By the name in `ProviderKind.builder`.
BUILDERS: Final[dict[str, ProviderBuilder]] = {
    "http": HttpBuilder(),
    "python": PythonBuilder(),
    "command": CommandBuilder(),
    "code": CodeBuilder(),
    "script": ScriptBuilder(),
    "url": UrlBuilder(),
    "echo": EchoBuilder(),
}


def builder_of(provider: ProviderConfig) -> ProviderBuilder:
    """The builder of a provider."""
    return BUILDERS[kind_of(provider).builder]
