"""The key of a provider, and the lane that it opens. No message and no lane key ever holds the key itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from importlib.util import find_spec
from typing import Final

from headway.config.kinds import host_of
from headway.config.settings import Config, ProviderConfig, is_plain_http
from headway.config.vendors import ALIASES
from headway.errors import ConfigError

#: What an HTTP header can carry and every provider's keys are made of.
_KEY: Final = re.compile(r"[\x21-\x7e]+")
#: Access key, secret, and the token of a session, which may be missing.
AWS_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
#: Before the name of an AWS profile: its credentials are AWS's own library's to find. No variable's value begins so.
AWS_CHAIN: Final = "aws-chain:"
#: Enough to tell accounts apart, too little to find a key by.
ACCOUNT_DIGITS: Final = 10


def key_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """A provider's key: the process's environment wins over `.env`; "" where the server needs none."""
    name = provider.api_key_env
    if provider.key_withheld:
        raise ConfigError(
            f"provider '{provider.name}': {name} is not sent to {host_of(provider)} unless the config says so",
            hint=f'add to [providers.{provider.name}]: api_key_env = "{name}", or the variable with that host\'s own key',
        )
    key = _found(name, environ, dotenv) or _found(ALIASES.get(name, ""), environ, dotenv)
    if not key:
        if provider.kind == "bedrock":
            return _aws(provider, environ, dotenv)
        if provider.key_optional:
            return ""
        raise ConfigError(
            f"provider '{provider.name}': the environment variable {name} is not set",
            hint="export it or put it in .env beside headway.toml",
        )
    if not _KEY.fullmatch(key):
        raise ConfigError(
            f"provider '{provider.name}': the key in {name} holds a space, a line break or another character "
            "that no key has",
            hint="set it again, without quotes or anything around it",
        )
    return key


def key_to_send(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """A provider's key, for requests. Raises where it would go to another machine without encryption, unless allowed."""
    key = key_of(provider, environ, dotenv)
    if key and not provider.insecure_http and is_plain_http(provider.base_url):
        raise ConfigError(
            f"provider '{provider.name}': its key would be sent to {provider.base_url} without encryption",
            hint="write https:// in its base_url, or allow it with --insecure-http or with insecure_http = true "
            f"in [providers.{provider.name}]",
        )
    return key


def keys_of(config: Config, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> list[str]:
    """The keys of all providers, whether they are used or not: what must not be shown."""
    names: set[str] = set()
    for provider in config.providers.values():
        names |= {provider.api_key_env, ALIASES.get(provider.api_key_env, "")}
        names |= set(AWS_VARIABLES) if provider.kind == "bedrock" else set()
    return [
        source[name].strip() for name in sorted(names) for source in (environ, dotenv) if source.get(name)
    ]


def variables_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """Which variable a provider's key was read from, or which of them; "" where none is set, or none is sent."""
    if provider.key_withheld:
        return ""
    for name in filter(None, (provider.api_key_env, ALIASES.get(provider.api_key_env, ""))):
        if _found(name, environ, dotenv):
            return name
    if provider.kind == "bedrock":
        both = all(_found(name, environ, dotenv) for name in AWS_VARIABLES[:2])
        return " and ".join(AWS_VARIABLES[:2]) if both else "AWS's own profile or role"
    return ""


def place_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """Where a provider's key comes from, for people: never the key."""
    names = [provider.api_key_env, ALIASES.get(provider.api_key_env, "")]
    if provider.kind == "bedrock":
        names.append(AWS_VARIABLES[0])
    for name in filter(None, names):
        for source, where in ((environ, "environment"), (dotenv, ".env")):
            if source.get(name):
                return f"{name} is set ({where})"
    return "AWS's own library is asked for it"


def _found(name: str, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    return environ.get(name) or dotenv.get(name) or ""


def _aws(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """AWS's credentials as one key, `ACCESS:SECRET` or `ACCESS:SECRET:TOKEN`; or who else is to be asked for them.

    The environment's, then `.env`'s: the parts of one credential are never taken from two places.
    """
    for source in (environ, dotenv):
        parts = [source.get(name, "") for name in AWS_VARIABLES]
        if parts[0] and parts[1]:
            if not all(_KEY.fullmatch(part) for part in parts if part):
                raise ConfigError(
                    f"provider '{provider.name}': one of {', '.join(AWS_VARIABLES)} holds a character that no key has",
                    hint="set it again, without quotes or anything around it",
                )
            return ":".join(part for part in parts if part)
    if find_spec("botocore") is not None:
        return AWS_CHAIN + environ.get("AWS_PROFILE", "default")
    raise ConfigError(
        f"provider '{provider.name}': neither {provider.api_key_env} nor {AWS_VARIABLES[0]} and {AWS_VARIABLES[1]} are set",
        hint="export them, or put them in .env beside headway.toml; profiles, SSO and roles want 'headway[bedrock]'",
    )


def lane_key(provider: ProviderConfig, model: str, key: str, salt: bytes) -> str:
    """The name of a real rate-limit scope: `openai|127.0.0.1:8900|3fa2c1d09b|gpt-x`.

    Kind, host, account, and the model or the pool that it shares. The account is a hash of the whole credential
    with a salt of the store's: two keys that begin alike are two accounts, and no table finds a key by its hash.
    """
    if (
        provider.kind == "bedrock"
    ):  # A session's token changes every hour, the account that it opens does not.
        key = ":".join(key.split(":")[:2])
    account = blake2b(key.encode(), key=salt).hexdigest()[:ACCOUNT_DIGITS]
    return f"{provider.kind}|{host_of(provider)}|{account}|{provider.pool or model}"
