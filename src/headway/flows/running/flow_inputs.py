"""What the user gives a flow: `--state FILE.json`, and `--arg key=value`, which wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headway.errors import UsageError
from headway.flows.spec import FlowSpec


def inputs_of(spec: FlowSpec, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are given. Raises UsageError if one that the flow needs is missing."""
    inputs = {**_from_file(flags.get("state")), **_from_args(flags.get("arg") or ())}
    missing = [name for name in spec.inputs if name not in inputs]
    if missing:
        raise UsageError(
            f"{spec.path.name} needs a value of {', '.join(missing)}",
            hint=f"give it with --arg {missing[0]}=VALUE",
        )
    return inputs


def _from_file(path: Path | str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        found = msgspec.json.decode(Path(path).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(f"--state {path}: {error}", hint="name a file with a JSON object") from None
    if not isinstance(found, dict):
        raise UsageError(f"--state {path} is not a JSON object", hint='write {"field": value}')
    return found


def _from_args(args: Iterable[str]) -> dict[str, Any]:
    """A value that is JSON is read as JSON; any other is a text."""
    values: dict[str, Any] = {}
    for arg in args:
        name, equals, text = arg.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {arg}: expected key=value", hint="such as --arg topic=trains")
        try:
            values[name] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError):
            values[name] = text
    return values
