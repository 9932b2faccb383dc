"""A file that a row attaches: opened, checked and hashed. Nothing is sent and nothing is written here.

The path may come from an input that others wrote. So only regular files are read (links are followed), up to a ceiling, and only
images and PDFs are accepted, by their content.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from headway.batch.attachments.media import Media, media_of
from headway.errors import UsageError

#: No API takes a larger file in a request.
MOST_BYTES: Final = 100_000_000
DIGEST_BYTES: Final = 32
#: Files whose facts are remembered.
REMEMBERED: Final = 10_000
_READ_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)  # fmt: skip
_KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class AttachedFile(msgspec.Struct, frozen=True, gc=False):
    """A checked file: where it is, the digest of its content, and what it is."""

    path: str
    digest: str
    size: int
    media: Media


def read_file(path: str | Path) -> tuple[AttachedFile, bytes]:
    """A file and its content. Raises a UsageError whose message says what is wrong, without the path."""
    data = _content(str(path))
    if not data:
        raise UsageError("is empty")
    digest = blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
    return AttachedFile(str(path), digest, len(data), media_of(data)), data


def _content(path: str) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        opened = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise UsageError("does not exist") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {_reason(error)}") from None
    try:
        _must_be_readable(os.fstat(opened))
        return _read(opened)
    except OSError as error:
        raise UsageError(f"cannot be read: {_reason(error)}") from None
    finally:
        os.close(opened)


def _must_be_readable(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
        raise UsageError(f"is {kind}, not a file")
    if status.st_size > MOST_BYTES:
        raise UsageError(
            f"has {status.st_size / 1e6:,.0f} MB, and no API takes more than {MOST_BYTES / 1e6:.0f} MB"
        )


def _read(opened: int) -> bytes:
    pieces, left = [], MOST_BYTES
    while piece := os.read(opened, min(left + 1, _READ_BYTES)):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            raise UsageError("grew while it was read")
    return b"".join(pieces)


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()


class FileFacts:
    """Files by path, each read once as long as it is remembered. Relative paths start at `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: A path → the file, or what is wrong with it.
        self._known: OrderedDict[str, AttachedFile | str] = OrderedDict()

    def file(self, path: str) -> AttachedFile:
        """A checked file. Raises a UsageError that names it."""
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._read(path)
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        if isinstance(found, str):
            raise UsageError(found)
        return found

    def _read(self, path: str) -> AttachedFile | str:
        try:
            return read_file(self._folder / path)[0]
        except UsageError as error:
            return f"{path if len(path) <= 200 else path[:200] + '…'} {error.message}"

    def content(self, file: AttachedFile) -> bytes:
        """The content of a checked file. Raises if it has changed since."""
        try:
            again, data = read_file(file.path)
        except UsageError:
            again, data = None, b""
        if again is None or again.digest != file.digest:
            raise UsageError(f"{file.path} changed while the input was read", hint="run the command again")
        return data

    def is_inside(self, file: AttachedFile) -> bool:
        """Whether a file is below the folder, after links are followed."""
        return Path(os.path.realpath(file.path)).is_relative_to(os.path.realpath(self._folder))
