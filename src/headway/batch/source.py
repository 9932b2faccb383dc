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

from headway.batch import rows, table
from headway.batch.intake import RowIntake
from headway.batch.reader import Reader, digest_of, must_exist
from headway.batch.recipe import Recipe, is_parquet, is_table
from headway.batch.rows import BadRow, Row
from headway.config import Config
from headway.config.routing import Router
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Job

#: The name of this kind of job in the store.
BATCH: Final = "batch"
_COPY_BYTES: Final = 1 << 20


class BatchSource(msgspec.Struct, frozen=True):
    """An input and its digest. Standard input is kept in a file without a name, because it is read twice."""

    name: str
    path: str
    digest: str
    spool: BinaryIO | None = None
    recipe: Recipe = Recipe()
    #: The digest of its bytes alone, whatever is asked about them.
    content: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.spool is not None:
            self.spool.close()

    def reader(self) -> Reader:
        """From the beginning."""
        if self.spool is not None:
            self.spool.seek(0)
        return Reader(self.path, self.spool)

    @property
    def kind(self) -> str:
        """The name of this kind of job."""
        return BATCH

    @property
    def stem(self) -> str:
        """The file's name without its endings."""
        return re.sub(r"\.(jsonl|gz|json|csv|tsv|parquet)", "", self.name)

    @property
    def is_table(self) -> bool:
        """Whether its rows are records of a table."""
        return is_table(self.path)

    def is_sibling(self, job: Job) -> bool:
        """Whether a job is of the same rows, asked the same, with another `--limit`."""
        recipe = msgspec.structs.replace(self.recipe, limit=job.form.get("limit"))
        return job.digest == recipe.digest(self.content, self.path)

    def form(self) -> dict[str, Any]:
        """What later runs need: the number of rows, the schema of answers, the columns of a Parquet file."""
        form: dict[str, Any] = {}
        if self.recipe.limit is not None:
            form["limit"] = self.recipe.limit
        if self.recipe.schema is not None:
            form["schema"] = msgspec.json.decode(self.recipe.schema)
        if is_parquet(self.path):
            from headway.batch import parquet

            form["columns"] = parquet.columns_of(self.path, self.name)
        return form

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """The rows that there are to be, each with the line it begins at."""
        recipe = self.recipe
        if is_parquet(self.path):
            from headway.batch import parquet  # It brings pyarrow.

            numbered = parquet.numbered(self.path, self.name, router, recipe)
        elif self.is_table:
            numbered = table.numbered(self.reader(), router, recipe)
        else:
            numbered = rows.numbered(self.reader(), router, recipe if recipe.fills else None)
        return islice(numbered, recipe.limit)

    def ids(self, config: Config) -> Iterator[str]:
        """The id of every row that is not bad, in order."""
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
        """Take every row in; returns how many bad rows were left out."""
        return RowIntake(sink, config, self, job, options, check).run(ready)


def open_batch(path: str, stdin: BinaryIO | None = None, recipe: Recipe | None = None) -> BatchSource:
    """Look at the whole input once."""
    recipe = recipe or Recipe()
    must_exist(path)
    recipe.check(path)
    if path != "-":
        content = digest_of(path)
        digest = recipe.digest(content, path)
        return BatchSource(
            Path(path).name, str(Path(path).absolute()), digest, recipe=recipe, content=content
        )
    assert stdin is not None
    with ExitStack() as until_it_is_read:
        spool = until_it_is_read.enter_context(TemporaryFile())
        while block := stdin.read(_COPY_BYTES):
            spool.write(block)
        spool.seek(0)
        reader = Reader(path, spool)
        for _ in reader:
            pass
        until_it_is_read.pop_all()  # From here on it lives as long as the command.
    return BatchSource("stdin", path, recipe.digest(reader.digest, path), spool, recipe, reader.digest)
