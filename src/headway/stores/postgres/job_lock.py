"""One process runs a job at a time, on any machine: it holds the lease of the job.

A thread renews the lease by a connection of its own, which also holds the advisory lock of the lease. If the connection or the server is lost,
it is made again, and the lease is renewed. If another process has taken the lease meanwhile, the job is its own now: the store refuses every
transaction of this process, and the run ends (`lost`). While the lease is not renewed in time, nothing new is sent (`holds`).
"""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from headway.errors import JobBusy, JobTaken, StoreError
from headway.stores.files import make_folder
from headway.stores.job_lock import JOB_LEVELS, PATIENCE_S, STEP_S, JobLock
from headway.stores.postgres import lease_record
from headway.stores.postgres.address import Address
from headway.stores.postgres.connection import connect
from headway.stores.postgres.errors import explanation
from headway.stores.store import Store
from headway.stores.write_batch import job_taken

Connection = psycopg.Connection[tuple[Any, ...]]

#: How often a lost connection is tried again.
RETRY_S: Final = 0.5
#: How long the end of a job waits for the end of its lock's connection.
LEAVE_S: Final = 1.0
#: A lease is renewed so many times before it would end.
RENEWALS: Final = 5
#: Nothing is started in the last part of a lease: what is about to be sent takes a moment until it is.
MARGIN: Final = 0.1
#: The shortest time between two pieces of progress for other machines.
PUBLISH_S: Final = 1.0
#: How often the thread looks at its connection.
LOOK_S: Final = 0.05
#: A server notices within 10 + 3 × 5 s that a machine has vanished.
_SETTINGS: Final = (
    "SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 3; "
    "SET synchronous_commit TO off"  # A renewal that a crash of the server undoes makes a lease a little shorter.
)


class PostgresJobLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process. `local` is the lock of the job's folder on this machine. What
    `store` writes is fenced by the lease meanwhile.
    """

    def __init__(self, address: Address, job: str, local: JobLock, store: Store | None = None) -> None:
        self.job = job
        self._address, self._local, self._store = address, local, store
        self._lease = lease_record.new_number(job)
        self._leaving, self._left = threading.Event(), threading.Event()
        self._connection: Connection | None = None
        #: Until when by the clock of this machine the lease is held, and when it was last renewed.
        self._ends_at = self._renewed_at = 0.0
        self._lost: JobTaken | None = None
        self._progress: bytes | None = None

    def __enter__(self) -> Self:
        make_folder(self._local.path.parents[JOB_LEVELS])
        self._local.__enter__()
        try:
            self._connection = connect(self._address, read_only=False)
            self._take_patiently(self._connection)
        except BaseException:
            if self._connection is not None:
                self._connection.close()
            self._local.__exit__(None, None, None)
            raise
        if self._store is not None:
            self._store.hold(self)
        threading.Thread(target=self._keep, name="headway-job-lock", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            self._store.hold(None)
        self._leaving.set()
        self._left.wait(
            LEAVE_S
        )  # A server that does not answer may hold the thread longer; it ends with the process.
        self._local.__exit__(kind, error, trace)

    # -- the lease ---------------------------------------------------------------------------------------------------

    @property
    def number(self) -> tuple[str, int]:
        return self._lease

    @property
    def lost(self) -> JobTaken | None:
        return self._lost

    def holds(self) -> bool:
        return self._lost is None and _clock() < self._ends_at

    def publish(self, progress: bytes) -> None:
        self._progress = progress

    def _take_patiently(self, connection: Connection) -> None:
        """Take the lease, and wait a moment for an owner that exits."""
        give_up_at = time.monotonic() + PATIENCE_S
        try:
            lease_record.hold_lock(connection, self._lease)
            began_at = _clock()
            while not lease_record.take(connection, self._address, self._lease, self._local.place):
                if time.monotonic() >= give_up_at:
                    raise self._busy(connection)
                time.sleep(STEP_S)
                began_at = _clock()
            self._renewed(began_at)
            connection.execute(_SETTINGS)
        except psycopg.Error as error:
            raise explanation(self._address, error, lost=connection.closed) from None

    def _busy(self, connection: Connection) -> JobBusy:
        owner = lease_record.owner_of(connection, self.job)
        where = "" if owner is None else f", in process {owner.pid} on {owner.host}"
        return JobBusy(
            f"job '{self.job}' is already running{where}", hint=f"watch it with 'headway status {self.job}'"
        )

    def _renewed(self, began_at: float) -> None:
        """The server has begun the time of the lease anew, after `began_at`."""
        self._renewed_at, self._ends_at = began_at, began_at + self._address.lease_s * (1.0 - MARGIN)

    def _renew(self, connection: Connection) -> None:
        progress, self._progress, began_at = self._progress, None, _clock()
        if lease_record.renew(connection, self._lease, progress):
            self._renewed(began_at)
        else:
            owner = lease_record.owner_of(connection, self.job)
            self._lost = job_taken(self.job, *(owner or (None, None))[:2])

    # -- the thread that keeps it ------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Renew the lease in time, and make a lost connection again."""
        try:
            while not self._leaving.is_set():
                if self._lost is not None:
                    self._leaving.wait()
                elif self._connection is None or not self._is_alive(self._connection):
                    self._connection = self._again()
        finally:
            if self._connection is not None:
                with suppress(
                    psycopg.Error
                ):  # A server may take a moment to see that a connection was closed.
                    lease_record.release(self._connection, self._lease)
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
                self._connection.close()
            self._left.set()

    def _is_alive(self, connection: Connection) -> bool:
        """Wait a moment, and renew the lease if it is time."""
        try:
            readable, _, _ = select.select([connection.fileno()], [], [], LOOK_S)
            age_s = _clock() - self._renewed_at
            is_due = age_s >= self._address.lease_s / RENEWALS
            if is_due or readable or (self._progress is not None and age_s >= PUBLISH_S):
                self._renew(
                    connection
                )  # The server says something by itself only when it ends the connection.
            return not connection.closed
        except (psycopg.Error, OSError, ValueError):
            connection.close()
            return False

    def _again(self) -> Connection | None:
        connection = None
        try:
            connection = connect(self._address, read_only=False)
            connection.execute(_SETTINGS)
            lease_record.move_lock(connection, self._lease)
            self._renew(connection)
            return connection
        except (StoreError, psycopg.Error):
            if connection is not None:
                connection.close()
        self._leaving.wait(RETRY_S)
        return None


def _clock() -> float:
    """A clock that nobody sets, and that goes on while the machine sleeps where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
