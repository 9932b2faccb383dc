"""Which job an input is, and how a new one is taken in.

A job is its input's content together with what the flags say about its requests (`recipe`) and what the models that it
names resolve to. The same again is the same job, whatever became of limits, keys, addresses or the file's name.

Several processes may be given the same input at once; one of them makes the job. Finding it and adding it is one
transaction (`find_or_add`), so a second process finds what the first has added. A job is `ingesting` until all of its rows
are in the store, and the process that takes them in holds the job's lock. A process that dies in the middle leaves such
a job without a lock: the next process removes it (`clear_remains`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Final, Protocol, Self

import msgspec

from headway.batch import rows, table
from headway.batch.family import Families
from headway.batch.reader import Reader, digest_of, must_exist
from headway.batch.recipe import Recipe, is_parquet, is_table
from headway.batch.rows import BadRow, Row
from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import ConfigError, DuplicateId, HeadwayError, InputError, JobBusy, UsageError
from headway.stores.records import Family, Job, NewJob, NewUnit, StoredRoute
from headway.stores.store import Store, chunks, free_name

#: Rows in one transaction: about a tenth of a second's worth, so that other jobs' commits are not kept waiting.
CHUNK: Final = 10_000
#: How the paths end that answer without output tokens.
_EMBEDDED: Final = "/embeddings"
#: Different mistakes that are shown, and that are counted.
MOST_SHOWN: Final = 20
MOST_REMEMBERED: Final = 1_000
_COPY_BYTES: Final = 1 << 20

#: Of rows, of a .csv and of a .parquet.
_EXPECTED: Final = ("one JSON object a line", "a record a line below its header", "at least one record")

#: Told now and then how many rows have been taken in.
Progress = Callable[[int], None]
#: Asked whether rows for a provider's model could be sent: its key is there, its price where one is needed.
Check = Callable[[str, str], None]
#: Makes the lock of a job, by its name.
Locks = Callable[[str], AbstractContextManager[object]]


class Input(msgspec.Struct, frozen=True):
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
    def is_table(self) -> bool:
        """Whether its rows are records of a table."""
        return is_table(self.path)

    def with_limit(self, limit: int | None) -> str:
        """Which job it would be with another number of rows."""
        return msgspec.structs.replace(self.recipe, limit=limit).digest(self.content, self.path)

    def form(self) -> dict[str, Any]:
        """What answers and tables have to look like, for whoever goes on with the job."""
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

            found = parquet.numbered(self.path, self.name, router, recipe)
        elif self.is_table:
            found = table.numbered(self.reader(), router, recipe)
        else:
            found = rows.numbered(self.reader(), router, recipe if recipe.fills else None)
        return islice(found, recipe.limit)


def open_input(path: str, stdin: BinaryIO | None = None, recipe: Recipe | None = None) -> Input:
    """Look at the whole input once."""
    recipe = recipe or Recipe()
    must_exist(path)
    recipe.check(path)
    if path != "-":
        content = digest_of(path)
        digest = recipe.digest(content, path)
        return Input(Path(path).name, str(Path(path).absolute()), digest, recipe=recipe, content=content)
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
    return Input("stdin", path, recipe.digest(reader.digest, path), spool, recipe, reader.digest)


def find(store: Store, config: Config, digest: str) -> Job | None:
    """The job that this content is, with the present settings; the newest, if it was started over."""
    router = Router(config)
    same = (job for job in store.jobs() if job.digest == digest and job.state != "ingesting")
    return next((job for job in same if _resolves(job, router, config)), None)


def relatives(store: Store, config: Config, source: Input) -> list[Job]:
    """The jobs of the same rows, asked the same, that differ in how many of them there are to be (`--limit`); the one with
    the most answers first.
    """
    router = Router(config)
    found = [
        job
        for job in store.jobs()
        if job.state != "ingesting"
        and job.digest not in ("", source.digest)
        and job.digest == source.with_limit(job.form.get("limit"))
        and _resolves(job, router, config)
    ]
    return sorted(found, key=lambda job: -job.good)


def _resolves(job: Job, router: Router, config: Config) -> bool:
    """Whether every model that the job's input names still means the same."""
    for raw, known in job.models.items():
        try:
            target = router.route(raw or None)
        except HeadwayError:
            return False
        if (target.provider, identity_of(config.providers[target.provider]), target.model) != known:
            return False
    return True


