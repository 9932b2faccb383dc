"""Small images and PDFs, made by hand."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 640, height: int = 480, comment: bytes = b"") -> bytes:
    """A PNG with one row of pixels, whatever its header says. `comment` makes it larger, and other."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + (_chunk(b"tEXt", comment) if comment else b"")
        + _chunk(b"IDAT", zlib.compress(b"\0" * 4))
        + _chunk(b"IEND", b"")
    )


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def jpeg(width: int = 640, height: int = 480) -> bytes:
    """A JPEG with two segments in front of its frame."""
    app, table = b"\xff\xe0\x00\x10JFIF\0" + b"\0" * 9, b"\xff\xc4\x00\x04ab"
    frame = b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" + b"\0" * 9
    return b"\xff\xd8" + app + table + b"\xff" + frame + b"\xff\xda\x00\x02" + b"\0" * 20 + b"\xff\xd9"


def gif(width: int = 640, height: int = 480) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0" + b";" * 10


def webp(form: str, width: int = 640, height: int = 480) -> bytes:
    """A WebP of the form "VP8X", "VP8L" or "VP8 "."""
    match form:
        case "VP8X":
            data = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case "VP8L":
            data = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 8
        case _:
            data = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"\0" * 4
    body = b"WEBP" + form.encode() + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def pdf(pages: int = 2, more: bytes = b"") -> bytes:
    """A PDF with its pages as plain objects."""
    objects = b"".join(b"%d 0 obj<</Type /Page>>endobj\n" % (n + 2) for n in range(pages))
    root = b"1 0 obj<</Type /Pages /Count %d>>endobj\n" % pages
    return b"%PDF-1.4\n" + root + objects + more + b" " * 64 * pages + b"\ntrailer<<>>\n%%EOF\n"


def packed_pdf(pages: int = 3, filler: int = 0) -> bytes:
    """A PDF with its pages in a compressed stream, which unpacks to `filler` bytes more."""
    objects = b"<</Type /Page>>" * pages + b"<</Type /Pages /Count %d>>" % pages + b"\0" * filler
    stream = zlib.compress(objects)
    head = b"5 0 obj<</Type /ObjStm /N %d /Length %d>>\nstream\r\n" % (pages, len(stream))
    return b"%PDF-1.7\n" + head + stream + b"\nendstream endobj\n" + b" " * 64 * pages + b"%%EOF\n"
