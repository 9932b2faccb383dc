"""The registry of provider kinds. Each kind's file says how its table is read, how it counts and what it costs.

provider_kind  the contract
servers        APIs of models over HTTP: openai, anthropic, azure, gemini
bedrock        a server with AWS credentials
python         functions
commands       programs and agent CLIs
eval_programs  what an eval file describes itself: code, scripts, plain HTTP, echo

A new kind that an existing builder can make (every server) is one file here and one entry in `KINDS`. A kind with an adapter of
its own also has a builder, entered in `wiring.builders`. The two halves cannot be one file: settings are read below
`providers` and `executors` (adapters take settings as arguments), while a builder imports adapters. One file for both would need
imports by name, or a registry that is empty until `wiring` is imported. `tests/wiring/echo_kind.py` has both halves of a kind.
"""

from __future__ import annotations

from typing import Final

from headway.config.checks import expected
from headway.config.kinds.bedrock import BEDROCK
from headway.config.kinds.eval_programs import EVAL_PROGRAMS
from headway.config.kinds.programs import COMMANDS
from headway.config.kinds.provider_kind import ProviderKind, TableError
from headway.config.kinds.python import PYTHON
from headway.config.kinds.servers import SERVERS
from headway.config.near_names import near_name
from headway.config.settings import ProviderConfig

__all__ = [
    "EVAL_KINDS",
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
KINDS: Final[dict[str, ProviderKind]] = {kind.name: kind for kind in (*SERVERS, BEDROCK, PYTHON, *COMMANDS)}
#: Kinds that no table of headway.toml can have.
EVAL_KINDS: Final[dict[str, ProviderKind]] = {kind.name: kind for kind in EVAL_PROGRAMS}


def kind_of(provider: ProviderConfig) -> ProviderKind:
    """The record of a provider's kind."""
    return KINDS.get(provider.kind) or EVAL_KINDS[provider.kind]


def host_of(provider: ProviderConfig) -> str:
    """Where a provider's requests go: host and port of a server, or the name of a function."""
    return kind_of(provider).host(provider)


def identity_of(provider: ProviderConfig) -> str:
    """What answers there: part of a job's identity."""
    return kind_of(provider).identity(provider)


def kind_name(value: object) -> str:
    """The check of the key `kind`: a kind that exists."""
    known = ", ".join(KINDS)
    if not isinstance(value, str):
        raise expected(f"a kind of provider: {known}", value)
    if value not in KINDS:
        near = near_name(value, KINDS)
        raise ValueError(
            f"expected a kind of provider: {known}" + (f"; did you mean '{near}'?" if near else "")
        )
    return value


def why_not(kind: ProviderKind, key: str) -> str:
    """Why a provider of this kind may not set a key; "" if it may."""
    owners = [other for other in KINDS.values() if key in other.keys]
    if not owners or kind in owners:
        return ""
    names = " or ".join(f'"{owner.name}"' for owner in owners)
    all_servers = all(owner.is_server for owner in owners)
    if kind.is_server and all_servers:
        return f"only for kind = {names}"
    whose = "it is for servers" if all_servers else f"it is for kind = {names}"
    return f"not for kind {kind.name}; {whose}"
