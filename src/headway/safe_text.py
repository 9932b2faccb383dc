"""Makes text from outside safe to show.

A provider's error, a model's answer, a file name or a worker's output may contain escape sequences. Printed unchanged,
they can change the title of a terminal, hide text, or reverse its order. So control characters (C0 except line feed and
tab, DEL, C1) and marks that change the direction of text are escaped, as `\\x1b` or `\\u202e`.
"""

from __future__ import annotations

import re
from typing import Final

#: C0 except tab and line feed, DEL, C1; marks of direction; line and paragraph separators; lone surrogates.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def has_lone_surrogate(text: str) -> bool:
    """Whether the text has half of a surrogate pair, which no encoding can write."""
    return not text.isascii() and _LONE_SURROGATES.search(text) is not None


def escape_lone_surrogates(text: str) -> str:
    """The text with lone surrogates escaped, as `\\ud800`."""
    return text if text.isascii() else _LONE_SURROGATES.sub(_escape, text)


def visible(text: str) -> str:
    """The text with everything escaped that would control a terminal. Line breaks and tabs stay."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def without_breaks(text: str) -> str:
    """Like `visible`, with line breaks escaped too: the result is one line."""
    return visible(text).replace("\n", "\\n")


def one_line(text: str) -> str:
    """Like `visible`, with line breaks and tabs escaped too: the result fits into a line."""
    return without_breaks(text).replace("\t", "\\t")


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def escaped(json: str) -> str:
    """The same JSON value with every unsafe character escaped: JSON itself escapes only C0."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", json)
