"""Images and documents in requests: how many tokens they count, and the words that stand for them in an echo.

The provider's own view: it decodes the base64 that arrived, reads the size, and counts by its API's rule. Data that is no image and no
PDF is an invalid request.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Callable
from math import ceil
from typing import Any

import msgspec

from headway.fake.apis.api_request import CHARS_PER_TOKEN, InvalidRequest

#: The tokens of what is at an address, which is not read.
AT_ADDRESS = 1_000
PDF_PAGE = 1_500

Size = tuple[int, int]


class MediaPart(msgspec.Struct, gc=False):
    """An image or a document: its size in words, and its tokens."""

    text: str
    tokens: int

    @property
    def chars(self) -> int:
        """The characters that count as many tokens."""
        return self.tokens * CHARS_PER_TOKEN


def openai_tokens(size: Size) -> int:
    """Tiles of 512 pixels, after the image is scaled down."""
    scale = min(1.0, 2048 / max(size), 768 / min(size))
    across, down = (ceil(int(side * scale) / 512) for side in size)
    return 85 + 170 * across * down


def anthropic_tokens(size: Size) -> int:
    """Patches of 28 pixels."""
    return min(1_568, ceil(size[0] / 28) * ceil(size[1] / 28))


def gemini_tokens(size: Size) -> int:
    """Tiles, or one for a small image."""
    if max(size) <= 384:
        return 258
    unit = max(256, min(768, int(min(size) / 1.5)))
    return 258 * ceil(size[0] / unit) * ceil(size[1] / unit)


def media_of(part: dict[str, Any], count: Callable[[Size], int]) -> MediaPart | None:
    """The image or document of a part, in any API's form; None for another part."""
    data = _data_of(part)
    return None if data is None else _media(data, count)


def _data_of(part: dict[str, Any]) -> str | None:
    """The base64, the data: address or the other address of a part."""
    image, file = part.get("image_url"), part.get("file")
    if image is not None:
        return str(image.get("url") if isinstance(image, dict) else image)
    if isinstance(file, dict):
        return str(file.get("file_data"))
    if data := part.get("file_data") or part.get("file_url"):
        return str(data)
    for name in ("inlineData", "fileData", "source", "image", "document"):
        block = part.get(name)
        if isinstance(block, dict):
            inner = block.get("source", block)  # Bedrock's blocks have a source.
            return str(inner.get("data") or inner.get("url") or inner.get("bytes") or inner.get("fileUri"))
    return None


def _media(data: str, count: Callable[[Size], int]) -> MediaPart:
    if data.startswith(("http://", "https://")):
        return MediaPart("[address]", AT_ADDRESS)
    try:
        raw = binascii.a2b_base64(data.rpartition("base64,")[2], strict_mode=True)
    except ValueError as error:
        raise InvalidRequest(f"Invalid base64 data: {error}") from None
    if raw.startswith(b"%PDF-"):
        pages = max(1, raw.count(b"/Type /Page") - raw.count(b"/Type /Pages"))
        return MediaPart(f"[document of {pages} pages, {len(raw)} bytes]", pages * PDF_PAGE)
    size = _size(raw)
    if size is None:
        raise InvalidRequest("You uploaded an unsupported image. Please make sure your image is valid.")
    return MediaPart(f"[image {size[0]}x{size[1]}, {len(raw)} bytes]", count(size))


def _size(raw: bytes) -> Size | None:
    try:
        if raw.startswith(b"\x89PNG"):
            return struct.unpack_from(">2I", raw, 16)
        if raw.startswith(b"GIF8"):
            return struct.unpack_from("<2H", raw, 6)
        if raw[8:15] == b"WEBPVP8":
            return _webp_size(raw)
        if raw.startswith(b"\xff\xd8"):
            return _jpeg_size(raw)
    except (struct.error, IndexError):
        pass
    return None


def _webp_size(raw: bytes) -> Size:
    if raw[15:16] == b"X":
        return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
    if raw[15:16] == b"L":
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack_from("<2H", raw, 26)
    return width & 0x3FFF, height & 0x3FFF


def _jpeg_size(raw: bytes) -> Size | None:
    at = 2
    while raw[at] == 0xFF:
        if raw[at + 1] == 0xFF:  # A fill byte.
            at += 1
            continue
        marker, length = struct.unpack_from(">xBH", raw, at)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">2H", raw, at + 5)
            return width, height
        at += 2 + length
    return None
