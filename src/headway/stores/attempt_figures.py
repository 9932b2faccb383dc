"""The attempts of a job as figures: how many in each stretch of time, and a sample of what they took. Only reads.

The database adds up, so a job of any size needs little memory here.
"""

from __future__ import annotations

import msgspec

from headway.stores.database import Database
from headway.stores.row_conversion import span, uid


class StartCount(msgspec.Struct, frozen=True, gc=False):
    """The attempts of a lane that began in one stretch of time: how many, the tokens that its limits were charged, how many were refused."""

    lane: int | None
    place: int
    count: int
    tokens: float
    refused: int


class EndCount(msgspec.Struct, frozen=True, gc=False):
    """The attempts of a lane that ended in one stretch of time."""

    lane: int | None
    place: int
    count: int
    succeeded: int
    cost_usd: float


class AttemptCharge(msgspec.Struct, frozen=True, gc=False):
    """An attempt that succeeded: what the limits of its lane were charged, and how long it took."""

    lane: int
    tokens: float
    input_tokens: float
    output_tokens: float
    took_s: float


class AttemptFigures:
    """The attempts in one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def time_span(self, job: int) -> tuple[float, float] | None:
        """When the first attempt of a job began, and when the last one ended; None without attempts."""
        first, last = self._db.execute("attempt_span", span(job))[0]
        return None if first is None or last is None else (first, max(first, last))

    def starts(self, job: int, from_utc: float, step_s: float) -> list[StartCount]:
        """The attempts that began in each stretch of `step_s` seconds after `from_utc`."""
        return [
            StartCount(*row) for row in self._db.execute("attempt_starts", (*span(job), from_utc, step_s))
        ]

    def ends(self, job: int, from_utc: float, step_s: float) -> list[EndCount]:
        """The attempts that ended in each stretch."""
        return [EndCount(*row) for row in self._db.execute("attempt_ends", (*span(job), from_utc, step_s))]

    def charges(self, job: int, first: int, units: int, most: int) -> list[AttemptCharge]:
        """The first attempts that succeeded, of so many units from the index `first` on."""
        rows = self._db.execute("attempt_charges", (uid(job, first), uid(job, first + units) - 1, most))
        return [AttemptCharge(*row) for row in rows]