def name_for(store: Store, source: Input) -> str:
    """A name for a new job: the file's, and enough of the digest to tell its versions apart."""
    return free_name(_wanted_name(source), {job.name for job in store.jobs() if job.state != "ingesting"})


def _wanted_name(source: Input) -> str:
    stem = re.sub(r"\.(jsonl|gz|json|csv|tsv|parquet)", "", source.name)
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-")[:40] or "job"
    return f"{stem}-{source.digest[:6]}"


def find_or_add(
    store: Store, config: Config, source: Input, out: str, *, fresh: bool = False
) -> tuple[Job, bool]:
    """The job that an input is, or a new one that is `ingesting`; and whether it is new. `fresh` always makes a new one.

    The job may be one that another process takes in now: its models are not known yet, so its content decides.
    """
    router = Router(config)

    def is_same(job: Job) -> bool:
        return not fresh and job.digest == source.digest and _resolves(job, router, config)

    new = NewJob(_wanted_name(source), "batch", source.path, source.digest, out, time.time(), source.form())
    return store.find_or_add(new, is_same)


def clear_remains(store: Store, digest: str, lock: Locks) -> None:
    """Remove jobs of this content whose process died while it took them in."""
    for job in store.jobs():
        if job.digest == digest and job.state == "ingesting":
            try:
                with lock(job.name):
                    if is_ingesting(store, job):
                        store.forget(job.id)
            except JobBusy:
                continue  # Its process lives.


def is_ingesting(store: Store, job: Job) -> bool:
    """Whether this very job is still in the store and takes in units."""
    now = store.job(job.name)
    return now is not None and now.id == job.id and now.state == "ingesting"


def ingest(
    store: Store,
    config: Config,
    source: Input,
    new: Job,
    *,
    skip_bad: bool = False,
    progress: Progress,
    check: Check = lambda provider, model: None,
    earlier_jobs: Sequence[Job] = (),
) -> tuple[Job, int]:
    """Take every row in; returns the job and how many bad rows were left out. The caller has the job's lock, and
    removes the job if this fails.

    `check` is asked once for each model that rows go to, and raises where they could not be sent. What `earlier_jobs` have
    answered is taken over.
    """
    intake = Intake(store, config, source, new.id, check, skip_bad=skip_bad, progress=progress)
    left_out = intake.run(lambda: _take_over(store, new.id, earlier_jobs))
    job = store.job(new.name)
    assert job is not None
    return job, left_out


def _take_over(store: Store, job: int, earlier_jobs: Sequence[Job]) -> None:
    """Answers of the same rows, before the job may run: none of them is paid for twice."""
    for earlier in earlier_jobs:
        after = -1
        while page := store.cache.adopt(job, earlier.id, after, CHUNK, time.time()):
            after = page[-1]


class Sink(Protocol):
    """As much of a store as takes units in."""

    def add_route(self, job: int, route: StoredRoute) -> int: ...

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None: ...

    def add_families(self, job: int, families: Sequence[Family]) -> None: ...

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None: ...


