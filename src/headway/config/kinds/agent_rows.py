"""The key `"agent"` of a row: settings of its unit, by their names in headway.toml."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from headway.config import checks
from headway.config.near_names import near_name
from headway.config.settings import CommandConfig
from headway.errors import UsageError


def _text(value: object) -> str:
    """A text; "" takes back what headway.toml sets."""
    return "" if value == "" else checks.text(value)


#: The keys of `"agent"`, and what each may be.
OVERRIDES: Final[Mapping[str, Callable[[Any], object]]] = {
    "directory": checks.text,
    "args": checks.arguments,
    "max_turns": checks.count,
    "allowed_tools": checks.arguments,
    "permission_mode": _text,
    "max_unit_cost": checks.amount,
    "model": _text,
}


def own_settings(row: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a row. Raises UsageError if a key or a value does not fit."""
    own = row.get("agent", {})
    if not isinstance(own, dict):
        raise UsageError('"agent" must be an object: settings of this unit, such as {"max_turns": 20}')
    for key, value in own.items():
        check = OVERRIDES.get(key)
        if check is None:
            near = near_name(key, OVERRIDES)
            advice = f'; did you mean "{near}"?' if near else f"; it has {', '.join(OVERRIDES)}"
            raise UsageError(f'"agent" has no key "{key}"{advice}')
        try:
            check(value)
            if "\0" in "".join(value if isinstance(value, list) else ()):
                raise ValueError("an argument of a program cannot have a null character")
        except ValueError as error:
            raise UsageError(f'"agent": {key}: {error}') from None
    return own


def working_directory(settings: CommandConfig, own: Mapping[str, Any], root: str) -> str:
    """The directory of a unit. Raises UsageError if it does not exist."""
    named = own.get("directory", settings.directory)
    directory = os.path.normpath(os.path.join(root, os.path.expanduser(named)))
    if not os.path.isdir(directory):
        raise UsageError(f'"directory": {named} is not a directory')
    return directory
