"""One process runs a job at a time, on any machine: an advisory lock of the server, which ends with the connection of its owner.

A server that restarts forgets its locks. A thread notices that, and takes the lock again as soon as the server is back. If another process
was faster, the job is its own now, and the next commit here finds that out (`JobTaken`).
"""

from __future__ import annotations

import select
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import psycopg

from headway.errors import JobBusy, StoreAway, StoreError
from headway.stores.files import make_folder
from headway.stores.job_lock import JOB_LEVELS, PATIENCE_S, STEP_S, JobLock
from headway.stores.postgres.address import Address
from headway.stores.postgres.connection import connect
from headway.stores.postgres.errors import explanation

#: How often a lost lock is tried again.
RETRY_S: Final = 0.5
#: How long the end of a job waits for the end of its lock's connection.
LEAVE_S: Final = 1.0
#: A server ends the session of a machine that does not answer after 10 + 3 × 5 s, and frees the lock.
_KEEPALIVE: Final = (
    "SET tcp_keepalives_idle TO 10; SET tcp_keepalives_interval TO 5; SET tcp_keepalives_count TO 3"
)
_TAKE: Final = "SELECT pg_try_advisory_lock($1::bigint)"
#: A lock with one number has its upper half in `classid`, its lower half in `objid`.
_IS_HELD: Final = """
SELECT EXISTS (
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) + objid::bigint = $1::bigint
)
"""
_OWNER: Final = (
    "SELECT workers.name, workers.pid FROM jobs JOIN workers ON workers.id = jobs.worker WHERE jobs.name = $1"
)


class PostgresJobLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process. `local` is the lock of the job's folder on this machine."""

    def __init__(self, address: Address, job: str, local: JobLock) -> None:
        self.job = job
        self._address, self._local = address, local
        self._key = address.lock_key("job", job)
        self._leaving, self._left = threading.Event(), threading.Event()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def __enter__(self) -> Self:
        make_folder(self._local.path.parents[JOB_LEVELS])
        self._local.__enter__()
        try:
            self._connection = self._connected()
            self._take_patiently(self._connection)
        except BaseException:
            if self._connection is not None:
                self._connection.close()
            self._local.__exit__(None, None, None)
            raise
        threading.Thread(target=self._keep, name="headway-job-lock", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._left.wait(
            LEAVE_S
        )  # A server that does not answer may hold the thread longer; it ends with the process.
        self._local.__exit__(kind, error, trace)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        connection = connect(self._address, read_only=False)
        connection.execute(_KEEPALIVE)
        return connection

    def _take_patiently(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Take the lock, and wait a moment for an owner that exits."""
        give_up_at = time.monotonic() + PATIENCE_S
        try:
            while not _value(connection, _TAKE, self._key):
                if time.monotonic() >= give_up_at:
                    raise JobBusy(
                        self._busy_message(connection), hint=f"watch it with 'headway status {self.job}'"
                    )
                time.sleep(STEP_S)
        except psycopg.Error as error:
            raise explanation(self._address, error, lost=connection.closed) from None

    def _busy_message(self, connection: psycopg.Connection[tuple[Any, ...]]) -> str:
        rows = connection.execute(_OWNER, (self.job,)).fetchall()
        where = f", in process {rows[0][1]} on {rows[0][0]}" if rows else ""
        return f"job '{self.job}' is already running{where}"

    def _keep(self) -> None:
        """Take the lock again whenever its connection was lost."""
        try:
            while not self._leaving.is_set():
                if self._connection is None or not self._is_alive(self._connection):
                    self._connection = self._again()
        finally:
            if self._connection is not None:
                with suppress(
                    psycopg.Error
                ):  # The server may take a moment to see that a connection was closed.
                    self._connection.execute("SELECT pg_advisory_unlock_all()")
                self._connection.close()
            self._left.set()

    def _is_alive(self, connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
        """Wait a moment. The server says something on this connection only when it ends it."""
        try:
            readable, _, _ = select.select([connection.fileno()], [], [], 0.05)
            if readable:
                connection.execute("SELECT 1")
            return not connection.closed
        except (psycopg.Error, OSError, ValueError):
            connection.close()
            return False

    def _again(self) -> psycopg.Connection[tuple[Any, ...]] | None:
        connection = None
        with suppress(StoreError, psycopg.Error):
            connection = self._connected()
            if _value(connection, _TAKE, self._key):
                return connection
        if connection is not None:
            connection.close()
        self._leaving.wait(RETRY_S)
        return None


class RunningJobs:
    """Which jobs of a store a process runs now, on any machine. Any thread may ask."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def close(self) -> None:
        """Close the connection. It is made again when it is needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def is_running(self, job: str) -> bool:
        """Whether a process holds the lock of the job. False if the server is away."""
        key = self._address.lock_key("job", job)
        with self._lock:
            for _ in range(2):  # The second time over a new connection.
                try:
                    if self._connection is None:
                        self._connection = connect(self._address, read_only=True)
                    return bool(_value(self._connection, _IS_HELD, key))
                except (psycopg.Error, StoreAway):
                    if self._connection is not None:
                        self._connection.close()
                        self._connection = None
        return False


def _value(connection: psycopg.Connection[tuple[Any, ...]], sql: str, key: int) -> Any:
    row = connection.execute(sql, (key,)).fetchone()
    assert row is not None
    return row[0]
