"""How many pages a PDF has, roughly: for estimates. Cheap, and bounded whatever the file claims.

A page is an object of the type Page. Newer files have their objects in compressed streams. These are unpacked, up to a ceiling on
each and on all of them, so that a small file which unpacks to gigabytes costs no more than any other. The root of the page tree also has
a count; of two figures the lower one is used: edited files repeat their pages, and a count may be a lie.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

_PAGE: Final = re.compile(rb"/Type\s{0,8}/Page(?![A-Za-z])")
_COUNT: Final = re.compile(rb"/Count\s{1,8}(\d{1,7})(?!\d)")
_OBJECT_STREAM: Final = re.compile(rb"/Type\s{0,8}/ObjStm\b")
_ENCRYPT: Final = re.compile(rb"/Encrypt\s{0,8}(?:<<|\d{1,10}\s{1,8}\d{1,10}\s{1,8}R)")
_STREAM: Final = b"stream"

#: Bytes that are unpacked of one stream, and of all; streams that are unpacked; bytes between the type of a stream and its data.
MOST_OF_ONE: Final = 1 << 20
MOST_UNPACKED: Final = 16 << 20
MOST_STREAMS: Final = 2_000
_DICTIONARY: Final = 2_048
#: Counts that are looked at, and the bytes around one that say what it counts.
MOST_COUNTS: Final = 10_000
_NEAR: Final = 300
#: A page takes at least so many bytes. If nothing says how many pages there are, one takes about so many.
FEWEST_BYTES: Final = 32
USUAL_BYTES: Final = 50_000


def page_count(data: bytes) -> int:
    """The number of pages, at least 1."""
    pages, counted = 0, 0
    for text in chain((data,), _unpacked(data)):
        pages += sum(1 for _ in _PAGE.finditer(text))
        counted = max(counted, max(_counts(text), default=0))
    likely = min(pages, counted) if pages and counted else pages or counted
    return max(1, min(likely or len(data) // USUAL_BYTES, len(data) // FEWEST_BYTES))


def _counts(text: bytes) -> Iterator[int]:
    """The counts of page trees. Outlines have counts, too, but no children in a list."""
    for match in islice(_COUNT.finditer(text), MOST_COUNTS):
        before = text[max(0, match.start() - _NEAR) : match.start()]
        near = before + text[match.end() : match.end() + _NEAR]
        if before.rstrip().endswith(b"]") or b"/Kids" in near or b"/Pages" in near:
            yield int(match[1])


def is_encrypted(data: bytes) -> bool:
    """Whether its trailer says so."""
    return _ENCRYPT.search(data) is not None


def _unpacked(data: bytes) -> Iterator[bytes]:
    """The contents of its object streams, up to the ceilings."""
    left = MOST_UNPACKED
    for n, match in enumerate(_OBJECT_STREAM.finditer(data)):
        begin = data.find(_STREAM, match.end(), match.end() + _DICTIONARY)
        if n >= MOST_STREAMS or left <= 0:
            return
        if begin < 0:
            continue
        begin += len(_STREAM)
        begin += 2 if data[begin : begin + 2] == b"\r\n" else 1
        try:
            text = zlib.decompressobj().decompress(
                memoryview(data)[begin : begin + MOST_OF_ONE], min(left, MOST_OF_ONE)
            )
        except zlib.error:
            continue
        left -= len(text)
        yield text
