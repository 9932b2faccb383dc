"""One connection to PostgreSQL, with the settings that the store needs.

Parameters are sent as text without a type, so that the server takes the type of each column, and a statement is prepared once, whatever
its values are. Binary values are sent and read as they are.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.types.numeric import NumericBinaryLoader
from psycopg.types.string import BytesBinaryDumper

from headway.errors import StoreAway, StoreError
from headway.stores.postgres.address import Address
from headway.stores.postgres.errors import refused

#: How long a connection may take to be made; and one that replaces a lost one, which is tried again and again.
CONNECT_S: Final = 10
RECONNECT_S: Final = 3
#: How soon one that is being made is given up.
LEAVE_S: Final = 0.1
#: How long a writer waits for the transaction of another process, as with SQLite.
LOCK_S: Final = 10
#: A process that stops in the middle of a transaction holds up all others for no longer than this. Less than `LOCK_S`.
IDLE_S: Final = 5
#: And one whose machine does not answer any more, for no longer than this. The server asks each second.
VANISHED_S: Final = 3
#: A connection whose packets are lost is given up after so long: what was sent is not confirmed, or no answer comes and the server is
#: not there any more. A new one can be made as soon as the network is back, while the packets of the old one are repeated more and more rarely.
LOST_S: Final = 8
KEEPALIVE_S: Final = 4
#: Executions after which a statement is prepared, and statements that stay prepared: more than the store has, with groups of rows.
PREPARE_AFTER: Final = 2
PREPARED: Final = 500

#: The statements were tuned for SQLite, which joins by loops over indexes in the order that is written. So do these settings, whatever
#: the server has learned of the tables: a table that has just been filled has no statistics.
_SETTINGS: Final = """
SET search_path TO {schema};
SET client_encoding TO 'UTF8';
SET synchronous_commit TO on;
SET lock_timeout TO '{lock_s}s';
SET idle_in_transaction_session_timeout TO '{idle_s}s';
SET tcp_keepalives_idle TO 1;
SET tcp_keepalives_interval TO 1;
SET tcp_keepalives_count TO {vanished_s};
SET tcp_user_timeout TO '{vanished_s}s';
SET enable_seqscan TO off;
SET enable_hashjoin TO off;
SET enable_mergejoin TO off;
SET join_collapse_limit TO 1;
SET jit TO off;
SET max_parallel_workers_per_gather TO 0;
SET plan_cache_mode TO force_generic_plan;
SET client_min_messages TO warning;
SET default_transaction_read_only TO {read_only}
"""


class _Text(Dumper):
    """Text. PostgreSQL has no character U+0000: it becomes the symbol for it."""

    oid = 0

    def dump(self, obj: Any) -> Buffer:
        data: bytes = obj.encode()
        return data.replace(b"\0", "␀".encode()) if b"\0" in data else data


class _Int(Dumper):
    oid = 0

    def dump(self, obj: Any) -> Buffer:
        return b"%d" % obj


class _Float(Dumper):
    oid = 0

    def dump(self, obj: Any) -> Buffer:
        return repr(float(obj)).encode()


class _Bytes(BytesBinaryDumper):
    oid = 0


class _Number(NumericBinaryLoader):
    """A sum of integers is a `numeric`."""

    def load(self, data: Buffer) -> int:  # type: ignore[override]
        return int(super().load(data))


def connect(
    address: Address, *, read_only: bool, connect_s: int = CONNECT_S
) -> psycopg.Connection[tuple[Any, ...]]:
    """A new connection in autocommit mode. StoreError if it cannot be made."""
    try:
        connection = psycopg.connect(
            address.libpq, autocommit=True, prepare_threshold=PREPARE_AFTER, connect_timeout=connect_s,
            application_name="headway", tcp_user_timeout=1000 * LOST_S, keepalives_idle=KEEPALIVE_S,
            keepalives_interval=KEEPALIVE_S // 2, keepalives_count=2, cursor_factory=psycopg.RawCursor,
        )  # fmt: skip
    except psycopg.Error as error:
        raise refused(address, error) from None
    connection.prepared_max = PREPARED
    _adapt(connection)
    settings = _SETTINGS.format(
        schema=sql.Identifier(address.schema).as_string(None),
        lock_s=LOCK_S,
        idle_s=IDLE_S,
        vanished_s=VANISHED_S,
        read_only="on" if read_only else "off",
    )
    try:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreError(
                f"{address.shown} stores text as {encoding}", hint="make a database with the encoding UTF8"
            )
        connection.execute(settings)
    except psycopg.Error as error:
        connection.close()
        raise refused(address, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def connect_or_leave(
    address: Address, leave: threading.Event, *, read_only: bool
) -> psycopg.Connection[tuple[Any, ...]]:
    """The same; StoreAway within `LEAVE_S` of `leave`, even if the server answers nothing at all."""
    made: SimpleQueue[psycopg.Connection[tuple[Any, ...]] | BaseException] = SimpleQueue()

    def make() -> None:
        try:
            connection = connect(address, read_only=read_only, connect_s=RECONNECT_S)
        except BaseException as error:
            made.put(error)
            return
        made.put(connection)

    threading.Thread(target=make, name="headway-connect", daemon=True).start()
    was_left = False
    while True:
        try:
            result = made.get(timeout=LEAVE_S)
        except Empty:
            if was_left:  # One that is made later is closed when it is forgotten.
                raise StoreAway(f"{address.shown} does not answer") from None
            was_left = leave.is_set()
            continue
        if isinstance(result, BaseException):
            raise result
        return result


def _adapt(connection: psycopg.Connection[Any]) -> None:
    adapters = connection.adapters
    for kind, dumper in (
        (str, _Text),
        (int, _Int),
        (bool, _Int),
        (float, _Float),
        (bytes, _Bytes),
        (bytearray, _Bytes),
    ):
        adapters.register_dumper(kind, dumper)
    adapters.register_loader("numeric", _Number)
