"""The input of a batch: a file or standard input, its digest, and its rows in order."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, Self, cast

import msgspec

from headway.batch import rows
from headway.batch.attachments.input_scan import KEY, digest_with_files
from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.file_types import is_parquet, is_table
from headway.batch.inputs.model_variants import each_model, must_differ
from headway.batch.intake import RowIntake
from headway.batch.reader import Reader, digest_and_search, must_exist
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row
from headway.batch.tables import csv_input
from headway.config import Config
from headway.config.routing import Router
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Job
from headway.stores.store import Store

#: The name of this kind of job in the store.
BATCH: Final = "batch"
_COPY_BYTES: Final = 1 << 20
#: Ids of rows without an id (`field_checks.custom_id`), as a LIKE pattern.
ROW_NUMBERS: Final = "row-%"
#: Of a prompt, so many characters are kept for lists of jobs.
LONGEST_NOTED: Final = 2_000


class SpoolReader(io.RawIOBase):
    """Reads a temporary file from its beginning, independently of other readers of the same file."""

    def __init__(self, spool: BinaryIO) -> None:
        self._file, self._place = spool.fileno(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = os.pread(self._file, len(buffer), self._place)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


class BatchSource(msgspec.Struct, frozen=True):
    """An input and its digest. Standard input is copied to a temporary file, because it is read twice."""

    name: str
    path: str
    digest: str
    spool: BinaryIO | None = None
    request_options: RequestOptions = RequestOptions()
    #: The digest of its bytes alone, without the options.
    content: str = ""
    #: The files that its rows attach.
    attachments: RowAttachments = msgspec.field(default_factory=lambda: RowAttachments(Path()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spool is not None:
            self.spool.close()

    def reader(self) -> Reader:
        """A reader from the beginning."""
        spool = None if self.spool is None else cast(BinaryIO, SpoolReader(self.spool))
        return Reader(self.path, spool)

    @property
    def kind(self) -> str:
        """The name of this kind of job."""
        return BATCH

    @property
    def stem(self) -> str:
        """The name of the file without its suffixes."""
        return re.sub(r"\.(jsonl|gz|json|csv|tsv|parquet)", "", self.name)

    @property
    def is_table(self) -> bool:
        """Whether its rows are records of a table."""
        return is_table(self.path)

    @property
    def template(self) -> str:
        """The template of a table's texts."""
        return self.request_options.template

    @property
    def digest_path(self) -> str:
        """The path that is part of the job's digest, besides the content."""
        return self.path

    def continues(self, store: Store, job: Job) -> bool:
        """Whatever its state is."""
        return True

    def is_sibling(self, job: Job) -> bool:
        """Whether a job has the same rows and options, with another `--limit`."""
        request_options = msgspec.structs.replace(self.request_options, limit=job.form.get("limit"))
        rows_digest: str = job.form.get("rows", job.digest)
        return rows_digest == request_options.digest(self.content, self.digest_path)

    @property
    def question(self) -> str:
        """The digest of what is asked about the input, whatever its content is and with any `--limit`."""
        return msgspec.structs.replace(self.request_options, limit=None).digest("", self.digest_path)

    def is_predecessor(self, job: Job) -> bool:
        """Whether a job asked the same about an earlier content of this input."""
        return (job.kind, job.input, job.form.get("question")) == (self.kind, self.path, self.question)

    @property
    def row_numbers(self) -> str:
        """The ids of rows without an id."""
        return ROW_NUMBERS

    def form(self) -> dict[str, Any]:
        """The data that later runs need: what is asked, the limit, the schema of answers, the columns of a Parquet file. With attachments, also the
        digest without them: rows whose files have not changed keep their answers.
        """
        options = self.request_options
        form: dict[str, Any] = {"question": self.question}
        rows_digest = options.digest(self.content, self.digest_path)
        if rows_digest != self.digest:
            form["rows"] = rows_digest
        if options.limit is not None:
            form["limit"] = options.limit
        if options.schema is not None:
            form["schema"] = msgspec.json.decode(options.schema)
        if options.models:
            form["models"] = list(options.models)
        for name, text in (("prompt", options.prompt), ("system", options.system)):
            if text is not None:
                form[name] = text[:LONGEST_NOTED]
        if is_parquet(self.path):
            from headway.batch.tables import parquet_input

            form["columns"] = parquet_input.columns_of(self.path, self.name)
        return form

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """The rows up to the limit, each with its first line. With several models, a row is there once for each."""
        options = self.request_options
        streams = [
            islice(self.attachments.attached(self.rows(router, one)), options.limit)
            for one in options.for_each_model()
        ]
        if not options.models:
            return streams[0]
        must_differ(options.models, router)
        return each_model(streams, options.models)

    def rows(self, router: Router, options: RequestOptions) -> Iterator[tuple[int, Row | BadRow]]:
        """All rows with these options, which name at most one model."""
        if is_parquet(self.path):
            from headway.batch.tables import parquet_input  # imports pyarrow

            return parquet_input.numbered(self.path, self.name, router, options)
        if self.is_table:
            return csv_input.numbered(self.reader(), router, options)
        return rows.numbered(self.reader(), router, options if options.fills else None)

    def ids(self, config: Config) -> Iterator[str]:
        """The id of every good row, in order."""
        return (row.custom_id for _, row in self.numbered(Router(config)) if isinstance(row, Row))

    def ingest(
        self,
        sink: Sink,
        config: Config,
        job: int,
        *,
        options: IngestOptions,
        check: RouteCheck,
        ready: Callable[[], None] = lambda: None,
    ) -> int:
        """Add every row to the store; returns how many bad rows were left out."""
        return RowIntake(sink, config, self, job, options, check).run(ready)


def _check_columns(path: str, request_options: RequestOptions) -> None:
    """Raise if the prompt for a table names a column that it does not have, before any other check of the run."""
    name = Path(path).name
    if is_parquet(path):
        from headway.batch.tables import parquet_input

        parquet_input.check_columns(path, name, request_options)
    elif is_table(path):
        csv_input.check_columns(Reader(path), request_options)


def open_batch(
    path: str, stdin: BinaryIO | None = None, request_options: RequestOptions | None = None
) -> BatchSource:
    """Open an input, and read it once for its digest."""
    request_options = request_options or RequestOptions()
    must_exist(path)
    request_options.check(path)
    if path != "-":
        _check_columns(path, request_options)
        content, has_key = digest_and_search(path, KEY)
        digest = request_options.digest(content, path)
        file = Path(path).absolute()
        attachments = RowAttachments(file.parent)
        source = BatchSource(file.name, str(file), digest, None, request_options, content, attachments)
        return _with_files(source, has_key)
    assert stdin is not None
    with ExitStack() as until_read:
        spool = until_read.enter_context(TemporaryFile())
        while block := stdin.read(_COPY_BYTES):
            spool.write(block)
        spool.seek(0)
        reader = Reader(path, spool)
        has_key = False
        for _, line in reader:
            has_key = has_key or (line is not None and KEY in line)
        digest = request_options.digest(reader.digest, path)
        attachments = RowAttachments(Path.cwd())
        source = BatchSource("stdin", path, digest, spool, request_options, reader.digest, attachments)
        source = _with_files(source, has_key)
        until_read.pop_all()  # From now on it lives as long as the command.
    return source


def _with_files(source: BatchSource, has_key: bool) -> BatchSource:
    """The source with the digest of the files that its rows attach, if any can."""
    if not source.request_options.attach and (source.is_table or not has_key):
        return source
    return msgspec.structs.replace(source, digest=digest_with_files(source, source.attachments.files))
