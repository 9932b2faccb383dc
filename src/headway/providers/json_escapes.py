r"""Secrets that are written in JSON escapes: to every reader of JSON `\u0073k-…` is `sk-…`, and `a\/b` is `a/b`.

Pure functions on bytes, in linear time. An escape may have several backslashes: JSON that is quoted in JSON doubles them.
`scrubber` decides what is a secret, and when this is worth a look.
"""

from __future__ import annotations

import re
from typing import Final

#: A run of backslashes is looked at once, from its beginning: `\\++` gives nothing back.
_RUN: Final = rb"(?<!\\)\\++"
_ESCAPE: Final = re.compile(_RUN + rb'(?:u00([0-9a-fA-F]{2})|(["/]))')
#: What one of them ends with; one pass is quicker than two searches.
_SIGN: Final = re.compile(rb"\\(?:u00|/)")
#: One letter, escaped or not.
_LETTER: Final = re.compile(rb"\\++u00([0-9a-fA-F]{2})|\\*+(.)", re.DOTALL)
#: An escape that was cut off.
_BEGUN: Final = re.compile(_RUN + rb"(?:u[0-9a-fA-F]{0,3})?\Z")
#: What a letter takes at the most where the end of a text is searched: an escape with seven backslashes.
_LONGEST_LETTER: Final = 12


def has_escapes(data: bytes) -> bool:
    """Whether letters or slashes are escaped in it. Line ends, quotes and letters of other alphabets do not count."""
    return b"\\" in data and _SIGN.search(data) is not None


def unescaped(data: bytes) -> bytes:
    """The same with plain letters, quotes and slashes in place of their escapes. It need not be JSON any more."""
    return _ESCAPE.sub(_letter, data)


def _letter(match: re.Match[bytes]) -> bytes:
    return match[2] or chr(int(match[1], 16)).encode()


def escaped_pattern(secret: str) -> re.Pattern[bytes]:
    """What finds a secret of which any letter may be escaped."""
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
    """How many bytes at the end of `data` are the beginning of an escaped secret, or of an escape, that was cut off."""
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
