"""Units in lists: the next ones that a filter accepts, units by the beginning of their id, and the rows that a page shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headway.stores.database import Database
from headway.stores.row_conversion import LOWER, json_of, span, uid

#: Bytes of a request and of an answer that are read for a row. The first texts of a body are near its beginning.
READ_BYTES: Final = 65_536
#: Above every id.
_LAST: Final = "\U0010ffff"


class ListedUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit as a row. Of its request and its answer it has the first bytes."""

    index: int
    custom_id: str
    status: str
    lane: str
    attempts: int
    started_utc: float | None
    finished_utc: float | None
    cost_usd: float | None
    code: str | None
    message: str | None
    request: bytes
    answer: bytes | None


class UnitFilter(msgspec.Struct, frozen=True):
    """Which units a list has; empty: all. `lane` is a lane's name, or the provider/model of units that were not sent yet."""

    statuses: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    lane: str = ""

    def __bool__(self) -> bool:
        return bool(self.statuses or self.codes or self.lane)


class UnitLists:
    """The lists of one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def rows(self, job: int, indexes: Sequence[int]) -> list[ListedUnit]:
        """These units, in this order."""
        uids = json_of([uid(job, index) for index in indexes])
        return [ListedUnit(*row) for row in self._db.execute("listed_units", (uids, READ_BYTES))]

    def next(self, job: int, after: int, upto: int, limit: int, wanted: UnitFilter) -> list[int]:
        """The indexes of the next units above `after`, up to `upto`, that the filter accepts."""
        first, last = uid(job, after), min(uid(job, upto), span(job)[1])
        if not wanted:
            return [number & LOWER for (number,) in self._db.execute("next_uids", (first, last, limit))]
        values = (first, last, *self._values(job, wanted), limit)
        return [number & LOWER for (number,) in self._db.execute("filtered_uids", values)]

    def accepted(self, job: int, indexes: Sequence[int], wanted: UnitFilter) -> list[int]:
        """Those of these units that the filter accepts, in this order."""
        if not wanted:
            return list(indexes)
        uids = json_of([uid(job, index) for index in indexes])
        rows = self._db.execute("filtered_among", (uids, *self._values(job, wanted)))
        return [number & LOWER for (number,) in rows]

    def by_id(self, job: int, prefix: str, after: str, limit: int) -> list[tuple[int, str]]:
        """(index, id) of the next units whose id begins so, above the id `after`, by id."""
        rows = self._db.execute("uids_by_id_prefix", (job, prefix, prefix + _LAST, after, limit))
        return [(number & LOWER, name) for number, name in rows]

    def ids(self, job: int, indexes: Sequence[int]) -> dict[int, str]:
        """The ids of these units."""
        rows = self._db.execute("ends_of", (json_of([uid(job, index) for index in indexes]),))
        return {number & LOWER: name for number, name, _ in rows}

    def failed_before(self, job: int, indexes: Sequence[int]) -> set[int]:
        """Those of these units of which an attempt has failed."""
        rows = self._db.execute("failed_before", (json_of([uid(job, index) for index in indexes]),))
        return {number & LOWER for (number,) in rows}

    def attempted_since(self, job: int, attempt: int, limit: int) -> tuple[list[int], int]:
        """The units with attempts that were recorded after this one, and the last recorded one of them, of any job."""
        rows = self._db.execute("attempted_since", (attempt, limit))
        first, last = span(job)
        indexes = dict.fromkeys(number & LOWER for _, number in rows if first <= number <= last)
        return list(indexes), rows[-1][0] if rows else attempt

    def last_attempt(self) -> int:
        """The number of the last recorded attempt, of any job."""
        number: int = self._db.execute("last_attempt", ())[0][0]
        return number

    def _values(self, job: int, wanted: UnitFilter) -> tuple[Any, ...]:
        lanes = routes = None
        if wanted.lane:
            lanes = json_of([number for (number,) in self._db.execute("lanes_named", (wanted.lane,))])
            routes = json_of(
                [
                    number
                    for number, provider, _, model, *_ in self._db.execute("routes", (job,))
                    if wanted.lane == (f"{provider}/{model}" if model else provider)
                ]
            )
        statuses, codes = (json_of(names) if names else None for names in (wanted.statuses, wanted.codes))
        return statuses, codes, lanes, routes
