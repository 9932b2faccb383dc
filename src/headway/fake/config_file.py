"""Reads a configuration from a YAML file or a mapping. Errors are one line that names the key."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from headway.errors import ConfigError
from headway.fake.fake_config import (
    AccountConfig,
    FakeConfig,
    Vendor,
    accounts_by_key,
    decode_hook,
    known_keys,
)

_REFERENCE = "docs/reference/fake.md has an example"
_VALUES = ["auto", "openai", "anthropic", "none", "minute", "sliding", "fixed", "refuse", "admit", "ms"]
_VALUES += [*get_args(Vendor), "reserve", "settle", "used"]


def load(path: Path) -> FakeConfig:
    """Read and check a YAML file."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_ConfigLoader)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file", hint=_REFERENCE) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file", hint="the configuration is a YAML file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f":{where.line + 1}" if where else ""
        raise ConfigError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    return read(data, str(path))


def read(data: object, name: str = "config") -> FakeConfig:
    """Check a mapping, as YAML gives it. Errors begin with `name`."""
    if not isinstance(data, dict):
        raise ConfigError(f"{name}: expected a mapping, with 'accounts' for example", hint=_REFERENCE)
    where = ""
    try:
        accounts = data.get("accounts")
        for account, settings in accounts.items() if isinstance(accounts, dict) else ():
            where = f"accounts.{account}"
            msgspec.convert(settings, AccountConfig, dec_hook=decode_hook)
        where = ""
        config = msgspec.convert(data, FakeConfig, dec_hook=decode_hook)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name}: {_explain(str(error), where)}") from None
    accounts_by_key(config)
    return config


class _ConfigLoader(yaml.SafeLoader):
    """YAML in which a duplicate key is an error. Plain YAML keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"duplicate key '{key_node.value}'", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def _explain(text: str, account: str) -> str:
    """msgspec's message, with the place in front and the nearest known name for an unknown one."""
    what, _, place = text.partition(" - at `$")
    place = (account + place.rstrip("`")).lstrip(".")
    message = f"{place}: {what}" if place else what
    for unknown, known in (("unknown field `", known_keys()), ("Invalid enum value '", _VALUES)):
        _, separator, rest = what.partition(unknown)
        if separator:
            near = difflib.get_close_matches(rest.rstrip("`'"), known, n=1)
            message += f"; did you mean '{near[0]}'?" if near else ""
    return message
