"""A SQLite database in memory: the same statements and rules, for commands that write no file, and for tests."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from headway.stores.database import Values
from headway.stores.sqlite import schema
from headway.stores.sqlite.database import SqliteDatabase


class SqliteMemory(SqliteDatabase):
    """The records live as long as this object; `close` does not remove them.

    Several threads may share it, as they share a file. There is one connection; a transaction of one thread blocks the others,
    so that nothing is read before it is committed.
    """

    def __init__(self) -> None:
        super().__init__(_connection(), Path(":memory:"))
        self.connection.deserialize(_empty())
        self._lock = threading.RLock()
        weakref.finalize(self, self.connection.close)

    def close(self) -> None:
        """Do nothing: other threads may use it."""

    def execute(self, name: str, values: Values = ()) -> list[Any]:
        with self._lock:
            return super().execute(name, values)

    def executemany(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._lock:
            super().executemany(name, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock, super().transaction():
            yield


def _connection() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)


@cache
def _empty() -> bytes:
    """An empty database with the newest schema. Copying it takes a tenth of the time of all migrations."""
    db = SqliteDatabase(_connection(), Path(":memory:"))
    schema.migrate(db)
    content = db.connection.serialize()
    db.close()
    return content
