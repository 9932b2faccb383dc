"""Rows of a batch → units of a job. Every row is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headway.batch.attachments.file_intake import FileIntake
from headway.batch.attachments.row_attachments import RowAttachments
from headway.batch.conversations import RowDependencies
from headway.batch.file_types import is_parquet
from headway.batch.input_problems import InputProblems
from headway.batch.prompt_families import Families
from headway.batch.request_options import RequestOptions
from headway.batch.rows import BadRow, Row
from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import ConfigError, DuplicateId, HeadwayError, UsageError
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Edge, NewUnit, StoredRoute
from headway.stores.store import chunks

#: Rows in one transaction: about 0.1 s, so that the commits of other jobs do not wait.
CHUNK: Final = 10_000
#: The end of paths whose answers have no output tokens.
_EMBEDDED: Final = "/embeddings"

#: The expected content of a file of rows, of a .csv and of a .parquet.
_EXPECTED: Final = ("one JSON object per line", "one record per line below the header", "at least one record")


class RowSource(Protocol):
    """Where rows come from."""

    @property
    def name(self) -> str:
        """The input in messages."""

    @property
    def path(self) -> str:
        """Its path; its suffix says what is expected in it."""

    @property
    def digest(self) -> str:
        """The digest of the job."""

    @property
    def is_table(self) -> bool:
        """Whether its rows are records of a table."""

    @property
    def template(self) -> str:
        """The template of the texts of all rows; "" if each has its own."""

    @property
    def request_options(self) -> RequestOptions:
        """What is asked, besides the rows."""

    @property
    def attachments(self) -> RowAttachments:
        """The files that its rows attach."""

    def numbered(self, router: Router) -> Iterator[tuple[int, Row | BadRow]]:
        """The rows, each with its line."""


class RowIntake:
    """Reads, checks and stores all rows. If rows are wrong, one error names all of them."""

    def __init__(
        self,
        store: Sink,
        config: Config,
        source: RowSource,
        job: int,
        options: IngestOptions,
        check: RouteCheck,
    ) -> None:
        self._store, self._source, self._job = store, source, job
        self._check = check
        self._skip_bad, self._progress, self._warn = options.skip_bad, options.progress, options.warn
        self._kinds = {name: provider.kind for name, provider in config.providers.items()}
        self._identities = {name: identity_of(provider) for name, provider in config.providers.items()}
        self._routes: dict[tuple[str, str], int] = {}
        self._models: dict[str, tuple[str, str, str]] = {}
        self._families = Families(source.template)
        #: By model, if there are several: each has its own conversations and stored answers.
        self._dependencies = {model: RowDependencies() for model in source.request_options.models or ("",)}
        self._files = FileIntake(store, source.attachments.files, job)
        self._count = 0
        self._bad_count = 0
        self._router = Router(config)

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Store all rows; returns how many bad rows were left out. `ready` is called when all units are stored."""
        try:
            total = self._store_units()
            if not total:
                raise self._problems() if self._bad_count else self._empty()
            # The models of a job have the same rows, and the same warnings.
            links = next(iter(self._dependencies.values()))
            for warning in (*links.unresolved.warnings(), *self._files.warnings()):
                self._warn(warning)
            self._files.flush()
            ready()
            self._store.add_families(self._job, self._families.all())
            self._store.seal(self._job, total, self._models, self._source.digest)
        except DuplicateId:
            raise self._problems() from None
        return self._bad_count

    def _store_units(self) -> int:
        total = 0
        for chunk in chunks(self._units(self._source.numbered(self._router)), CHUNK):
            self._store.add_units(self._job, total, chunk)
            total += len(chunk)
            self._progress(total)
        return total

    def _problems(self) -> HeadwayError:
        return InputProblems(self._source, self._router).error(skip_bad=self._skip_bad)

    def _empty(self) -> ConfigError:
        expected = _EXPECTED[self._source.is_table + is_parquet(self._source.path)]
        return ConfigError(f"{self._source.name} has no rows", hint=f"{expected} is expected")

    def _units(self, numbered: Iterator[tuple[int, Row | BadRow]]) -> Iterator[NewUnit]:
        for line, row in numbered:
            if isinstance(row, BadRow):
                self._note_bad(row)
                continue
            try:
                after, length = self._dependencies[row.variant].edges(self._count, row)
            except UsageError as error:
                self._note_bad(BadRow(line, str(error), row.store_as))
                continue
            self._count += 1
            yield self._unit(row, after, length)

    def _note_bad(self, row: BadRow) -> None:
        if not self._skip_bad:
            raise self._problems()
        self._bad_count += 1
        if row.store_as:
            for dependencies in self._dependencies.values():
                dependencies.unresolved.left_out(row.line, row.store_as)

    def _unit(self, row: Row, after: tuple[Edge, ...], length: int) -> NewUnit:
        route = self._routes.get((row.provider, row.model))
        if route is None:
            self._check(row.provider, row.model)
            kind = self._kinds[row.provider]
            route = self._store.add_route(self._job, StoredRoute(row.provider, kind, row.model))
            self._routes[row.provider, row.model] = route
        if row.raw_model not in self._models:
            if warning := self._router.suspected_mistake(row.raw_model):
                self._warn(f"warning: {warning}")
            self._models[row.raw_model] = (row.provider, self._identities[row.provider], row.model)
        if row.files:
            self._files.add(row.files)
        most = -1 if row.path.endswith(_EMBEDDED) else int(row.max_tokens)
        return NewUnit(
            row.custom_id, route, row.path, row.body, length, most, row.priority, row.serial, row.metadata,
            self._families.number(route, row.traits), after,
        )  # fmt: skip
