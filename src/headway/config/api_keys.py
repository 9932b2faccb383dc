"""The key of a provider, and the lane that it opens. No message and no lane key contains the key itself."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from headway.config.kinds import host_of, kind_of
from headway.config.kinds.provider_kind import KEY_CHARACTERS
from headway.config.known_vendors import ALIASES
from headway.config.settings import Config, ProviderConfig, is_plain_http
from headway.errors import ConfigError

#: Enough to distinguish accounts, too little to find a key.
ACCOUNT_DIGITS: Final = 10


def key_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """A provider's key: from the environment, then from `.env`; "" if the server needs none."""
    name = provider.api_key_env
    if provider.key_withheld:
        raise ConfigError(
            f"provider '{provider.name}': {name} is not sent to {host_of(provider)} unless the config says so",
            hint=f'add to [providers.{provider.name}]: api_key_env = "{name}", or the variable with that host\'s own key',
        )
    key = _found(name, environ, dotenv) or _found(ALIASES.get(name, ""), environ, dotenv)
    if not key:
        return kind_of(provider).other_key(provider, environ, dotenv)
    if not KEY_CHARACTERS.fullmatch(key):
        raise ConfigError(
            f"provider '{provider.name}': the key in {name} holds a space, a line break or another character "
            "that is not allowed in a key",
            hint="set it again, without quotes or anything around it",
        )
    return key


def key_to_send(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """A provider's key, for requests. Raises if it would go to another machine without encryption, unless that is allowed."""
    key = key_of(provider, environ, dotenv)
    if key and not provider.insecure_http and is_plain_http(provider.base_url):
        raise ConfigError(
            f"provider '{provider.name}': its key would be sent to {provider.base_url} without encryption",
            hint="write https:// in its base_url, or allow it with --insecure-http or with insecure_http = true "
            f"in [providers.{provider.name}]",
        )
    return key


def keys_of(config: Config, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> list[str]:
    """The keys of all providers, used or not: none may be shown."""
    names: set[str] = set()
    for provider in config.providers.values():
        names |= {provider.api_key_env, ALIASES.get(provider.api_key_env, "")}
        names |= set(kind_of(provider).other_variables)
    return [
        source[name].strip() for name in sorted(names) for source in (environ, dotenv) if source.get(name)
    ]


def variables_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """The variable, or variables, that a provider's key was read from; "" if none is set, or the key is withheld."""
    if provider.key_withheld:
        return ""
    for name in filter(None, (provider.api_key_env, ALIASES.get(provider.api_key_env, ""))):
        if _found(name, environ, dotenv):
            return name
    return kind_of(provider).other_source(environ, dotenv)


def key_source(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """Where a provider's key comes from, for messages."""
    names = [provider.api_key_env, ALIASES.get(provider.api_key_env, "")]
    names += kind_of(provider).other_variables[:1]
    for name in filter(None, names):
        for source, where in ((environ, "environment"), (dotenv, ".env")):
            if source.get(name):
                return f"{name} is set ({where})"
    return "AWS's own library finds it"


def _found(name: str, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    return environ.get(name) or dotenv.get(name) or ""


def account_of(provider: ProviderConfig, environ: Mapping[str, str], salt: bytes) -> str:
    """The account that the program of a provider is logged in to, as a hash; "" if it has none that others may share."""
    login = kind_of(provider).login(provider, environ)
    return blake2b(login.encode(), key=salt).hexdigest()[:ACCOUNT_DIGITS] if login else ""


def lane_key(provider: ProviderConfig, model: str, key: str, salt: bytes) -> str:
    """The key of a lane, a real rate-limit scope: `openai|127.0.0.1:8900|3fa2c1d09b|gpt-x`.

    Kind, host, account, and the model or its pool. The account is a hash of the whole credential with the store's salt: two
    keys with the same beginning are two accounts, and no precomputed table finds a key by its hash.
    """
    account = blake2b(kind_of(provider).account(key).encode(), key=salt).hexdigest()[:ACCOUNT_DIGITS]
    return f"{provider.kind}|{host_of(provider)}|{account}|{provider.pool or model}"
