"""Reads a body into memory, within ceilings: a whole answer, the beginning of an error, an assembled stream.

Owns how much is read and held of one answer, after decompression: aiohttp decompresses in small steps, and only as far as
it is read here. Everything takes time in proportion to the bytes. What a body means is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from headway.providers.dialects.answer_errors import AnswerTooLong
from headway.providers.dialects.lenient_json import is_heavy
from headway.providers.dialects.sse import Draft, SseParser, add_events, draft_body
from headway.providers.http.client_library import aiohttp

#: The kept bytes of an error's body, and the bytes read: a key at the end of the kept part must be read whole, to be removed.
LONGEST_FAILURE: Final = 65_536
LONGEST_FAILURE_READ: Final = LONGEST_FAILURE + 8192
#: A stream may be so many times as long as its answer: each token comes in an event of some hundred bytes.
STREAM_FACTOR: Final = 4
#: The assembled answer may take so many times as much memory as the answer may have bytes.
MEMORY_FACTOR: Final = 5
#: How often the size of an assembled answer is measured on the way to the ceiling.
MEASURES: Final = 4
#: After its last event a stream may take so long to end, with so many bytes, for its connection to be used again.
DRAIN_S: Final = 0.5
DRAIN_BYTES: Final = 65_536
#: Bytes that may precede the first event.
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"


def byte_ceiling(max_answer_bytes: int) -> int:
    """The most bytes of an answer; 0 is no ceiling."""
    return max_answer_bytes or sys.maxsize


async def rest_of(content: aiohttp.StreamReader, start: bytes, most: int) -> bytes:
    """The whole body, given its beginning. Raises `AnswerTooLong`."""
    body = bytearray(start)
    while len(body) <= most and (piece := await content.readany()):
        body += piece
    if len(body) > most:
        raise AnswerTooLong(most)
    return bytes(body)


async def beginning_of(content: aiohttp.StreamReader, most: int) -> bytes:
    """The beginning of a body, or all of a short one."""
    body = bytearray()
    while len(body) < most and (piece := await content.readany()):
        body += piece
    return bytes(body[:most])


class IncomingStream:
    """A streamed answer while it is received: read, parsed, and assembled in its draft.

    Three ceilings: the bytes of the stream, those of a single event, and those of what the draft has come to. Raises
    `AnswerTooLong` above any of them.
    """

    def __init__(self, content: aiohttp.StreamReader, draft: Draft, most: int) -> None:
        self._content = content
        self._draft = draft
        self._most = most
        self._parser = draft.parser(most)
        self._received = 0
        self._measure_at = most // MEASURES

    async def more(self) -> bytes:
        """The next bytes; empty at the end."""
        chunk = await self._content.readany()
        self._received += len(chunk)
        if self._received > STREAM_FACTOR * self._most:
            raise AnswerTooLong(STREAM_FACTOR * self._most, "the stream")
        return chunk

    async def first(self) -> bytes:
        """The first bytes after keep-alive blanks."""
        while chunk := await self.more():
            chunk = chunk.lstrip(_BLANKS)
            if chunk:
                break
        return chunk

    async def whole(self, start: bytes) -> bytes:
        """The body, if the response is not a stream after all."""
        return await rest_of(self._content, start, self._most)

    def take(self, chunk: bytes) -> None:
        """Add the events that these bytes complete. Raises the errors of the draft."""
        add_events(self._draft, self._parser.feed(chunk))
        if self._received > self._measure_at:
            self._measure_at = self._received + self._most // MEASURES
            if is_heavy(draft_body(self._draft, self._most), MEMORY_FACTOR * self._most):
                raise AnswerTooLong(MEMORY_FACTOR * self._most, "the answer as it is put together")

    async def finish(self) -> None:
        """After the last event: take a line without an end, and read the body to its end so that the connection can be reused."""
        if not self._draft.ended:
            add_events(self._draft, self._parser.close())
        elif not self._content.at_eof():
            try:
                async with asyncio.timeout(DRAIN_S):
                    await beginning_of(self._content, DRAIN_BYTES)
            except TimeoutError:
                return


def read_events(draft: Draft, body: bytes, most: int) -> None:
    """Assemble a stream that arrived as one body."""
    parser = SseParser(most)
    add_events(draft, (*parser.feed(body), *parser.close()))
