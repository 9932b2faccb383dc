"""Rows of a batch → units of a job. Every row is checked before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headway.batch.conversations import RowDependencies
from headway.batch.file_types import is_parquet
from headway.batch.prompt_families import Families
from headway.batch.rows import BadRow, Row
from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import ConfigError, DuplicateId, InputError, UsageError
from headway.jobs.base import IngestOptions, RouteCheck, Sink
from headway.stores.records import Edge, NewUnit, StoredRoute
from headway.stores.store import chunks

if TYPE_CHECKING:
    from headway.batch.input_source import BatchSource

#: Rows in one transaction: about 0.1 s, so that the commits of other jobs do not wait.
CHUNK: Final = 10_000
#: The end of paths whose answers have no output tokens.
_EMBEDDED: Final = "/embeddings"
#: Different mistakes that are shown, and that are remembered.
MOST_SHOWN: Final = 20
MOST_REMEMBERED: Final = 1_000

#: The expected content of a file of rows, of a .csv and of a .parquet.
_EXPECTED: Final = ("one JSON object a line", "a record a line below its header", "at least one record")


class RowIntake:
    """Reads and checks all rows, and stores them until a bad row is found."""

    def __init__(
        self,
        store: Sink,
        config: Config,
        source: BatchSource,
        job: int,
        options: IngestOptions,
        check: RouteCheck,
    ) -> None:
        self._store, self._config, self._source, self._job = store, config, source, job
        self._check = check
        self._skip_bad, self._progress = options.skip_bad, options.progress
        self._kinds = {name: provider.kind for name, provider in config.providers.items()}
        self._identities = {name: identity_of(provider) for name, provider in config.providers.items()}
        self._routes: dict[tuple[str, str], int] = {}
        self._models: dict[str, tuple[str, str, str]] = {}
        self._families = Families(source.request_options.template)
        self._dependencies = RowDependencies()
        self._count = 0
        #: A mistake → (the first line with it, the number of lines with it).
        self._bad: dict[str, tuple[int, int]] = {}
        self._bad_count = 0

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Store all rows; returns how many bad rows were left out. `ready` is called when all units are stored."""
        try:
            total = self._store_units()
            if self._bad_count and not (self._skip_bad and total):
                raise self._bad_rows()
            if not total:
                raise self._empty()
            ready()
            self._store.add_families(self._job, self._families.all())
            self._store.seal(self._job, total, self._models, self._source.digest)
        except DuplicateId as error:
            raise self._duplicate_id(error.custom_id) from None
        return self._bad_count

    def _store_units(self) -> int:
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
        for line, row in numbered:
            if isinstance(row, BadRow):
                self._note_bad(row)
                continue
            try:
                after, length = self._dependencies.edges(self._count, row)
            except UsageError as error:
                self._note_bad(BadRow(line, str(error)))
                continue
            self._count += 1
            if self._skip_bad or not self._bad_count:
                yield self._unit(row, after, length)

    def _note_bad(self, row: BadRow) -> None:
        self._bad_count += 1
        first, count = self._bad.get(row.message, (row.line, 0))
        if count or len(self._bad) < MOST_REMEMBERED:
            self._bad[row.message] = (first, count + 1)

    def _unit(self, row: Row, after: tuple[Edge, ...], length: int) -> NewUnit:
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
            row.custom_id, route, row.path, row.body, length, most, row.priority, row.serial, row.metadata,
            self._families.number(route, row.traits), after,
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
        counted = sum(count for _, (_, count) in shown)
        more = [f"… and {n - counted:,} more"] if n > counted else []
        return InputError(
            f"{self._source.name} has {what}; nothing was sent",
            (*lines, *more),
            hint="fix them" if self._skip_bad else "fix them, or leave them out with --skip-bad-rows",
        )

    def _duplicate_id(self, custom_id: str) -> UsageError:
        """The error of an id that occurs twice. The input is read again to find the lines."""
        numbered = self._source.numbered(Router(self._config))
        lines = [str(n) for n, row in numbered if isinstance(row, Row) and row.custom_id == custom_id]
        where = " and ".join(lines[:2])
        return UsageError(
            f"{self._source.name}: the id '{custom_id}' occurs twice (lines {where}); nothing was sent",
            hint="give each row an id of its own",
        )
