"""One file of a tree: its bytes, their hash, its lines.

A file is opened once, and only if it is a regular file: a link, a pipe or a device in its place is an error, never a hang. Lines are
counted as git counts them: they end at LF or CR LF. Only a file without any LF has lines that end at CR.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Final

import msgspec

#: Bytes that no text has, besides those that are above 0x7f.
_CONTROLS: Final = bytes((*range(0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))
#: A file in an old encoding with a larger share of them is no text.
_MOST_CONTROLS: Final = 0.01


class UnreadableSource(Exception):
    """A file that cannot be reviewed. The text is the reason, without the file's name."""


class SourceBytes(msgspec.Struct, frozen=True):
    """The content of a file, and its hash (SHA-256, in hexadecimal)."""

    data: bytes
    hash: str


def read_source(root: str, path: str, most_bytes: int) -> SourceBytes:
    """Read a file of the tree. Raises `UnreadableSource`, also for one that is longer than `most_bytes`."""
    try:
        descriptor = os.open(
            os.path.join(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        with open(descriptor, "rb", buffering=0) as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise UnreadableSource("not a regular file")
            if found.st_size > most_bytes:
                raise UnreadableSource(too_large(found.st_size, most_bytes))
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        raise UnreadableSource(f"cannot be read: {_why(error)}") from None
    return hashed(data, most_bytes)


def hashed(data: bytes, most_bytes: int) -> SourceBytes:
    """Bytes with their hash. Raises `UnreadableSource` if there are too many."""
    if len(data) > most_bytes:
        raise UnreadableSource(too_large(len(data), most_bytes))
    return SourceBytes(data, hashlib.sha256(data).hexdigest())


def too_large(size: int, most_bytes: int) -> str:
    """The reason of a file that is too large."""
    return f"too large: {size:,} bytes, the limit is {most_bytes:,}"


def source_lines(data: bytes) -> list[str]:
    """The lines of a text, without their ends. Raises `UnreadableSource` for bytes that are no text.

    UTF-8 first, UTF-16 by its mark, and otherwise Latin-1, which most older files are close to.
    """
    text = _decoded(data)
    lines = text.replace("\r\n", "\n").split("\n") if "\n" in text else text.split("\r")
    if not lines[-1]:
        lines.pop()
    return lines


def _decoded(data: bytes) -> str:
    try:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16")
        if b"\0" in data:
            raise UnreadableSource("binary")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        controls = len(data) - len(data.translate(None, _CONTROLS))
        if controls > _MOST_CONTROLS * len(data):
            raise UnreadableSource("binary") from None
        return data.decode("latin-1")


def _why(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return "its name has a zero byte"
