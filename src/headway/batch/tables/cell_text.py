"""A value of a table as text: what a template puts in, and what a cell of a .csv says."""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: How a cell begins that a spreadsheet takes for a formula, or may once it has dropped the first character (OWASP, "CSV
#: Injection"): also in the wide forms that East Asian input methods write.
#: Blank and invisible characters in front are dropped by some programs.
_FORMULA: Final = re.compile("[\\s\\x00-\\x20\u200b\ufeff]*[=+@＝＋－＠-]|[\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def text_of(value: object) -> str:
    """A text as it is, nothing for null, `true` and `false`, numbers in digits, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode().strip('"')


def without_formula(text: str) -> str:
    """A text that no spreadsheet takes for a formula: with an apostrophe in front where it would. Numbers stay numbers."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
