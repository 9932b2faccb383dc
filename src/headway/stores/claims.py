"""Claims: what those that use lanes now want of them. A claimant is one run of a job, or one client (HTTP clients and `Lane` objects).

A claim is written when it changes. Each claimant also says once a second that it is here, in one row; without that its claims no longer
count after `COUNTS_S`, by the clock of the store. So a process that was killed, or cannot reach the store, loses its part of the lanes.
Whoever reads gets only the claims that have changed since its last look: claims are numbered in the order of their commits.

In a file they are a part of the next commit. On a server commits wait for those of other processes and for the disk, so claims are written
apart from them (`Database.write_apart`). A crash of the server may undo the last ones. It also ends the connection, and after that everything is
written and read anew.

A client is no job. It has a number far above those of jobs and of their workers. Rows are removed when a job or a client ends, and
those of killed processes when another one begins or ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Final

import msgspec

from headway.stores.database import Database, Values
from headway.stores.records import StoredClaim

#: Numbers of clients begin here.
FIRST_CLIENT: Final = 1 << 53
#: How long claims count after their claimant was last seen.
COUNTS_S: Final = 4.0
#: Rows of claimants that were not seen for so long are removed.
FORGOTTEN_S: Final = 3600.0


class ClaimNews(msgspec.Struct, frozen=True):
    """A look at the claims of others: the claimants that are here now, and the claims that have changed since the look before."""

    present: frozenset[int] = frozenset()
    changed: tuple[StoredClaim, ...] = ()
    #: The number of the latest change that this look saw.
    known: int = 0
    #: Whether this is the first look of a connection: it brought all claims, and ours may be lost.
    anew: bool = False


class Claims:
    """The claims of one store."""

    def __init__(self, db: Database) -> None:
        self._db = db
        #: The connection of the latest look.
        self._connection = 0

    @property
    def are_apart(self) -> bool:
        """Whether they are better written on their own than together with other records."""
        return self._db.writes_apart

    def news(self, job: int, known: int, utc: float) -> ClaimNews:
        """What others claim. `known`: of the look before; `utc`: now, for a store without a clock of its own."""
        present = self._db.execute("claimants", (job, COUNTS_S, utc))
        before, self._connection = self._connection, self._db.connection_number()
        anew = self._connection != before
        known = 0 if anew else known
        rows = self._db.execute("changed_claims", (job, known))
        changed = tuple(
            StoredClaim(claimant, lane, name, claim.encode(), lane_name, _is_of_program(key))
            for claimant, lane, name, claim, lane_name, key, _ in rows
        )
        latest = max((row[-1] for row in rows), default=known)
        return ClaimNews(frozenset(claimant for (claimant,) in present), changed, latest, anew)

    def write(
        self, claimant: int, job: int, claims: Iterable[tuple[int, bytes]], seen_utc: float | None
    ) -> None:
        """Write claims `(lane, JSON)`, within a transaction as a part of it. `seen_utc`: the claimant is here now.

        In the order in which `forget` removes them, so that neither waits for the other for ever.
        """
        statements: list[tuple[str, Values]] = [
            ("claim", (claimant, lane, claim.decode())) for lane, claim in sorted(claims)
        ]
        if seen_utc is not None:
            statements.append(("note_claimant", (claimant, job, seen_utc)))
        if statements:
            self._db.write_apart(statements)

    def renew_client(
        self,
        client: int,
        claims: Iterable[tuple[int, bytes]],
        lanes: Mapping[int, tuple[bytes, bytes, float]],
        seen_utc: float | None,
    ) -> None:
        """Write the claims of a client, and what lanes have learned, as a `WriteBatch` does for a job."""
        with nullcontext() if self.are_apart else self._db.transaction():
            self.write(client, client, claims, seen_utc)
            if lanes:
                self._learn(lanes)

    def _learn(self, lanes: Mapping[int, tuple[bytes, bytes, float]]) -> None:
        with self._db.transaction():
            for lane, (record, view, utc) in lanes.items():
                self._db.execute("set_lane", (record.decode(), view.decode(), utc, lane))

    def end_client(self, client: int, lanes: Mapping[int, tuple[bytes, bytes, float]], utc: float) -> None:
        """The client uses its lanes no more."""
        with self._db.transaction():
            self._learn(lanes)
            self.forget(client, utc)

    def forget(self, job: int, utc: float) -> None:
        """Remove what runs of a job, or a client, have claimed, and what was left by processes that died; within a transaction."""
        self._db.execute("forget_claims", (job,))
        self._db.execute("forget_claimants", (job,))
        self._db.execute("forget_old_claims", (FORGOTTEN_S, utc))
        self._db.execute("forget_old_claimants", (FORGOTTEN_S, utc))


def _is_of_program(key: str) -> bool:
    """Whether a Python program has given the lane its name. A lane of a provider has an address in its key."""
    return "|" not in key.partition(":")[0]
