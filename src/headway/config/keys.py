"""The key of a provider, and the lane that it opens. No message and no lane key ever holds the key itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from headway.config.settings import ProviderConfig
from headway.errors import ConfigError

#: What an HTTP header can carry and every provider's keys are made of.
_KEY: Final = re.compile(r"[\x21-\x7e]+")
#: Enough to tell accounts apart, too little to find a key by.
ACCOUNT_DIGITS: Final = 10


def key_of(provider: ProviderConfig, environ: Mapping[str, str], dotenv: Mapping[str, str]) -> str:
    """A provider's key: the process's environment wins over `.env`; "" where the server needs none."""
    name = provider.api_key_env
    key = environ.get(name) or dotenv.get(name) or ""
    if not key:
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


def lane_key(provider: ProviderConfig, model: str, key: str, salt: bytes) -> str:
    """The name of a real rate-limit scope: `openai|127.0.0.1:8900|3fa2c1d09b|gpt-x`.

    Kind, host, account, and the model or the pool that it shares. The account is a hash of the whole credential
    with a salt of the store's: two keys that begin alike are two accounts, and no table finds a key by its hash.
    """
    account = blake2b(key.encode(), key=salt).hexdigest()[:ACCOUNT_DIGITS]
    return f"{provider.kind}|{provider.host}|{account}|{provider.pool or model}"
