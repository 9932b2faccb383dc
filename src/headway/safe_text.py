"""Text that others wrote, made safe to show.

A provider's error, a model's answer, a file's name or a worker's output may hold escape sequences. Printed as they are,
they change a terminal's title, hide text, or turn its order around. So control characters (C0 but for the line break and
the tab, DEL, C1) and the marks that change the direction of text are written out, as `\\x1b` or `\\u202e`.
"""

from __future__ import annotations

import re
from typing import Final

#: C0 but for tab and line feed, DEL, C1; marks of direction; line and paragraph separators; halves of surrogate pairs.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

_LONE_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def has_lone_surrogate(text: str) -> bool:
    """Whether it has half of a surrogate pair, which no encoding can write."""
    return not text.isascii() and _LONE_SURROGATES.search(text) is not None


def escape_lone_surrogates(text: str) -> str:
    """The text with halves of surrogate pairs written out, as `\\ud800`."""
    return text if text.isascii() else _LONE_SURROGATES.sub(_escape, text)


def visible(text: str) -> str:
    """The text with everything that would control a terminal written out."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def without_breaks(text: str) -> str:
    """The same for a line: line breaks in it are written out, too."""
    return visible(text).replace("\n", "\\n")


def one_line(text: str) -> str:
    """The same for a text inside of a line: line breaks and tabs are written out, too."""
    return without_breaks(text).replace("\t", "\\t")


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def escaped(json: str) -> str:
    """JSON that means the same and controls nothing: JSON itself escapes only C0."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", json)
