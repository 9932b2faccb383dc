"""A body → memory, within ceilings: an answer in one piece, the beginning of an error, a stream put together.

Owns how much is read and held of one answer, after decompression: aiohttp decompresses in small steps, and only as far as
it is read here. Everything takes time in proportion to the bytes. What a body means is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import aiohttp

from headway.providers.dialects.answer_errors import AnswerTooLong
from headway.providers.dialects.lenient_json import is_heavy
from headway.providers.dialects.sse import Draft, SseParser, add_events, draft_body

#: What is kept of a failure's body, and what is read of it: a key at the end of what is kept must be seen whole.
LONGEST_FAILURE: Final = 65_536
LONGEST_FAILURE_READ: Final = LONGEST_FAILURE + 8192
#: A stream may be so many times as long as its answer: each token of it comes in an envelope of some hundred bytes.
STREAM_FACTOR: Final = 4
#: What is put together may take so many times as much memory as the answer may be long.
MEMORY_FACTOR: Final = 5
#: How often what a stream has come to is measured on its way to the ceiling.
MEASURES: Final = 4
#: How long a stream that said its last word may take to end, and how much it may say, for its connection to be used again.
DRAIN_S: Final = 0.5
DRAIN_BYTES: Final = 65_536
#: What may stand before the first word.
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"


def byte_ceiling(max_answer_bytes: int) -> int:
    """The most bytes of an answer; 0 is no ceiling."""
    return max_answer_bytes or sys.maxsize


async def rest_of(content: aiohttp.StreamReader, start: bytes, most: int) -> bytes:
    """A whole body, of which the beginning is here. Raises `AnswerTooLong`."""
    body = bytearray(start)
    while len(body) <= most and (piece := await content.readany()):
        body += piece
    if len(body) > most:
        raise AnswerTooLong(most)
    return bytes(body)


async def beginning_of(content: aiohttp.StreamReader, most: int) -> bytes:
    """The beginning of a body, or all of it where it is short."""
    body = bytearray()
    while len(body) < most and (piece := await content.readany()):
        body += piece
    return bytes(body[:most])


class IncomingStream:
    """A streamed answer on its way in: read, parsed, and put together in its draft.

    Three ceilings: the bytes of the stream, those of a single event, and those of what the draft has come to. Raises
    `AnswerTooLong` above any of them.
    """

    def __init__(self, content: aiohttp.StreamReader, draft: Draft, most: int) -> None:
        self._content = content
        self._draft = draft
        self._most = most
        self._parser = SseParser(most)
        self._received = 0
        self._measure_at = most // MEASURES

    async def more(self) -> bytes:
        """The next bytes; none at the end."""
        chunk = await self._content.readany()
        self._received += len(chunk)
        if self._received > STREAM_FACTOR * self._most:
            raise AnswerTooLong(STREAM_FACTOR * self._most, "the stream")
        return chunk

    async def first(self) -> bytes:
        """The first bytes that are no keep-alive blanks."""
        while chunk := await self.more():
            chunk = chunk.lstrip(_BLANKS)
            if chunk:
                break
        return chunk

    async def whole(self, start: bytes) -> bytes:
        """The body, where it turns out to be no stream."""
        return await rest_of(self._content, start, self._most)

    def take(self, chunk: bytes) -> None:
        """Add the events that these bytes complete. Raises what the draft raises."""
        add_events(self._draft, self._parser.feed(chunk))
        if self._received > self._measure_at:
            self._measure_at = self._received + self._most // MEASURES
            if is_heavy(draft_body(self._draft, self._most), MEMORY_FACTOR * self._most):
                raise AnswerTooLong(MEMORY_FACTOR * self._most, "the answer as it is put together")

    async def finish(self) -> None:
        """After the last word: what has no line end yet, and the end of the body so that the connection can stay."""
        if not self._draft.ended:
            add_events(self._draft, self._parser.close())
        elif not self._content.at_eof():
            try:
                async with asyncio.timeout(DRAIN_S):
                    await beginning_of(self._content, DRAIN_BYTES)
            except TimeoutError:
                return


def read_events(draft: Draft, body: bytes, most: int) -> None:
    """Put a stream together that came in one piece."""
    parser = SseParser(most)
    add_events(draft, (*parser.feed(body), *parser.close()))
