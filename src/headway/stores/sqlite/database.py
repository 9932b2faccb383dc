"""The database contract over one SQLite connection: statements by name, many rows at once, transactions.

The connection is in autocommit mode. Only `transaction` begins a transaction, and it takes the write lock at once, so that the
transactions of all processes run one after the other.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

from headway.stores.database import NeverAway, Values, queries
from headway.stores.row_groups import for_several
from headway.stores.sqlite.errors import explanation

#: Rows that one execution of a statement takes, the most first; what is left goes row by row. sqlite3 lets other threads run at each
#: execution, and changing threads takes longer than writing a row. The parameters of more rows take SQLite too long to parse.
ROWS_TOGETHER: Final = (32, 8)


class SqliteDatabase(NeverAway):
    """One connection. `path` is the file, for messages."""

    def __init__(self, connection: sqlite3.Connection, path: Path, *, read_only: bool = False) -> None:
        self.connection, self.path, self.read_only = connection, path, read_only
        self._sql = queries()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def description(self) -> str:
        number = self.connection.execute("PRAGMA user_version").fetchone()[0]
        return f"{self.path}, schema {number}, SQLite {sqlite3.sqlite_version}"

    def execute(self, name: str, values: Values = ()) -> list[Any]:
        try:
            return self.connection.execute(self._sql[name], values).fetchall()
        except sqlite3.Error as error:
            raise explanation(self.path, error) from error

    def executemany(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row. If its parameters are numbered, a column of only None becomes NULL in the statement, and
        `VALUES (…)` gets several rows at once.

        Binding a None takes sqlite3 0.4 µs, eight times as long as a number, because it looks for an adapter. An attempt has a
        dozen of them.
        """
        sql = self._sql[name]
        if "?1" in sql:
            sql, rows = _without_nulls(sql, rows)
        try:
            for n in ROWS_TOGETHER:
                if len(rows) >= n and (several := for_several(sql, n)) is not None:
                    whole = len(rows) - len(rows) % n
                    groups = (rows[first : first + n] for first in range(0, whole, n))
                    self.connection.executemany(
                        several, [tuple(chain.from_iterable(group)) for group in groups]
                    )
                    rows = rows[whole:]
            if rows:
                self.connection.executemany(sql, rows)
        except sqlite3.Error as error:
            raise explanation(self.path, error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        is_inner = self.connection.in_transaction
        if is_inner:  # The transaction around it commits.
            yield
            return
        self._control("BEGIN IMMEDIATE")
        try:
            yield
            self._control("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self._control("ROLLBACK")
            raise

    def write_apart(self, statements: Sequence[tuple[str, Values]]) -> None:
        with self.transaction():
            for name, values in statements:
                self.execute(name, values)

    def _control(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except sqlite3.Error as error:
            raise explanation(self.path, error) from error


def _without_nulls(sql: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, Sequence[tuple[Any, ...]]]:
    columns = list(zip(*rows, strict=True))
    empty = [n for n, column in enumerate(columns) if column[0] is None and column.count(None) == len(rows)]
    if not empty:
        return sql, rows
    filled = (column for n, column in enumerate(columns) if n not in empty)
    return _with_nulls(sql, tuple(empty)), list(zip(*filled, strict=True))


@cache
def _with_nulls(sql: str, empty: tuple[int, ...]) -> str:
    """The statement with NULL for the parameters at these places. The other parameters are renumbered."""
    return re.sub(r"\?(\d+)", lambda match: _place(int(match[1]) - 1, empty), sql)


def _place(n: int, empty: tuple[int, ...]) -> str:
    return "NULL" if n in empty else f"?{n + 1 - sum(other < n for other in empty)}"
