"""A value of a table as text, for prompts and for cells of a .csv file."""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: The beginning of a cell that a spreadsheet treats as a formula, or may after it has dropped the first character (OWASP, "CSV
#: Injection"), including the wide forms of East Asian input methods. Some programs drop blank and invisible characters
#: in front.
_FORMULA: Final = re.compile("[\\s\\x00-\\x20\u200b\ufeff]*[=+@＝＋－＠-]|[\t\r\n]")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def text_of(value: object) -> str:
    """Texts unchanged, null as an empty text, everything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return msgspec.json.encode(value).decode().strip('"')


def without_formula(text: str) -> str:
    """The text, with an apostrophe in front if a spreadsheet would treat it as a formula. Numbers stay numbers."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
