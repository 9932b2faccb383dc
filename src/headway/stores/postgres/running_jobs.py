"""Which jobs of a store a process runs now, on any machine, and how their runs are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from headway.errors import StoreAway
from headway.stores.postgres.address import Address
from headway.stores.postgres.connection import connect

_PLACE: Final = "SELECT place FROM leases WHERE job = $1 AND is_live(leases)"
_PROGRESS: Final = "SELECT progress FROM leases WHERE job = $1"


class RunningJobs:
    """Any thread may ask. A server that is away knows nothing."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def close(self) -> None:
        """Close the connection. It is made again when it is needed."""
        with self._lock:
            self._drop()

    def is_running(self, job: str, free: Callable[[], str] = str) -> bool:
        """Whether a process has a live lease of the job. False if the server is away. `free`: a place where no process runs the job."""
        place = self._value(_PLACE, job)
        return place is not None and (place == "" or place != free())

    def progress(self, job: str) -> bytes | None:
        """What the process of a job has published last."""
        value = self._value(_PROGRESS, job)
        return None if value is None else bytes(value)

    def _value(self, statement: str, job: str) -> Any:
        with self._lock:
            for _ in range(2):  # The second time over a new connection.
                try:
                    if self._connection is None:
                        self._connection = connect(self._address, read_only=True)
                    row = self._connection.execute(statement.encode(), (job,), binary=True).fetchone()
                    return None if row is None else row[0]
                except (psycopg.Error, StoreAway):
                    self._drop()
        return None

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
