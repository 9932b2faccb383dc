"""What a file is, by its content: its type, its pixels, its pages. Pure, and bounded by the length of the file.

Only headers are read. A file whose content is none of the supported types is refused, whatever its name: so a row cannot attach a
text file, such as one with keys.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from headway.batch.attachments.pdf_pages import is_encrypted, page_count
from headway.batch.attachments.references import PDF
from headway.errors import UsageError

#: A PDF begins with its mark, and has the other one near its end.
_PDF_START: Final = b"%PDF-"
_PDF_END: Final = b"%%EOF"
_PDF_TAIL: Final = 2048
#: Start of frame: all but the three others in this range.
_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers without a length.
_JPEG_BARE: Final = frozenset((0x01, *range(0xD0, 0xD8)))
_JPEG_END: Final = frozenset((0xD9, 0xDA))


class Media(msgspec.Struct, frozen=True, gc=False):
    """The type of a file, and the size that providers count by: pixels, or pages."""

    type: str
    width: int = 0
    height: int = 0
    pages: int = 0
    encrypted: bool = False

    @property
    def is_pdf(self) -> bool:
        """Whether it has pages and no pixels."""
        return self.type == PDF

    @property
    def text(self) -> str:
        """For people: `image/png 640x480`."""
        if self.is_pdf:
            return f"{self.type} {self.pages:,} {'page' if self.pages == 1 else 'pages'}"
        return f"{self.type} {self.width}x{self.height}"


def media_of(data: bytes) -> Media:
    """What a file is. Raises for a type that is not supported, and for a damaged file."""
    if data.startswith(_PDF_START):
        if _PDF_END not in data[-_PDF_TAIL:]:
            raise UsageError("is a PDF that is cut off: it has no end")
        return Media(PDF, pages=page_count(data), encrypted=is_encrypted(data))
    for start, name, size in (
        (b"\x89PNG\r\n\x1a\n", "png", _png),
        (b"\xff\xd8\xff", "jpeg", _jpeg),
        (b"GIF87a", "gif", _gif),
        (b"GIF89a", "gif", _gif),
    ):
        if data.startswith(start):
            return _image(name, size(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _image("webp", _webp(data))
    raise UsageError("is neither a PNG, JPEG, GIF or WebP image nor a PDF")


def _image(name: str, size: tuple[int, int] | None) -> Media:
    if size is None or not all(size):
        raise UsageError(f"is a damaged {name.upper()} image: its size cannot be read")
    return Media(f"image/{name}", *size)


def _png(data: bytes) -> tuple[int, int] | None:
    if len(data) < 33 or data[8:16] != b"\0\0\0\rIHDR":
        return None
    if b"IEND" not in data[-4096:] and b"IEND" not in data:
        raise UsageError("is a PNG image that is cut off: it has no end")
    width, height = struct.unpack(">II", data[16:24])
    return (width, height) if max(width, height) < 1 << 31 else None


def _gif(data: bytes) -> tuple[int, int] | None:
    if len(data) < 14:
        return None
    width, height = struct.unpack("<HH", data[6:10])
    return width, height


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """The size in the first start of frame. Segments before it have lengths, so the loop moves forward."""
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # Fill bytes.
            at += 1
        elif marker in _JPEG_BARE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        elif marker in _JPEG_END:
            return None
        else:
            (length,) = struct.unpack(">H", data[at + 2 : at + 4])
            if length < 2:
                return None
            at += 2 + length
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    (size,) = struct.unpack("<I", data[4:8])
    if size + 8 > len(data):
        raise UsageError("is a WebP image that is cut off")
    match data[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case b"VP8L":
            if data[20] != 0x2F:
                return None
            bits = int.from_bytes(data[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            if data[23:26] != b"\x9d\x01\x2a":
                return None
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return None
