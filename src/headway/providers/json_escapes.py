r"""Secrets that are written in JSON escapes: a JSON reader takes `\u0073k-…` for `sk-…`, and `a\/b` for `a/b`.

Pure functions on bytes, in linear time. An escape may have several backslashes: JSON that is quoted in JSON doubles them.
`scrubber` decides what a secret is, and when to search here.
"""

from __future__ import annotations

import re
from typing import Final

#: A run of backslashes, matched once from its beginning: `\\++` does not backtrack.
_RUN: Final = rb"(?<!\\)\\++"
_ESCAPE: Final = re.compile(_RUN + rb'(?:u00([0-9a-fA-F]{2})|(["/]))')
#: How an escape of interest ends. One pass is faster than two searches.
_SIGN: Final = re.compile(rb"\\(?:u00|/)")
#: One character, escaped or not.
_LETTER: Final = re.compile(rb"\\++u00([0-9a-fA-F]{2})|\\*+(.)", re.DOTALL)
#: An escape that was cut off at the end.
_BEGUN: Final = re.compile(_RUN + rb"(?:u[0-9a-fA-F]{0,3})?\Z")
#: The most bytes that one character takes at the end of a text: an escape with seven backslashes.
_LONGEST_LETTER: Final = 12


def has_escapes(data: bytes) -> bool:
    """Whether ASCII letters or slashes are escaped. Line ends, quotes and other alphabets do not count."""
    return b"\\" in data and _SIGN.search(data) is not None


def unescaped(data: bytes) -> bytes:
    """The data with letters, quotes and slashes in place of their escapes. The result may not be valid JSON."""
    return _ESCAPE.sub(_letter, data)


def _letter(match: re.Match[bytes]) -> bytes:
    return match[2] or chr(int(match[1], 16)).encode()


def escaped_pattern(secret: str) -> re.Pattern[bytes]:
    """A pattern for a secret in which any character may be escaped."""
    return re.compile(
        b"".join(_letter_pattern(letter, first=not place) for place, letter in enumerate(secret))
    )


def _letter_pattern(letter: str, *, first: bool) -> bytes:
    plain = re.escape(letter.encode("utf-8", "surrogateescape"))
    run = _RUN if first else rb"\\++"
    if letter in '"/':
        plain = rb"(?:%b)?%b" % (run, plain)
    if ord(letter) > 0xFF:
        return plain
    return rb"(?:%b|%bu00(?i:%02x))" % (plain, run, ord(letter))


def cut_secret(secret: bytes, data: bytes) -> int:
    """How many bytes at the end of `data` belong to an escaped secret, or to an escape, that was cut off."""
    tail = data[-_LONGEST_LETTER * len(secret) :]
    if b"\\" not in tail:
        return 0
    begun = _BEGUN.search(tail)
    end = len(tail) if begun is None else begun.start()
    plain, starts = bytearray(), []
    for match in _LETTER.finditer(tail, 0, end):
        letter = chr(int(match[1], 16)).encode() if match[1] else match[2]
        plain += letter
        starts += [match.start()] * len(letter)
    length = next((n for n in range(len(secret) - 1, 0, -1) if plain.endswith(secret[:n])), 0)
    return len(tail) - (starts[len(plain) - length] if length else end)
