"""`headway.toml` and the environment → validated settings. Imports the core and the errors, and knows no command.

settings    what a configuration is once it is read: frozen records, never a key among them
durations   "1h30m" → seconds
checks      what one value may be, and what to say where it is not
kinds       the registry of provider kinds: how a kind's table is read, how it counts, what it costs
schema      which keys there are, table by table
file        a parsed `headway.toml` → settings
env_file    `.env` beside it
keys        the key of a provider, and the lane that it opens
routing     a model's name → the provider that is asked
loading     where the settings come from: flag over environment over file
trust       which file is used, and whether another user may have written it
price_list  what models cost, where the `prices` extra is installed
call_settings    limits and retries as Python programs write them
argument_checks  what an argument of a Python function may be, and what to say where it is not
starter     a first `headway.toml` from the keys that are there
"""

from headway.config.api_keys import key_of, key_to_send, keys_of, lane_key, variables_of
from headway.config.duration_setting import parse_duration
from headway.config.env_file import read_env_file
from headway.config.kinds import KINDS, ProviderKind, host_of, identity_of, kind_of
from headway.config.loading import dotenv_of, load, with_insecure_http, with_overrides
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
    "with_insecure_http",
    "with_overrides",
]
