"""What a file would ask of each route: every row is looked at, a sample is kept, nothing is sent or written.

Memory does not grow with the file: of each route a fair sample of rows is kept, and of every id eight bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

import msgspec

from headway.config import Config
from headway.errors import DuplicateId
from headway.jobs.base import IngestOptions, JobSource, RouteCheck
from headway.stores.records import Edge, Family, NewUnit, StoredRoute

#: Rows that are kept of a route: what of a longer file is looked at closely (docs/decisions/0014).
KEPT: Final = 20_000
#: Ids are told apart by their hashes, in so many heaps: a heap of a million rows' is small.
_HEAPS: Final = 64

#: (provider, model)
To = tuple[str, str]


class Sampled(msgspec.Struct, frozen=True, gc=False):
    """A row of the sample: its place in the file, and what it is to a scheduler."""

    index: int
    chars: int
    max_tokens: int
    priority: int
    serial: bool


class Load(msgspec.Struct):
    """What one route would get of one family. `open_ended` are requests that nothing limits the answer of."""

    provider: str
    model: str
    requests: int = 0
    chars: int = 0
    max_output_tokens: int = 0
    open_ended: int = 0
    sample: list[Sampled] = []
    #: What its rows ask; None where they are too mixed to tell.
    family: Family | None = None


class Survey(msgspec.Struct, frozen=True):
    """What a file holds; `loads` are of the rows that there are left to send."""

    rows: int
    bad_rows: int
    loads: list[Load]
    #: Rows that wait for the answers of others, and the most rows that wait for one another in a row.
    waiting: int = 0
    longest_chain: int = 0


def survey(
    config: Config,
    source: JobSource,
    *,
    options: IngestOptions,
    check: RouteCheck,
    done: Mapping[To, int] | None = None,
    kept: int = KEPT,
) -> Survey:
    """Look at every row as `ingest` does, with the same errors. `done` says how many of a route's rows, the first of
    them, need not be sent any more.
    """
    tally = _Tally(source, config, done or {}, kept)
    bad = source.ingest(tally, config, 0, options=options, check=check)
    for load in tally.loads:
        load.sample.sort(key=lambda row: row.index)
    chain = max(tally.depths.values(), default=0)
    return Survey(tally.total, bad, [load for load in tally.loads if load.requests], len(tally.depths), chain)


class _Tally:
    """Takes units as a store does, and only counts them."""

    def __init__(self, source: JobSource, config: Config, done: Mapping[To, int], kept: int) -> None:
        self._source, self._config, self._kept = source, config, kept
        self._done = done
        self.total = 0
        self.loads: list[Load] = []
        self._routes: list[StoredRoute] = []
        self._by_family: dict[tuple[int, int], Load] = {}
        self._skip: list[int] = []
        self._ids = [array("q") for _ in range(_HEAPS)]
        self._random = Random(0).random
        #: By row, for those that wait for others: how many answers there must be one after the other until it has its own.
        self.depths: dict[int, int] = {}

    def add_route(self, job: int, route: StoredRoute) -> int:
        self._routes.append(route)
        self._skip.append(self._done.get((route.provider, route.model), 0))
        return len(self._routes) - 1

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        for family in families:
            if load := self._by_family.get((family.route, family.number)):
                load.family = family

    def _load(self, unit: NewUnit) -> Load:
        load = self._by_family.get((unit.route, unit.family))
        if load is None:
            route = self._routes[unit.route]
            load = self._by_family[unit.route, unit.family] = Load(route.provider, route.model, sample=[])
            self.loads.append(load)
        return load

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        heaps = self._ids
        for index, unit in enumerate(units, first):
            known = hash(unit.custom_id)
            heaps[known % _HEAPS].append(known)
            if unit.after:
                self.depths[index] = 1 + max(self.depths.get(_index_of(edge), 1) for edge in unit.after)
            if self._skip[unit.route]:
                self._skip[unit.route] -= 1
                continue
            load = self._load(unit)
            place = load.requests
            load.requests += 1
            load.chars += unit.chars
            load.max_output_tokens += max(0, unit.max_tokens)
            load.open_ended += unit.max_tokens == 0
            if place >= self._kept:
                place = int(self._random() * load.requests)
            if place < self._kept:
                row = Sampled(index, unit.chars, unit.max_tokens, unit.priority, unit.serial)
                load.sample[place : place + 1] = [row]
        self.total = first + len(units)

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """All rows have been seen: none may have another's id."""
        suspects = {known for heap in self._ids if len(set(heap)) < len(heap) for known in _repeated(heap)}
        seen: set[str] = set()
        for custom_id in self._source.ids(self._config) if suspects else ():
            if hash(custom_id) in suspects:
                if custom_id in seen:
                    raise DuplicateId(custom_id)
                seen.add(custom_id)


def _index_of(edge: Edge) -> int:
    assert isinstance(edge.before, int)  # An input names the rows before by their index.
    return edge.before


def _repeated(heap: array[int]) -> Iterator[int]:
    seen: set[int] = set()
    for known in heap:
        if known in seen:
            yield known
        seen.add(known)
