"""The content of a file as a few digits. A changed script makes other requests, so that no answer of the old one is taken over."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

#: Enough to distinguish the versions of a file.
DIGITS: Final = 16


def digest(*parts: bytes) -> str:
    """A few digits for some bytes."""
    return blake2b(b"\0".join(parts)).hexdigest()[:DIGITS]


def file_digest(path: Path) -> str:
    """The digits of a file's content; "" if it cannot be read."""
    try:
        status = path.stat()
        return _of_content(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return ""


@lru_cache(256)
def _of_content(path: Path, changed_ns: int, size: int) -> str:
    return digest(path.read_bytes())
