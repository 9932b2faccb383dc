"""The turn of claims: what `Database.write_apart` writes is written in turns of its own, beside the transactions of the store.

Those wait for one another and for the disk (`store_turn`): with many processes or a slow disk for seconds, and a process whose claims are
older than that has no part of its lanes. Claims wait for neither. The server needs a fraction of a millisecond for them: everything is sent at
once, so no process can stop in the middle, and nothing waits for the disk. A crash of the server may undo the last of them, and take back numbers that
were given; so a process that has lost its connection writes and reads all claims again.

Claims are numbered, and who has seen a number asks only for higher ones. So the numbers must appear in their order, and that is what the turns are for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import psycopg

from headway.stores.postgres.address import Address

Connection = psycopg.Connection[tuple[Any, ...]]
#: The text of a statement and its arguments.
Written = tuple[str, Sequence[Any]]


def write_in_turn(
    connection: Connection, address: Address, statements: Sequence[Written], fence: str
) -> bool:
    """Write all of it in one transaction. Returns whether the condition `fence` was true; what was written otherwise goes stale."""
    turn = f"SELECT pg_advisory_xact_lock({_key(address)}), set_config('synchronous_commit', 'off', true), {fence}"
    try:
        with connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():
            connection.execute("BEGIN")
            cursor = connection.execute(turn.encode())
            for text, arguments in statements:
                connection.execute(text.encode(), arguments)
            connection.execute("COMMIT")
    except psycopg.Error:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise
    row = cursor.fetchone()
    return row is not None and bool(row[-1])


def wait_for_turn(connection: Connection, address: Address) -> None:
    """Take the turn of claims within another transaction, and keep it until that ends."""
    connection.execute(f"SELECT pg_advisory_xact_lock({_key(address)})".encode())


def _key(address: Address) -> int:
    return address.lock_key("claims")
