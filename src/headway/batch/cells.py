"""A value of a table as text: what a template puts in, and what a cell of a .csv says."""

from __future__ import annotations

import msgspec


def text_of(value: object) -> str:
    """A text as it is, nothing for null, `true` and `false`, numbers in digits, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode().strip('"')
