"""The turn of a transaction: the transactions of a store run one after the other, in all processes, by an advisory lock of the store.

A process that stops in the middle of its transaction, or whose machine vanishes then, must not hold up all others. The server ends a
session that does nothing in a transaction (`connection.IDLE_S`). One that stopped while it sent rows is ended by those who wait for it.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from psycopg import errors

from headway.stores.postgres.address import Address

#: How long a process may take to send the rows of one statement while others wait. A slow line takes 16 MB in less.
SENDING_S: Final = 20
#: How often the wait for a turn is begun anew.
TURNS: Final = 4

_END_STOPPED: Final = f"""
SELECT pg_terminate_backend(pg_locks.pid) FROM pg_locks JOIN pg_stat_activity ON pg_stat_activity.pid = pg_locks.pid
WHERE locktype = 'advisory' AND granted AND objsubid = 1
AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND (classid::bigint << 32) + objid::bigint = $1::bigint
AND wait_event = 'ClientRead' AND query_start < clock_timestamp() - interval '{SENDING_S} seconds'
"""


def begin_turn(
    connection: psycopg.Connection[tuple[Any, ...]], address: Address, then: str = "SELECT 1"
) -> tuple[Any, ...]:
    """Begin a transaction when its turn has come, and return the first row of the statement `then`."""
    key = address.lock_key()
    text = f"BEGIN; SELECT pg_advisory_xact_lock({key}); {then}"
    for turn in range(TURNS):
        try:
            cursor = connection.execute(text.encode())
            break
        except errors.LockNotAvailable:
            connection.execute("ROLLBACK")
            if turn == TURNS - 1 or not _end_stopped(connection, key, is_last=turn == TURNS - 2):
                raise
        except psycopg.Error:
            if not connection.closed:
                connection.execute("ROLLBACK")
            raise
    cursor.nextset()
    cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    return row


def _end_stopped(connection: psycopg.Connection[tuple[Any, ...]], key: int, *, is_last: bool) -> bool:
    """End the session of a process that has stopped. Whether it is worthwhile to wait once more."""
    ended = connection.execute(_END_STOPPED, (key,)).fetchall()
    return bool(ended) or not is_last
