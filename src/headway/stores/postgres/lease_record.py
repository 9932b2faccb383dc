"""The row of a job's lease: which process may run the job, until when by the server's clock. Statements only; `job_lock` uses them.

A process that takes a lease holds an advisory lock with the number of the lease as long as it lives, so that its death is known at once.
A process that is stopped, or whose machine has vanished, loses its lease when the time of the lease is over. Only the server's
clock counts. Taking a lease waits for the transaction of the store that is open, so no transaction of the loser is committed later.
"""

from __future__ import annotations

import os
import secrets
from platform import node
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import sql

from headway.stores.postgres.address import Address
from headway.stores.postgres.store_turn import begin_turn

Connection = psycopg.Connection[tuple[Any, ...]]

_TAKE: Final = """
INSERT INTO leases (job, holder, host, pid, place, server, lasts, until)
VALUES ($1, $2, $3, $4, $6, pg_postmaster_start_time(), make_interval(secs => $5), clock_timestamp() + make_interval(secs => $5))
ON CONFLICT (job) DO UPDATE SET holder = excluded.holder, host = excluded.host, pid = excluded.pid, place = excluded.place,
    server = excluded.server, lasts = excluded.lasts, until = excluded.until, progress = NULL
WHERE NOT is_live(leases) OR (leases.place = excluded.place AND leases.place <> '')
RETURNING 1
"""
_RENEW: Final = """
UPDATE leases SET until = clock_timestamp() + lasts, server = pg_postmaster_start_time(), progress = coalesce($3::bytea, progress)
WHERE job = $1 AND holder = $2 RETURNING 1
"""
_RELEASE: Final = "DELETE FROM leases WHERE job = $1 AND holder = $2"
_END_HOLDER: Final = """
SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32) + objid::bigint = $1::bigint
"""
_OWNER: Final = (
    "SELECT host, pid, extract(epoch FROM until - clock_timestamp())::float8 FROM leases WHERE job = $1"
)


class LeaseNumber(NamedTuple):
    """What identifies a lease: the job and the number of this lease of it."""

    job: str
    holder: int

    def fence(self) -> str:
        """A part of a SELECT: the holder of the job's lease is this one."""
        name = sql.Literal(self.job).as_string(None)
        return f"EXISTS (SELECT 1 FROM leases WHERE job = {name} AND holder = {self.holder})"


class LeaseOwner(NamedTuple):
    """The process that has a lease, and for how many seconds yet."""

    host: str
    pid: int
    left_s: float


def new_number(job: str) -> LeaseNumber:
    """A number that no other lease has. It is also that of an advisory lock."""
    return LeaseNumber(job, secrets.randbits(62))


def hold_lock(connection: Connection, lease: LeaseNumber) -> None:
    """Take the advisory lock of a lease, which ends with this connection."""
    connection.execute("SELECT pg_advisory_lock($1::bigint)", (lease.holder,))


def move_lock(connection: Connection, lease: LeaseNumber) -> None:
    """The same after a connection was lost. The server may not have noticed that yet: its session is ended."""
    connection.execute(_END_HOLDER, (lease.holder,))
    hold_lock(connection, lease)


def take(connection: Connection, address: Address, lease: LeaseNumber, place: str) -> bool:
    """Take the lease of a job, if no other is live. The connection has its lock. `place`: of the folder's lock, which this process holds. A
    process that took the lease with the same lock is dead.
    """
    begin_turn(connection, address)
    try:
        row = (lease.job, lease.holder, node(), os.getpid(), address.lease_s, place)
        taken = connection.execute(_TAKE, row).fetchone() is not None
        connection.execute("COMMIT")
    except BaseException:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise
    return taken


def renew(connection: Connection, lease: LeaseNumber, progress: bytes | None = None) -> bool:
    """Begin its time anew. False: another process has the job."""
    return connection.execute(_RENEW, (lease.job, lease.holder, progress)).fetchone() is not None


def release(connection: Connection, lease: LeaseNumber) -> None:
    """Give it back."""
    connection.execute(_RELEASE, lease)


def owner_of(connection: Connection, job: str) -> LeaseOwner | None:
    """The process that took the lease of a job last."""
    row = connection.execute(_OWNER, (job,)).fetchone()
    return None if row is None else LeaseOwner(*row)
