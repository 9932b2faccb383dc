"""The turn of claims: what `Database.write_apart` writes is written in turns of its own, beside the transactions of the store.

Those wait for one another and for the disk (`store_turn`): with many processes or a slow disk for seconds, and a process whose claims are
older than that has no part of its lanes. Claims wait for neither. A turn takes the server a fraction of a millisecond: all of it is one message,
so a process cannot stop in its middle, and nothing waits for the disk. A crash of the server may undo the last turns, and take back numbers that were
given; so a process that has lost its connection writes and reads all claims again.

Claims are numbered, and who has seen a number asks only for higher ones. So the numbers must appear in their order, and that is what the turns are for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import errors, sql

from headway.stores.postgres.address import Address

Connection = psycopg.Connection[tuple[Any, ...]]
#: The text of a statement and its arguments.
Written = tuple[str, Sequence[Any]]
_PLACE: Final = re.compile(r"\$(\d+)")


def write_in_turn(
    connection: Connection, address: Address, statements: Sequence[Written], fence: str
) -> bool:
    """Write all of it in one transaction. False: the condition `fence` is not true, and nothing was written."""
    turn = f"SELECT pg_advisory_xact_lock({_key(address)}), set_config('synchronous_commit', 'off', true)"
    check = _literal(connection, f"BEGIN IF NOT ({fence}) THEN RAISE 'fenced'; END IF; END")
    texts = [_with_values(connection, *one) for one in statements]
    try:
        connection.execute(
            "\n;\n".join(["BEGIN", turn, f"DO {check}", *texts, "COMMIT"]).encode(), prepare=False
        )
    except psycopg.Error as error:
        if not connection.closed:
            connection.execute("ROLLBACK")
        if isinstance(error, errors.RaiseException):
            return False
        raise
    return True


def wait_for_turn(connection: Connection, address: Address) -> None:
    """Take the turn of claims within another transaction, and keep it until that ends."""
    connection.execute(f"SELECT pg_advisory_xact_lock({_key(address)})".encode())


def _with_values(connection: Connection, text: str, values: Sequence[Any]) -> str:
    """A statement with its values in it: a message with several statements has no parameters."""
    literals = [_literal(connection, value) for value in values]
    return _PLACE.sub(lambda place: literals[int(place[1]) - 1], text)


def _literal(connection: Connection, value: object) -> str:
    return sql.Literal(value).as_string(connection)


def _key(address: Address) -> int:
    return address.lock_key("claims")
