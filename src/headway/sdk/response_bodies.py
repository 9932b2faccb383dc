"""Bodies of httpx and httpx2 responses: held back within a ceiling, decompressed in steps, put back for the caller."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

#: Compressed bytes that are decompressed at once: at most a thousand times as many come out.
STEP: Final = 4096
#: Headers that would be wrong for the beginning of a body.
_BODY_HEADERS: Final = frozenset({"content-length", "content-encoding", "transfer-encoding"})


def is_repeatable(library: Any, request: Any) -> bool:
    """Whether a request can be sent twice: its body is in memory, or it has none."""
    return isinstance(request.stream, library.ByteStream)


class BodyBuffer:
    """The body of a response while it is held back."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self.pieces: list[bytes] = []
        #: Whether the body has been read to its end.
        self.complete = False

    @property
    def wants_more(self) -> bool:
        """Whether it has not ended, nor passed the ceiling."""
        return not self.complete and self._size <= self._max_bytes

    def add(self, piece: bytes | None) -> None:
        """Add a piece; None is the end."""
        if piece is None:
            self.complete = True
        else:
            self.pieces.append(piece)
            self._size += len(piece)

    def discard(self) -> None:
        """The connection broke: treat the body as empty."""
        self.pieces, self.complete = [], True

    def decoded(self, library: Any, response: Any) -> bytes:
        """The body without compression, and little more than the ceiling of it."""
        return plain_body(library, response, b"".join(self.pieces), self._max_bytes)

    def restored(self, library: Any, response: Any, decoded: bytes) -> Any:
        """The response with its body in memory: all of it, or its beginning."""
        if self.complete:
            return with_body(library, response, b"".join(self.pieces))
        return cut_off(library, response, decoded[: self._max_bytes])


def plain_body(library: Any, response: Any, raw: bytes, max_bytes: int) -> bytes:
    """A body without its compression, and little more than `max_bytes` of it; as it is if it cannot be decompressed."""
    if "content-encoding" not in response.headers:
        return raw
    stream = _stepwise(library)(raw)
    body = bytearray()
    try:
        for piece in library.Response(
            response.status_code, headers=response.headers, stream=stream
        ).iter_bytes():
            body += piece
            if len(body) > max_bytes:
                break
    except library.DecodingError:
        return bytes(body) or raw
    return bytes(body)


@cache
def _stepwise(library: Any) -> Any:
    """The class of bodies that are decompressed step by step, as a subclass of the library's own."""

    class StepwiseBody(library.SyncByteStream):  # type: ignore[misc]  # The base is chosen at run time.
        def __init__(self, raw: bytes) -> None:
            self._raw = raw

        def __iter__(self) -> Iterator[bytes]:
            return (self._raw[at : at + STEP] for at in range(0, len(self._raw), STEP))

    return StepwiseBody


def cut_off(library: Any, response: Any, body: bytes) -> Any:
    """The same response with the decompressed beginning of its body."""
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _BODY_HEADERS]
    return library.Response(
        response.status_code,
        headers=headers,
        stream=library.ByteStream(body),
        extensions=response.extensions,
    )


def with_body(library: Any, response: Any, raw: bytes) -> Any:
    """The same response with its body in memory, still unread."""
    return library.Response(
        response.status_code,
        headers=response.headers,
        stream=library.ByteStream(raw),
        extensions=response.extensions,
    )
