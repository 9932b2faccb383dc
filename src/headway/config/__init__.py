"""`headway.toml` and the environment → validated settings. Knows no command.

loading           where settings come from: flag over environment over file
trust             which file is used, and whether another user may have written it
toml_file         a parsed `headway.toml` → settings
toml_schema       the keys of each table, and their checks
checks            the check of one value
duration_setting  "1h30m" → seconds
settings          the settings: frozen records without any key
kinds             the registry of provider kinds
known_vendors     vendors that are known by name: address, variable of the key, limits
env_file          `.env` beside the file
api_keys          the key of a provider, and the lane that it opens
routing           a model's name → its provider
price_list        what models cost, if the `prices` extra is installed
starter           the first `headway.toml` that `headway init` writes
call_settings     limits and retries as arguments of Python functions
argument_checks   checks of arguments of Python functions
"""

from headway.config.api_keys import account_of, key_of, key_to_send, keys_of, lane_key, variables_of
from headway.config.duration_setting import parse_duration
from headway.config.env_file import read_env_file
from headway.config.kinds import KINDS, ProviderKind, host_of, identity_of, kind_of
from headway.config.loading import dotenv_of, load, with_agents, with_insecure_http, with_overrides
from headway.config.settings import Config, ProviderConfig, RetryConfig, RunConfig, WorkersConfig
from headway.config.trust import find

__all__ = [
    "KINDS",
    "Config",
    "ProviderConfig",
    "ProviderKind",
    "RetryConfig",
    "RunConfig",
    "WorkersConfig",
    "account_of",
    "dotenv_of",
    "find",
    "host_of",
    "identity_of",
    "key_of",
    "key_to_send",
    "keys_of",
    "kind_of",
    "lane_key",
    "load",
    "parse_duration",
    "read_env_file",
    "variables_of",
    "with_agents",
    "with_insecure_http",
    "with_overrides",
]
