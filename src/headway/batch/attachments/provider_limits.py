"""How many attachments a request may have, and how large they may be: each API's documented ceilings (2026). Pure.

Only what an API certainly rejects is an error. A ceiling that depends on the account or the model is left to the provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headway.batch.attachments.attached_file import AttachedFile
from headway.errors import UsageError
from headway.providers.attached_body import encoded_size

MB: Final = 1 << 20


class AttachmentCeilings(msgspec.Struct, frozen=True):
    """The ceilings of an API; 0: none is known. `image_bytes` are of the file, `encoded_bytes` of its base64."""

    request_bytes: int = 0
    images: int = 0
    image_bytes: int = 0
    encoded_bytes: int = 0
    #: Pixels of a side; with more than `many` images of one request, pixels of a side are limited to `many_side`.
    side: int = 0
    many: int = 0
    many_side: int = 0
    documents: int = 0
    document_bytes: int = 0
    pages: int = 0
    #: Whether it rejects encrypted PDFs.
    plain_pdf: bool = False


_OPENAI: Final = AttachmentCeilings(request_bytes=512 * MB, images=1_500, document_bytes=50 * MB)
_BY_API: Final = {
    "chat": _OPENAI,
    "responses": _OPENAI,
    "messages": AttachmentCeilings(
        request_bytes=32 * MB, images=600, encoded_bytes=10 * MB, side=8_000, many=20, many_side=2_000, pages=600, plain_pdf=True
    ),
    "generateContent": AttachmentCeilings(
        request_bytes=100 * MB, images=3_600, document_bytes=50 * MB, pages=1_000
    ),
    "converse": AttachmentCeilings(
        images=20, image_bytes=15 * MB // 4, side=8_000, documents=5, document_bytes=9 * MB // 2
    ),
    "invoke": AttachmentCeilings(
        request_bytes=20 * MB, images=100, encoded_bytes=5 * MB, side=8_000, many=20, many_side=2_000, pages=100, plain_pdf=True
    ),
}  # fmt: skip


def check_files(api: str, files: Sequence[AttachedFile], body_bytes: int) -> None:
    """Raise if an API certainly rejects a request with these files. `body_bytes` is its length without them."""
    ceilings = _BY_API[api]
    images = [file for file in files if not file.media.is_pdf]
    documents = [file for file in files if file.media.is_pdf]
    _at_most(len(images), ceilings.images, "images in a request", api)
    _at_most(len(documents), ceilings.documents, "documents in a request", api)
    _at_most(sum(file.media.pages for file in documents), ceilings.pages, "pages in a request", api)
    side = ceilings.side
    if ceilings.many and len(images) > ceilings.many:
        side = ceilings.many_side
    for file in files:
        _check_file(api, ceilings, side, file)
    total = body_bytes + sum(encoded_size(file.size) for file in files)
    if ceilings.request_bytes and total > ceilings.request_bytes:
        raise UsageError(
            f"its request would have {total / MB:,.1f} MB, and {_name(api)} takes {ceilings.request_bytes // MB} MB"
        )


def _check_file(api: str, ceilings: AttachmentCeilings, side: int, file: AttachedFile) -> None:
    media = file.media
    if media.is_pdf:
        if ceilings.plain_pdf and media.encrypted:
            raise UsageError(f"{file.path} is an encrypted PDF, which {_name(api)} does not read")
        _check_size(api, file, file.size, ceilings.document_bytes)
        return
    if side and max(media.width, media.height) > side:
        raise UsageError(
            f"{file.path} is {media.width}x{media.height}, and {_name(api)} takes {side} pixels a side"
        )
    _check_size(api, file, file.size, ceilings.image_bytes)
    _check_size(api, file, encoded_size(file.size), ceilings.encoded_bytes, " as base64")


def _check_size(api: str, file: AttachedFile, size: int, most: int, how: str = "") -> None:
    if most and size > most:
        raise UsageError(f"{file.path} has {size / MB:,.1f} MB{how}, and {_name(api)} takes {most / MB:g} MB")


def _at_most(count: int, most: int, what: str, api: str) -> None:
    if most and count > most:
        raise UsageError(f"it has {count:,} {what}, and {_name(api)} takes {most:,}")


_NAMES: Final = {
    "chat": "OpenAI's chat API", "responses": "OpenAI's Responses API", "messages": "Anthropic's API", "generateContent": "Gemini",
    "converse": "Bedrock's Converse", "invoke": "Bedrock",
}  # fmt: skip


def _name(api: str) -> str:
    return _NAMES[api]
