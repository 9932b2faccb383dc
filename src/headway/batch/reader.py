"""Reads a file of lines as (line number, bytes), in bounded memory, and computes the digest of its content.

Owns files, compression and line ends; does not parse lines. Compression is recognised by the first bytes, so that standard
input may be compressed, too. The digest is that of the decompressed bytes: a file and its .gz are the same job.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, Final, cast

from headway.errors import ConfigError, HeadwayError, UsageError

STDIN: Final = "-"
#: The longest line that is read. A longer line is a bad row.
LONGEST_LINE: Final = 100_000_000
#: Bytes that are read at once: some thousand short rows, and much less than a CPU cache.
CHUNK: Final = 1 << 18
DIGEST_BYTES: Final = 32

_BOM: Final = b"\xef\xbb\xbf"
_GZIP: Final = b"\x1f\x8b"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


class Reader:
    """Reads one input once. `digest` and `lines` are those of the part read so far."""

    def __init__(self, path: str | Path, stdin: BinaryIO | None = None) -> None:
        self.path = str(path)
        self.name = "stdin" if self.path == STDIN else self.path
        self.lines = 0
        self._stdin = stdin
        self._hash = blake2b(digest_size=DIGEST_BYTES)

    @property
    def digest(self) -> str:
        """The digest of the decompressed bytes, in hex."""
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        """Every line that is not blank, without its line end; None for a line that is too long."""
        pieces: list[bytes] = []
        length = 0
        for chunk in self._chunks():
            first, *lines = chunk.split(b"\n")
            length += len(first)
            # Of a line that is too long, only the length is kept.
            pieces = [*pieces, first] if length <= LONGEST_LINE else []
            if not lines:
                continue
            last = lines.pop()
            yield from self._line(pieces, length)
            number = self.lines
            for line in lines:
                number += 1
                line = line.strip()
                if line:
                    self.lines = number
                    yield number, line
            self.lines = number
            pieces, length = [last], len(last)
        if length:
            yield from self._line(pieces, length)

    def _line(self, pieces: list[bytes], length: int) -> Iterator[tuple[int, bytes | None]]:
        """A line from its pieces."""
        self.lines += 1
        if length > LONGEST_LINE:
            yield self.lines, None
        elif line := b"".join(pieces).strip():
            yield self.lines, line

    def raw_lines(self) -> Iterator[bytes]:
        """Every line unchanged, including its line end, for formats in which a line is not a row."""
        pieces: list[bytes] = []
        length = 0
        for chunk in self._chunks():
            for piece in _split(chunk):
                pieces.append(piece)
                length += len(piece)
                if length > LONGEST_LINE:
                    raise ConfigError(f"{self.name}:{self.lines + 1}: longer than {LONGEST_LINE / 1e6:g} MB")
                if piece.endswith(b"\n"):
                    self.lines += 1
                    yield b"".join(pieces)
                    pieces, length = [], 0
        if pieces:
            self.lines += 1
            yield b"".join(pieces)

    def _chunks(self) -> Iterator[bytes]:
        """The decompressed bytes, hashed. A byte order mark is hashed and left out."""
        with _opened(self.path, self._stdin) as file:
            start = True
            while chunk := self._read(file):
                self._hash.update(chunk)
                if start:
                    if chunk.startswith(_UTF_16):
                        raise ConfigError(f"{self.name}: written in UTF-16", hint="save it as UTF-8")
                    chunk = chunk.removeprefix(_BOM)
                    start = False
                yield chunk

    def _read(self, file: BinaryIO) -> bytes:
        try:
            return file.read(CHUNK)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(self.name, error, f" after {self.lines:,} lines that could be read") from None
        except OSError as error:
            raise _unreadable(self.name, error) from None


def _split(chunk: bytes) -> list[bytes]:
    """Split after every line feed."""
    *lines, last = chunk.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def digest_of(path: str | Path) -> str:
    """The digest of a file, the same as that of a `Reader`, without splitting lines."""
    return digest_and_search(path, b"\n")[0]


def digest_and_search(path: str | Path, text: bytes) -> tuple[str, bool]:
    """The digest of a file, and whether a text occurs in it."""
    if str(path) == STDIN:
        raise UsageError("standard input can be read only once", hint="write it to a file first")
    digest = blake2b(digest_size=DIGEST_BYTES)
    found, tail = False, b""
    with _opened(str(path), None) as file:
        try:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                found = found or text in chunk or text in tail + chunk[: len(text)]
                tail = chunk[-len(text) :]
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(str(path), error, "") from None
        except OSError as error:
            raise _unreadable(str(path), error) from None
    return digest.hexdigest(), found


def must_exist(path: str) -> None:
    """Raise if the file does not exist, before any other error."""
    if path != STDIN and not os.path.lexists(path):
        raise UsageError(f"{path}: no such file", hint=_nearest(path))


@contextmanager
def _opened(path: str, stdin: BinaryIO | None) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file or of standard input, which stays open."""
    if path == STDIN:
        with _peekable(stdin or sys.stdin.buffer) as raw, _unpacked(path, raw) as file:
            yield file
        return
    try:
        opened = open(path, "rb")  # noqa: SIM115 (closed below; only the opening is tried)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", hint=_nearest(path)) from None
    except OSError as error:
        raise _unreadable(path, error) from None
    with opened, _unpacked(path, opened) as file:
        yield file


@contextmanager
def _peekable(stream: BinaryIO) -> Iterator[io.BufferedReader]:
    """A stream whose first bytes can be peeked at. A buffer around the stream is detached at the end."""
    if isinstance(stream, io.BufferedReader):
        yield stream
        return
    buffered: io.BufferedReader = io.BufferedReader(cast(io.RawIOBase, stream))
    try:
        yield buffered
    finally:
        buffered.detach()


@contextmanager
def _unpacked(path: str, raw: io.BufferedReader) -> Iterator[BinaryIO]:
    try:
        start = raw.peek(len(_GZIP))
    except OSError as error:
        raise _unreadable(path, error) from None
    if start.startswith(_GZIP):
        with gzip.GzipFile(fileobj=raw) as file:
            yield file  # type: ignore[misc]
    elif start and os.path.splitext(path)[1] == ".gz":
        raise ConfigError(f"{path}: not compressed by gzip", hint="remove .gz from its name, or compress it")
    else:
        yield raw


def _damaged(name: str, error: Exception, where: str) -> ConfigError:
    what = "ends too early" if isinstance(error, EOFError) else "is damaged"
    return ConfigError(f"{name}: the compressed data {what}{where}", hint="create or copy the file again")


def _unreadable(name: str, error: OSError) -> HeadwayError:
    hint = "name a file in it" if isinstance(error, IsADirectoryError) else "check its permissions"
    return UsageError(f"{name}: cannot be read: {(error.strerror or str(error)).lower()}", hint=hint)


def _nearest(path: str) -> str:
    """A hint for a file that does not exist."""
    import difflib  # imported only for an error

    folder, name = os.path.split(path)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder or "."), n=1)
    except OSError:
        return f"there is no directory {folder} either"
    return f"did you mean '{os.path.join(folder, near[0])}'?" if near else "check its name"
