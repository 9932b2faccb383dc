"""The input of a batch: a file or standard input, its digest, and its rows in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, Self

import msgspec

from headway.batch import rows
from headway.batch.file_types import is_parquet, is_table
from headway.batch.intake import RowIntake
from headway.batch.reader import Reader, digest_of, must_exist
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row
from headway.batch.tables import csv_input
from headway.config import Config
from headway.config.routing import Router
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Job

#: The name of this kind of job in the store.
BATCH: Final = "batch"
_COPY_BYTES: Final = 1 << 20


class BatchSource(msgspec.Struct, frozen=True):
    """An input and its digest. Standard input is copied to a temporary file, because it is read twice."""

    name: str
    path: str
    digest: str
    spool: BinaryIO | None = None
    request_options: RequestOptions = RequestOptions()
    #: The digest of its bytes alone, without the options.
    content: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spool is not None:
            self.spool.close()

    def reader(self) -> Reader:
        """A reader from the beginning."""
        if self.spool is not None:
            self.spool.seek(0)
        return Reader(self.path, self.spool)

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

    def is_sibling(self, job: Job) -> bool:
        """Whether a job has the same rows and options, with another `--limit`."""
        request_options = msgspec.structs.replace(self.request_options, limit=job.form.get("limit"))
        return job.digest == request_options.digest(self.content, self.path)

    def form(self) -> dict[str, Any]:
        """The data that later runs need: the limit, the schema of answers, the columns of a Parquet file."""
        form: dict[str, Any] = {}
        if self.request_options.limit is not None:
            form["limit"] = self.request_options.limit
        if self.request_options.schema is not None:
            form["schema"] = msgspec.json.decode(self.request_options.schema)
        if is_parquet(self.path):
            from headway.batch.tables import parquet_input

            form["columns"] = parquet_input.columns_of(self.path, self.name)
        return form

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """The rows up to the limit, each with its first line."""
        request_options = self.request_options
        if is_parquet(self.path):
            from headway.batch.tables import parquet_input  # imports pyarrow

            numbered = parquet_input.numbered(self.path, self.name, router, request_options)
        elif self.is_table:
            numbered = csv_input.numbered(self.reader(), router, request_options)
        else:
            numbered = rows.numbered(
                self.reader(), router, request_options if request_options.fills else None
            )
        return islice(numbered, request_options.limit)

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


def open_batch(
    path: str, stdin: BinaryIO | None = None, request_options: RequestOptions | None = None
) -> BatchSource:
    """Open an input, and read it once for its digest."""
    request_options = request_options or RequestOptions()
    must_exist(path)
    request_options.check(path)
    if path != "-":
        content = digest_of(path)
        digest = request_options.digest(content, path)
        return BatchSource(
            Path(path).name,
            str(Path(path).absolute()),
            digest,
            request_options=request_options,
            content=content,
        )
    assert stdin is not None
    with ExitStack() as until_read:
        spool = until_read.enter_context(TemporaryFile())
        while block := stdin.read(_COPY_BYTES):
            spool.write(block)
        spool.seek(0)
        reader = Reader(path, spool)
        for _ in reader:
            pass
        until_read.pop_all()  # From now on it lives as long as the command.
    return BatchSource(
        "stdin", path, request_options.digest(reader.digest, path), spool, request_options, reader.digest
    )