class Intake:
    """Reads rows, checks them all, and stores them for as long as none was bad."""

    def __init__(
        self,
        store: Sink,
        config: Config,
        source: Input,
        job: int,
        check: Check,
        *,
        skip_bad: bool,
        progress: Progress,
    ) -> None:
        self._store, self._config, self._source, self._job = store, config, source, job
        self._check = check
        self._skip_bad, self._progress = skip_bad, progress
        self._kinds = {name: provider.kind for name, provider in config.providers.items()}
        self._identities = {name: identity_of(provider) for name, provider in config.providers.items()}
        self._routes: dict[tuple[str, str], int] = {}
        self._models: dict[str, tuple[str, str, str]] = {}
        self._families = Families(source.recipe.template)
        #: What is wrong → (the first line that is, how many are).
        self._bad: dict[str, tuple[int, int]] = {}
        self._bad_count = 0

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Take all of it in; how many bad rows were left out. `ready` is called when all units are there."""
        try:
            total = self._take_in()
            if self._bad_count and not (self._skip_bad and total):
                raise self._bad_rows()
            if not total:
                raise self._empty()
            ready()
            self._store.add_families(self._job, self._families.found())
            self._store.seal(self._job, total, self._models, self._source.digest)
        except DuplicateId as error:
            raise self._twice(error.custom_id) from None
        return self._bad_count

    def _take_in(self) -> int:
        total = 0
        for chunk in chunks(self._units(self._source.numbered(Router(self._config))), CHUNK):
            self._store.add_units(self._job, total, chunk)
            total += len(chunk)
            self._progress(total)
        return total

    def _empty(self) -> ConfigError:
        expected = _EXPECTED[self._source.is_table + is_parquet(self._source.path)]
        return ConfigError(f"{self._source.name} has no rows", hint=f"{expected} is expected")

    def _units(self, numbered: Iterator[tuple[int, Row | BadRow]]) -> Iterator[NewUnit]:
        for _, row in numbered:
            if isinstance(row, BadRow):
                self._bad_count += 1
                first, count = self._bad.get(row.message, (row.line, 0))
                if count or len(self._bad) < MOST_REMEMBERED:
                    self._bad[row.message] = (first, count + 1)
            elif self._skip_bad or not self._bad_count:
                yield self._unit(row)

    def _unit(self, row: Row) -> NewUnit:
        route = self._routes.get((row.provider, row.model))
        if route is None:
            self._check(row.provider, row.model)
            kind = self._kinds[row.provider]
            route = self._store.add_route(self._job, StoredRoute(row.provider, kind, row.model))
            self._routes[row.provider, row.model] = route
        if row.raw_model not in self._models:
            self._models[row.raw_model] = (row.provider, self._identities[row.provider], row.model)
        most = -1 if row.path.endswith(_EMBEDDED) else int(row.max_tokens)
        return NewUnit(
            row.custom_id, route, row.path, row.body, row.chars, most, row.priority, row.serial, row.metadata,
            self._families.number(route, row.kin),
        )  # fmt: skip

    def _bad_rows(self) -> InputError:
        n = self._bad_count
        what = "1 bad row" if n == 1 else f"{n:,} bad rows"
        shown = list(self._bad.items())[:MOST_SHOWN]
        lines = [
            BadRow(line, message).at(self._source.name)
            + (f" (and {count - 1:,} more rows)" if count > 1 else "")
            for message, (line, count) in shown
        ]
        told = sum(count for _, (_, count) in shown)
        more = [f"… and {n - told:,} more"] if n > told else []
        return InputError(
            f"{self._source.name} has {what}; nothing was sent",
            (*lines, *more),
            hint="mend them" if self._skip_bad else "mend them, or leave them out with --skip-bad-rows",
        )

    def _twice(self, custom_id: str) -> UsageError:
        """Which lines have the same id: worth a second look at the input, since nothing was sent."""
        numbered = self._source.numbered(Router(self._config))
        lines = [str(n) for n, row in numbered if isinstance(row, Row) and row.custom_id == custom_id]
        where = " and ".join(lines[:2])
        return UsageError(
            f"{self._source.name}: the id '{custom_id}' occurs twice (lines {where}); nothing was sent",
            hint="give each row an id of its own",
        )
