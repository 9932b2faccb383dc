"""The database contract over PostgreSQL: statements by name, many rows at once, transactions.

One object has one connection and belongs to one thread. A connection that was lost is made anew: at once for a statement that only reads,
and otherwise by the next transaction. A transaction that was open is lost, and the caller is told (`StoreAway`).

The transactions of a store run one after the other, in all processes: each takes an advisory lock of the store first. So what is read inside
stays true until the end, as with SQLite, and no transaction has to be repeated. Claims are written beside them (`claims_turn`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import PipelineStatus, TransactionStatus

from headway.errors import CommitUnknown, JobTaken, StoreAway
from headway.stores.database import Values, Work
from headway.stores.job_lock import JobLease
from headway.stores.postgres import schema
from headway.stores.postgres.address import Address
from headway.stores.postgres.claims_turn import wait_for_turn, write_in_turn
from headway.stores.postgres.connection import connect, connect_or_leave
from headway.stores.postgres.errors import explanation
from headway.stores.postgres.lease_record import LeaseNumber, owner_of
from headway.stores.postgres.notifications import Notifications
from headway.stores.postgres.statements import Statement, statements
from headway.stores.postgres.store_turn import begin_turn
from headway.stores.row_groups import for_several
from headway.stores.write_batch import job_taken

#: Rows that one execution of a statement takes, the most first; what is left goes row by row, without waiting in between.
ROWS_TOGETHER: Final = (64, 8)
#: From so many rows on they come by COPY, where the statement is a plain INSERT.
COPY_ROWS: Final = 100
#: How long a statement outside of a run waits for a server that is away, and the interval of the attempts.
PATIENCE_S: Final = 10.0
RETRY_S: Final = 0.1

Result = TypeVar("Result")


class PostgresDatabase:
    """One connection to one store. `patience_s`: how long a statement waits for a server that is away."""

    def __init__(self, address: Address, *, read_only: bool = False, patience_s: float | None = None) -> None:
        self.address, self.read_only = address, read_only
        self.patience_s = PATIENCE_S if patience_s is None else patience_s
        self._abandoned = threading.Event()
        self._news = Notifications(address.schema)
        self._statements = statements()
        self._transaction, self._connections = 0, 1
        self._fence: LeaseNumber | None = None
        self.connection = connect(address, read_only=read_only)
        try:
            (schema.require if read_only else schema.migrate)(self.connection, address)
        except psycopg.Error as error:
            self.connection.close()
            raise explanation(address, error) from None
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def description(self) -> str:
        server = self.connection.info.parameter_status("server_version")
        number = schema.version(self.connection, self.address)
        return (
            f"{self.address.shown}, tables in '{self.address.schema}', schema {number}, PostgreSQL {server}"
        )

    def heard(self, what: Work, job: int) -> bool:
        return self._patiently(lambda: self._news.heard(self.connection, what, job))

    def wait_for_change(self, job: int, seconds: float) -> None:
        """Wait at least a moment, so that a busy job is not asked without end, and at most a few times as long as without notifications."""
        self._patiently(lambda: self._news.wait(self.connection, job, seconds))

    def set_patience(self, seconds: float | None) -> None:
        self.patience_s = PATIENCE_S if seconds is None else seconds

    def transaction_number(self) -> int:
        return self._transaction

    def abandon(self) -> None:
        """Wait no longer for a server that is away. May be called by any thread."""
        self._abandoned.set()

    # -- statements ------------------------------------------------------------------------------------------------

    def execute(self, name: str, values: Values = ()) -> list[Any]:
        statement = self._statements[name]
        arguments = statement.arguments(values)
        if statement.reads and not self._in_transaction:
            return self._patiently(lambda: self._fetch(statement.sql, arguments))
        return self._attempt(lambda: self._fetch(statement.sql, arguments))

    def executemany(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row. A plain INSERT of many rows is a COPY; a statement with numbered `VALUES (…)` gets several rows at
        once.
        """
        if not rows:
            return
        statement = self._statements[name]
        if statement.copy_into is not None and len(rows) >= COPY_ROWS:
            self._attempt(lambda: self._copy(statement, rows))
        else:
            self._attempt(lambda: self._in_groups(statement.sql, rows))

    def _fetch(self, sql: str, arguments: Sequence[Any]) -> list[Any]:
        cursor = self.connection.execute(sql, arguments or None, binary=True)
        return cursor.fetchall() if cursor.description else []

    def _in_groups(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with self.connection.cursor() as cursor:
            for n in ROWS_TOGETHER if _are_apart(sql, rows) else ():
                if len(rows) >= n and (several := for_several(sql, n, "$")) is not None:
                    whole = len(rows) - len(rows) % n
                    groups = [
                        list(chain.from_iterable(rows[first : first + n])) for first in range(0, whole, n)
                    ]
                    cursor.executemany(several, groups)
                    rows = rows[whole:]
            if len(rows) == 1:
                cursor.execute(sql, rows[0])
            elif rows:
                cursor.executemany(sql, rows)

    def _copy(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> None:
        assert statement.copy_into is not None
        table, columns = statement.copy_into
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({columns}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)

    # -- transactions ------------------------------------------------------------------------------------------------

    @property
    def _in_transaction(self) -> bool:
        return self.connection.info.transaction_status not in (
            TransactionStatus.IDLE,
            TransactionStatus.UNKNOWN,
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._in_transaction:  # The transaction around it commits.
            yield
            return
        self._patiently(self._begin)
        try:
            yield
        except BaseException:
            with suppress(psycopg.Error):
                self.connection.execute("ROLLBACK")
            raise
        self._commit()

    def _begin(self) -> None:
        if self.read_only:
            self.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return
        fence = "true" if self._fence is None else self._fence.fence()
        try:
            number, may_write = begin_turn(
                self.connection, self.address, f"SELECT pg_current_xact_id(), {fence}"
            )
        except errors.LockNotAvailable as error:  # A run sits that out, as if the server were away.
            raise StoreAway(str(explanation(self.address, error))) from None
        if self._fence is not None and not may_write:
            self.connection.execute("ROLLBACK")
            raise self._taken()
        self._transaction = int(number)

    def _taken(self) -> JobTaken:
        """Another process has the lease of our job."""
        assert self._fence is not None
        return job_taken(self._fence.job, *(owner_of(self.connection, self._fence.job) or (None, None))[:2])

    def set_fence(self, lease: JobLease | None) -> None:
        self._fence = None if lease is None else LeaseNumber(*lease.number)

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except psycopg.Error as error:
            explained = self._explained(error)
            if isinstance(explained, StoreAway):
                raise CommitUnknown(explained, self._transaction) from None
            raise explained from error

    def was_committed(self, transaction: int) -> bool:
        """Whether a transaction whose connection was lost was committed. Waits for its end."""
        sql = "SELECT pg_xact_status($1::text::xid8)"
        while True:
            status = self._patiently(lambda: self._fetch(sql, (str(transaction),)))[0][0]
            if status != "in progress":
                return bool(status == "committed")
            if self._abandoned.wait(RETRY_S):
                raise StoreAway(f"{self.address.shown} does not answer")

    @property
    def writes_apart(self) -> bool:
        return True

    def connection_number(self) -> int:
        return self._connections

    def write_apart(self, statements: Sequence[tuple[str, Values]]) -> None:
        written = [
            (statement.sql, statement.arguments(values))
            for statement, values in ((self._statements[name], values) for name, values in statements)
        ]
        if self._in_transaction:
            self._attempt(lambda: wait_for_turn(self.connection, self.address))
            for text, arguments in written:
                self._attempt(partial(self._fetch, text, arguments))
        elif not self._patiently(lambda: self._write_apart(written)):
            raise self._taken()

    def _write_apart(self, written: list[tuple[str, Sequence[Any]]]) -> bool:
        fence = "true" if self._fence is None else self._fence.fence()
        try:
            return write_in_turn(self.connection, self.address, written, fence)
        except errors.LockNotAvailable as error:  # A run sits that out, as if the server were away.
            raise StoreAway(str(explanation(self.address, error))) from None

    # -- a server that is away ---------------------------------------------------------------------------------------

    def _patiently(self, act: Callable[[], Result]) -> Result:
        """Do something that may be repeated, and wait for a server that is away."""
        give_up_at = time.monotonic() + self.patience_s
        while True:
            try:
                if self.connection.closed:
                    self.reconnect()
                return self._attempt(act)
            except StoreAway:
                if time.monotonic() >= give_up_at or self._abandoned.wait(RETRY_S):
                    raise

    def reconnect(self) -> None:
        """Replace a lost connection. StoreAway if the server is still away."""
        self.connection.close()
        self._news.forget()
        self.connection = connect_or_leave(self.address, self._abandoned, read_only=self.read_only)
        self._connections += 1

    def _attempt(self, act: Callable[[], Result]) -> Result:
        try:
            return act()
        except psycopg.Error as error:
            explained = self._explained(error)
            raise explained from (None if self.address.secrets else error)

    def _explained(self, error: psycopg.Error) -> Exception:
        if not self.connection.closed and self.connection.pgconn.pipeline_status != PipelineStatus.OFF:
            self.connection.close()  # The server ended it in the middle of many rows: it cannot be used any more.
        return explanation(self.address, error, lost=self.connection.closed)


def _are_apart(sql: str, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether the rows may be written by one statement: PostgreSQL changes no row twice in one."""
    return "ON CONFLICT" not in sql or len({row[0] for row in rows}) == len(rows)
