"""Totals of all attempts in a store by lane, read a part at a time: who counts on remembers where the last part ended."""

from __future__ import annotations

import msgspec

from headway.stores.database import Database


class TallyRow(msgspec.Struct, frozen=True, gc=False):
    """Attempts through a lane (by its number; None: through none) that ended in the same way."""

    lane: int | None
    outcome: str
    kind: str | None
    attempts: int
    input_tokens: int
    output_tokens: int
    cost_usd: float


class LaneTally:
    """The totals in one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def last(self) -> int:
        """The number of the latest attempt."""
        [(last,)] = self._db.execute("last_attempt")
        return int(last)

    def attempts(self, after: int, up_to: int) -> list[TallyRow]:
        """The totals of the attempts with these numbers, `up_to` included."""
        return [TallyRow(*row) for row in self._db.execute("tally_attempts", (after, up_to))]

    def waits(self) -> list[tuple[int, str, float]]:
        """(lane, reason, seconds): how long lanes waited, over all jobs."""
        return [(lane, reason, seconds) for lane, reason, seconds in self._db.execute("tally_waits")]
