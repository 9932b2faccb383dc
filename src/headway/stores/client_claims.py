"""Claims of HTTP clients and `Lane` objects: they use the lanes of a store as jobs do, and are no jobs.

A client has a number far above those of jobs. Its rows are removed when it ends. If its process was killed, they no longer count
after some seconds, and the next client that ends removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headway.stores.database import Database

#: Numbers of clients begin here.
FIRST_CLIENT: Final = 1 << 53
#: Claims that were not renewed for so long are removed.
FORGOTTEN_S: Final = 3600.0


class ClientClaims:
    """What clients write into one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def renew(
        self,
        client: int,
        claims: Mapping[int, tuple[bytes, float]],
        lanes: Mapping[int, tuple[bytes, bytes, float]],
    ) -> None:
        """Record claims on lanes, and what lanes have learned, as in a `WriteBatch`."""
        with self._db.transaction():
            for lane, (claim, utc) in claims.items():
                self._db.execute("claim", (lane, client, claim.decode(), utc))
            for lane, (record, view, utc) in lanes.items():
                self._db.execute("set_lane", (record.decode(), view.decode(), utc, lane))

    def end(self, client: int, lanes: Mapping[int, tuple[bytes, bytes, float]], utc: float) -> None:
        """The client uses its lanes no more."""
        self.renew(client, {}, lanes)
        with self._db.transaction():
            self._db.execute("forget_claims", (client,))
            self._db.execute("forget_old_clients", (FIRST_CLIENT, utc - FORGOTTEN_S))
