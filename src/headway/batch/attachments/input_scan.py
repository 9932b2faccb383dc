"""The digest of all files that an input attaches: it is part of a job's identity, so that a changed image is a new job.

The input is read once more, only if it can have attachments at all. Mistakes are left to the intake, which reports them with their
lines: here a file that cannot be read counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.batch.attachments.attached_file import FileFacts
from headway.batch.attachments.references import AttachTemplates, Reference, add_templates, references_of
from headway.batch.file_types import is_parquet
from headway.batch.tables import csv_input
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.batch.input_source import BatchSource

KEY: Final = b'"attachments"'
_MISSING: Final = b"missing"
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


def digest_with_files(source: BatchSource, files: FileFacts) -> str:
    """The digest of an input and of the files that it attaches; its own digest if it attaches none."""
    references = _of_table(source) if source.is_table else _of_lines(source)
    digests = blake2b(source.digest.encode(), digest_size=32)
    found = False
    for reference in _each(islice(references, source.request_options.limit)):
        if reference.path:
            digest = file_digest(files, reference)
            found = found or digest != _MISSING
            digests.update(digest)
    return digests.hexdigest() if found else source.digest


def _each(rows: Iterable[tuple[Reference, ...]]) -> Iterator[Reference]:
    return (reference for row in rows for reference in row)


def file_digest(files: FileFacts, reference: Reference) -> bytes:
    """The digest of an attached file; a constant if it cannot be read."""
    try:
        return bytes.fromhex(files.file(reference.path).digest)
    except UsageError:
        return _MISSING


def _of_lines(source: BatchSource) -> Iterator[tuple[Reference, ...]]:
    """The references of each row, bad rows included: they count for `--limit`, too."""
    attach = source.request_options.attach
    for _, line in source.reader():
        if line is None or (KEY not in line and not attach):
            yield ()
            continue
        try:
            row = _decode(line)
            if attach:
                add_templates(attach, row)
            yield references_of(row.get("attachments"))
        except (UsageError, msgspec.DecodeError, UnicodeError, RecursionError):
            yield ()


def _of_table(source: BatchSource) -> Iterator[tuple[Reference, ...]]:
    if is_parquet(source.path):
        from headway.batch.tables import parquet_input  # imports pyarrow

        columns, records = parquet_input.cell_texts(source.path, source.name)
        yield from _of_records(source, columns, records)
    else:
        columns, records = csv_input.cell_texts(source.reader())
        yield from _of_records(source, columns, records)


def _of_records(
    source: BatchSource, columns: list[str], records: Iterable[list[str] | None]
) -> Iterator[tuple[Reference, ...]]:
    templates = AttachTemplates(source.request_options.attach, columns, source.name)
    for record in records:
        try:
            yield () if record is None else references_of(templates.of(record))
        except UsageError:
            yield ()
