"""The rows of an input with their attachments: files are checked, put into the request as marks, and counted.

A file that is missing, too large or of another type makes a bad row, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.batch.attachments.attached_file import FileFacts
from headway.batch.attachments.input_tokens import UNMEASURED, tokens_of
from headway.batch.attachments.media import Media
from headway.batch.attachments.provider_limits import check_files
from headway.batch.attachments.references import Reference
from headway.batch.attachments.request_parts import Attachment, add_parts, api_of
from headway.batch.input_size import IMAGE_CHARS, TOKEN_CHARS
from headway.batch.rows import BadRow, Row
from headway.errors import UsageError
from headway.providers.attached_body import marks_in
from headway.stores.store import Store

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode
#: Distinguishes families of requests with attachments from the same requests without.
_WITH_FILES: Final = 0x5A5A5A5A5A5A


class RowAttachments:
    """The attachments of one input. Relative paths start at the folder of the input."""

    def __init__(self, folder: Path) -> None:
        self.files = FileFacts(folder)

    def attached(self, numbered: Iterator[tuple[int, Row | BadRow]]) -> Iterator[tuple[int, Row | BadRow]]:
        """The same rows, with their attachments in their requests."""
        for number, row in numbered:
            if isinstance(row, Row) and row.references:
                try:
                    yield number, self.attach(row)
                except UsageError as error:
                    yield number, BadRow(number, str(error), row.store_as)
            else:
                yield number, row

    def attach(self, row: Row) -> Row:
        """A row with its attachments. Raises a UsageError that says what is wrong with one."""
        attachments = [self._attachment(reference) for reference in row.references]
        body, tokens = attach(row.path, row.model, row.body, attachments)
        traits = msgspec.structs.replace(row.traits, shape=row.traits.shape ^ _WITH_FILES, open_input=True)
        return msgspec.structs.replace(
            row,
            body=body,
            chars=row.chars + tokens * TOKEN_CHARS,
            traits=traits,
            files=tuple({one.file.digest: one.file for one in attachments if one.file}.values()),
        )

    def _attachment(self, reference: Reference) -> Attachment:
        if reference.url:
            return Attachment(reference)
        file = self.files.file(reference.path)
        if reference.type and reference.type != file.media.type:
            raise UsageError(f"{reference.name} is {file.media.type}, and the row says {reference.type}")
        return Attachment(reference, file)


def attach(path: str, model: str, body: bytes, attachments: Sequence[Attachment]) -> tuple[bytes, int]:
    """A request with attachments, and how many tokens they are. Raises if the API does not take them."""
    api, fields = api_of(path), _decode(body)
    if not api:
        raise UsageError("attachments are for chats, and this request is none")
    if api == "invoke" and not ("anthropic_version" in fields and isinstance(fields.get("messages"), list)):
        raise UsageError("with a model's own body, attachments are for Claude's; use /model/{model}/converse")
    files = [one.file for one in attachments if one.file is not None]
    check_files(api, files, len(body))
    add_parts(api, fields, attachments)
    tokens = sum(
        tokens_of(api, model, one.file.media, one.reference.detail) if one.file else UNMEASURED
        for one in attachments
    )
    return _encode(fields), tokens


def more_chars(store: Store, job: int, path: str, model: str, body: bytes) -> int:
    """How many more characters the files of a recorded request count than `input_size` counts for them."""
    api = api_of(path)
    facts = store.attachments(job, marks_in(body)) if api else ()
    return sum(
        tokens_of(api, model, Media(file.type, file.width, file.height, file.pages)) * TOKEN_CHARS
        - IMAGE_CHARS
        for file in facts
    )
