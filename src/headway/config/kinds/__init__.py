"""The registry of provider kinds. Each kind says in one file how its table is read, how it counts, what it costs.

base     the contract
servers  the APIs of models: openai, anthropic, azure, gemini
bedrock  a server with AWS's credentials
python   functions
"""

from __future__ import annotations

from typing import Final

from headway.config.checks import expected
from headway.config.kinds.bedrock import BEDROCK
from headway.config.kinds.provider_kind import ProviderKind, TableError
from headway.config.kinds.python import PYTHON
from headway.config.kinds.servers import SERVERS
from headway.config.settings import ProviderConfig

__all__ = [
    "COMING",
    "KINDS",
    "ProviderKind",
    "TableError",
    "host_of",
    "identity_of",
    "kind_name",
    "kind_of",
    "why_not",
]

#: By name, in the order in which messages list them.
KINDS: Final[dict[str, ProviderKind]] = {kind.name: kind for kind in (*SERVERS, BEDROCK, PYTHON)}
#: Kinds that DESIGN knows and the code does not yet: the error says "not yet", not "unknown".
COMING: Final = ("claude", "codex", "gemini-cli", "command")


def kind_of(provider: ProviderConfig) -> ProviderKind:
    """The record of a provider's kind."""
    return KINDS[provider.kind]


def host_of(provider: ProviderConfig) -> str:
    """Where a provider's requests go: host and port of a server, the name of a function."""
    return kind_of(provider).host(provider)


def identity_of(provider: ProviderConfig) -> str:
    """What answers there. The same rows are another job where it changes."""
    return kind_of(provider).identity(provider)


def kind_name(value: object) -> str:
    """A kind of provider that works today: the check of the key `kind`."""
    known = ", ".join(KINDS)
    if not isinstance(value, str):
        raise expected(f"a kind of provider: {known}", value)
    if value in COMING:
        raise ValueError(f"kind '{value}' is not there yet; {known} are")
    if value not in KINDS:
        raise ValueError(f"expected a kind of provider: {known}")
    return value


def why_not(kind: ProviderKind, key: str) -> str:
    """Why a provider of a kind has no such key in its table; "" where it may have it."""
    owners = [other for other in KINDS.values() if key in other.keys]
    if not owners or kind in owners:
        return ""
    names = " or ".join(f'"{owner.name}"' for owner in owners)
    all_servers = all(owner.is_server for owner in owners)
    if kind.is_server and all_servers:
        return f"only a provider of kind = {names} has one"
    whose = "a server has one" if all_servers else f"it is for kind = {names}"
    return f"a provider of kind {kind.name} has none; {whose}"
