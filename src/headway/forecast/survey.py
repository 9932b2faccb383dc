"""Counts the requests of a file for each route. Every row is read, a sample is kept, nothing is sent or written.

Memory hardly grows with the file: a random sample of rows is kept for each route, and eight bytes for each id.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec

from headway.config import Config
from headway.errors import DuplicateId
from headway.jobs.base import IngestOptions, JobSource, RouteCheck
from headway.stores.records import Edge, Family, NewAttachment, NewUnit, StoredRoute

#: The sample of a route (docs/decisions/0014).
KEPT: Final = 20_000
#: Duplicate ids are found by their hashes, in so many groups, so that each group of a million rows is small.
_GROUPS: Final = 64

#: In the body of a row with settings of its own for an agent.
_AGENT: Final = b'"agent"'


class _AgentRow(msgspec.Struct):
    """The part of a row that is about its agent."""

    agent: Any = None


_decode: Final = msgspec.json.Decoder(_AgentRow).decode

#: Whether a unit for a route takes an answer that is there already. Called once for each unit.
Reuse = Callable[[StoredRoute, NewUnit], bool]
#: (provider, model)
To = tuple[str, str]


class Sampled(msgspec.Struct, frozen=True, gc=False):
    """A row of the sample: its index, and what the scheduler needs to know of it."""

    index: int
    chars: int
    max_tokens: int
    priority: int
    serial: bool


class Load(msgspec.Struct):
    """The requests of one family for one route. `open_ended` counts those whose answers have no limit."""

    provider: str
    model: str
    requests: int = 0
    chars: int = 0
    max_output_tokens: int = 0
    open_ended: int = 0
    sample: list[Sampled] = []
    #: The family of its rows; None if they are too mixed.
    family: Family | None = None
    #: The directories that rows for an agent name; "" stands for rows that name none. Empty: no row names one.
    directories: set[str] = set()


class Survey(msgspec.Struct, frozen=True):
    """The content of a file; `loads` has the rows that are still to be sent."""

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
    reuse: Reuse | None = None,
    kept: int = KEPT,
) -> Survey:
    """Read every row as `ingest` does, with the same errors. `done` says how many of the first rows of a route need not be sent
    again, `reuse` which other rows need not.
    """
    tally = _Tally(source, config, done or {}, kept, reuse)
    bad = source.ingest(tally, config, 0, options=options, check=check)
    for load in tally.loads:
        load.sample.sort(key=lambda row: row.index)
    chain = max(tally.depths.values(), default=0)
    return Survey(tally.total, bad, [load for load in tally.loads if load.requests], len(tally.depths), chain)


class _Tally:
    """Takes units as a store does, but only counts them."""

    def __init__(
        self, source: JobSource, config: Config, done: Mapping[To, int], kept: int, reuse: Reuse | None
    ) -> None:
        self._source, self._config, self._kept, self._reuse = source, config, kept, reuse
        #: How many of the next rows to a model need not be sent.
        self._skip = dict(done)
        self.total = 0
        self.loads: list[Load] = []
        self._routes: list[StoredRoute] = []
        self._by_family: dict[tuple[int, int], Load] = {}
        self._to: list[To] = []
        self._ids = [array("q") for _ in range(_GROUPS)]
        self._random = Random(0).random
        #: For each row that waits for others: the length of the chain of answers up to its own.
        self.depths: dict[int, int] = {}

    def add_route(self, job: int, route: StoredRoute) -> int:
        self._routes.append(route)
        self._to.append((route.provider, route.model))
        return len(self._routes) - 1

    def add_attachments(self, job: int, files: Sequence[NewAttachment]) -> None:
        """Their tokens are part of their units. Their content is not read."""

    def add_values(self, job: int, name: str, first: int, values: Sequence[bytes]) -> None:
        """They are no requests."""

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        for family in families:
            if load := self._by_family.get((family.route, family.number)):
                load.family = family

    def _load(self, unit: NewUnit) -> Load:
        load = self._by_family.get((unit.route, unit.family))
        if load is None:
            route = self._routes[unit.route]
            load = self._by_family[unit.route, unit.family] = Load(
                route.provider, route.model, sample=[], directories=set()
            )
            self.loads.append(load)
        return load

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        groups = self._ids
        for index, unit in enumerate(units, first):
            known = hash(unit.custom_id)
            groups[known % _GROUPS].append(known)
            if unit.after:
                self.depths[index] = 1 + max(self.depths.get(_index_of(edge), 1) for edge in unit.after)
            if self._skip and self._skip.get(to := self._to[unit.route]):
                self._skip[to] -= 1
                continue
            if self._reuse is not None and self._reuse(self._routes[unit.route], unit):
                continue
            load = self._load(unit)
            place = load.requests
            load.requests += 1
            load.chars += unit.chars
            load.max_output_tokens += max(0, unit.max_tokens)
            load.open_ended += unit.max_tokens == 0
            if _AGENT in unit.body or load.directories:
                load.directories.add(_directory(unit.body))
            if place >= self._kept:
                place = int(self._random() * load.requests)
            if place < self._kept:
                row = Sampled(index, unit.chars, unit.max_tokens, unit.priority, unit.serial)
                load.sample[place : place + 1] = [row]
        self.total = first + len(units)

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """All rows have been read: no two may have the same id."""
        suspects = {
            known for group in self._ids if len(set(group)) < len(group) for known in _repeated(group)
        }
        seen: set[str] = set()
        for custom_id in self._source.ids(self._config) if suspects else ():
            if hash(custom_id) in suspects:
                if custom_id in seen:
                    raise DuplicateId(custom_id)
                seen.add(custom_id)


def _directory(body: bytes) -> str:
    """The directory that a row names for its agent; "" if it names none."""
    agent = _decode(body).agent if _AGENT in body else None
    named = agent.get("directory") if isinstance(agent, dict) else None
    return named if isinstance(named, str) else ""


def _index_of(edge: Edge) -> int:
    assert isinstance(edge.before, int)  # An input names earlier rows by index.
    return edge.before


def _repeated(group: array[int]) -> Iterator[int]:
    seen: set[int] = set()
    for known in group:
        if known in seen:
            yield known
        seen.add(known)
