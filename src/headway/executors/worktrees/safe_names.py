"""The id of a unit → a name that can be a folder and the last part of a branch.

A plain id stays as it is. Any other id loses the characters that paths or git's rules for refs do not allow, and gets a hash, so
that no two ids get one name. An id that looks as if it had such a hash gets one, too.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final

#: 48 bits: among 100,000 ids two share a hash with a probability of 0.002 %.
_HASH_BYTES: Final = 6
_LONGEST: Final = 80
_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_HASHED: Final = re.compile(r".*-[0-9a-f]{12}", re.ASCII)
_OTHER: Final = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


def safe_name(text: str) -> str:
    """The name of an id: plain characters, at most 93 of them."""
    is_plain = (
        bool(_PLAIN.fullmatch(text))
        and len(text) <= _LONGEST
        and ".." not in text
        and not text.endswith((".", ".lock"))
        and not _HASHED.fullmatch(text)
    )
    return text if is_plain else hashed_name(text)


def hashed_name(text: str, salt: str = "") -> str:
    """A name with a hash of the text. `salt` makes another one of the same text."""
    digest = blake2b(f"{salt}\0{text}".encode(errors="surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
    kept = _OTHER.sub("-", text).replace("..", "-").strip("-.")[: _LONGEST - 1 - 2 * _HASH_BYTES].strip("-.")
    return f"{kept}-{digest}" if kept else f"unit-{digest}"
