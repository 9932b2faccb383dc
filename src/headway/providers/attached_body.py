"""Bodies with attached files. A recorded request has a *mark* where the base64 of a file belongs: its digest and its size.

The file is inserted while the body is sent, piece by piece, so that neither records nor memory ever have a file as base64. Marks are
part of the JSON: code that changes a request (a stream, a correction, a later turn) copies them like any other text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Final

#: A mark in a body, where APIs have base64: the end of a data: address, or the whole text of these keys. So a prompt that quotes a mark
#: stays as it is. The digest is BLAKE2b with 32 bytes, in hex.
_MARK: Final = re.compile(
    rb'(?:(?<=;base64,)|(?<="data":")|(?<="bytes":"))headway:attachment:([0-9a-f]{64}):(\d{1,12})(?=")'
)
_PREFIX: Final = b"headway:attachment:"
#: Bytes of a file that are encoded and written at once: a multiple of three, so that base64 needs no padding between pieces. A
#: connection may hold two pieces.
PIECE_BYTES: Final = 3 << 14


def mark_of(digest: str, size: int) -> str:
    """The text that stands for a file in a recorded request."""
    return f"headway:attachment:{digest}:{size}"


def marks_in(body: bytes) -> dict[str, int]:
    """The digest and size of every file that a body has a mark of."""
    if _PREFIX not in body:
        return {}
    return {match[1].decode(): int(match[2]) for match in _MARK.finditer(body)}


def described_marks(body: bytes) -> bytes:
    """The body with words instead of marks, for people."""
    return _MARK.sub(lambda match: b"[%s bytes, blake2b %b]" % (b"%d" % int(match[2]), match[1][:16]), body)


def encoded_size(size: int) -> int:
    """The length of a file as base64."""
    return -(-size // 3) * 4


class AttachedBody:
    """A body and the files that its marks stand for, by digest. A mark without a file stays as it is."""

    def __init__(
        self, body: bytes, files: Mapping[str, bytes], released: Callable[[], None] = lambda: None
    ) -> None:
        self._released: Callable[[], None] | None = released
        self._parts: list[bytes | memoryview] = []
        self._length = 0
        end = 0
        for match in _MARK.finditer(body):
            data = files.get(match[1].decode())
            if data is not None:
                self._add(body[end : match.start()], len(body[end : match.start()]))
                self._add(memoryview(data), encoded_size(len(data)))
                end = match.end()
        self._add(body[end:], len(body) - end)

    def _add(self, part: bytes | memoryview, length: int) -> None:
        self._parts.append(part)
        self._length += length

    def __len__(self) -> int:
        return self._length

    def pieces(self) -> Iterator[bytes]:
        """The whole body in pieces of bounded size. Files are encoded on the way."""
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
            else:
                for start in range(0, len(part), PIECE_BYTES):
                    yield b64encode(part[start : start + PIECE_BYTES])

    def sha256(self) -> str:
        """The hash of the whole body, in hex."""
        digest = sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def release(self) -> None:
        """The body is sent, or will not be: drop the files. May be called again."""
        released, self._released = self._released, None
        if released is not None:
            self._parts = []
            released()
