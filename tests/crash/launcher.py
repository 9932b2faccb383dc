"""`headway` with faults: run as `python launcher.py ARGS…` with HEADWAY_TEST_FAULTS, a JSON object.

    {"kill": {"at": "change_unit", "when": "before", "n": 1}}    SIGKILL around the n-th execution of a statement:
                                                                 a name of queries.sql, BEGIN, COMMIT, or a schema's: schema, user_version,
                                                                 migrated (the commit of PostgreSQL's migrations)
    {"kill": {"at": "intend", "when": "after", "row": 20}}       … around the execution that brings the n-th row of a statement:
                                                                 how many rows share an execution depends on the machine
    {"clock": [[0.5, 3600], [1.0, -7200]]}                       the wall clock jumps by the second number, this many seconds after the start
    {"clock_file": ["name", -7200]}                              … as soon as a file of this name exists
    {"migration": "ALTER TABLE …"}                               one more step of the schema
    {"file_size": 200000}                                        no file may grow larger
    {"patience_s": 1}                                            how long a statement waits for a server that is away, outside of a run
    {"unreached_s": 1}                                           a lane that never had an answer stops after this time

Headway contains no code for this: the launcher wraps SQLite's connection (or the database of a PostgreSQL store) and the wall clock.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

_lock = Lock()
_seen = 0


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _name_of(sql: str, names: dict[str, str]) -> str:
    first = sql.lstrip().split(None, 2)
    word = first[0].upper() if first else ""
    if word in ("BEGIN", "COMMIT"):
        return word
    if sql.lstrip().startswith("PRAGMA user_version ="):
        return "user_version"
    if "CREATE" in sql.split() or "ALTER" in sql.split():
        return "schema"
    return names.get(_shape(sql), "other")


def _shape(sql: str) -> str:
    """The text of a statement, independent of the number of rows in it and of parameters that the store has written into it as NULL."""
    return re.sub(r"(\([^()]*\))(?:, \1)+", r"\1", re.sub(r"\?\d*|NULL", "?", sql))


def _rows_in(sql: str) -> int:
    """How many rows a statement has in it."""
    return 1 + len(re.findall(r"\), \(", sql))


def _rows_of(values: tuple[Any, ...]) -> int:
    """How many rows one execution changes: many where a parameter is a JSON array of rows."""
    for value in values[0] if values else ():
        if isinstance(value, str) and value.startswith("["):
            return len(json.loads(value))
    return 1


def _watched(kill: dict[str, Any]) -> type[sqlite3.Connection]:
    """A connection that kills its process at the chosen statement."""
    from headway.stores.database import queries

    names = {_shape(sql): name for name, sql in queries().items()}
    at, when, by_row = kill["at"], kill.get("when", "before"), "row" in kill
    n = kill["row"] if by_row else kill.get("n", 1)

    def counted(sql: str, rows: int = 1) -> bool:
        global _seen  # noqa: PLW0603 - one process, one count.
        if _name_of(sql, names) != at:
            return False
        with _lock:
            before = _seen
            _seen += rows if by_row else 1
            return bool(before < n <= _seen)

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            chosen = counted(sql, _rows_of(values))
            if chosen and when == "before":
                _die()
            cursor = super().execute(sql, *values)
            if chosen:
                _die()
            return cursor

        def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:
            rows = list(rows)
            chosen = counted(sql, len(rows) * _rows_in(sql))
            if chosen and when == "before":
                _die()
            if chosen and when == "between":
                super().executemany(sql, rows[: max(1, len(rows) // 2)])
                _die()
            cursor = super().executemany(sql, rows)
            if chosen:
                _die()
            return cursor

    return Watched


def _watch_statements(kill: dict[str, Any]) -> None:
    watched = _watched(kill)
    connect = sqlite3.connect

    def connect_watched(*args: Any, **how: Any) -> sqlite3.Connection:
        return connect(*args, **how, factory=watched)

    sqlite3.connect = connect_watched  # type: ignore[assignment]


def _watch_server(kill: dict[str, Any]) -> None:
    """The same for a store in PostgreSQL, where statements have their names."""
    from headway.stores.postgres.database import PostgresDatabase

    at, when, by_row = kill["at"], kill.get("when", "before"), "row" in kill
    n = kill["row"] if by_row else kill.get("n", 1)
    execute, executemany = PostgresDatabase.execute, PostgresDatabase.executemany
    begin, commit = PostgresDatabase._begin, PostgresDatabase._commit

    def around(name: str, rows: int, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        global _seen
        chosen = False
        if name == at:
            with _lock:
                before, _seen = _seen, _seen + (rows if by_row else 1)
                chosen = before < n <= _seen
        if chosen and when == "before":
            _die()
        if chosen and when == "between" and half is not None:
            half()
            _die()
        result = act()
        if chosen:
            _die()
        return result

    def execute_watched(self: PostgresDatabase, name: str, values: Any = ()) -> Any:
        rows = 1 if isinstance(values, dict) else _rows_of((values,))
        return around(name, rows, lambda: execute(self, name, values))

    def executemany_watched(self: PostgresDatabase, name: str, rows: Any) -> None:
        part = rows[: max(1, len(rows) // 2)]
        around(name, len(rows), lambda: executemany(self, name, rows), lambda: executemany(self, name, part))

    names: dict[str, Any] = {
        "execute": execute_watched,
        "executemany": executemany_watched,
        "_begin": lambda self: around("BEGIN", 1, lambda: begin(self)),
        "_commit": lambda self: around("COMMIT", 1, lambda: commit(self)),
    }
    for name, function in names.items():
        setattr(PostgresDatabase, name, function)
    _watch_migrations(around)


def _watch_migrations(around: Callable[..., Any]) -> None:
    """Migrations have no names: their scripts, the number of the last one, and their commit."""
    import psycopg

    execute, leave = psycopg.Connection.execute, psycopg.Transaction.__exit__

    def execute_watched(self: Any, sql: Any, *values: Any, **how: Any) -> Any:
        text = sql if isinstance(sql, str) else ""
        is_number = text.startswith("UPDATE headway_version")
        name = "user_version" if is_number else "schema" if "CREATE TABLE" in text else ""
        return around(name, 1, lambda: execute(self, sql, *values, **how))

    def leave_watched(self: Any, *error: Any) -> Any:
        return around("migrated", 1, lambda: leave(self, *error))

    psycopg.Connection.execute = execute_watched  # type: ignore[method-assign,assignment]
    psycopg.Transaction.__exit__ = leave_watched  # type: ignore[method-assign]


def _let_clock_jump(jumps: list[list[float]]) -> None:
    real, began = time.time, time.monotonic()

    def jumping() -> float:
        elapsed = time.monotonic() - began
        return real() + sum(by for at, by in jumps if elapsed >= at)

    time.time = jumping


def _let_clock_jump_with(name: str, by: float) -> None:
    real = time.time
    time.time = lambda: real() + (by if os.path.exists(name) else 0.0)


def _add_migration(script: str) -> None:
    from headway.stores.postgres import schema as of_server
    from headway.stores.sqlite import schema as of_file

    for schema in (of_file, of_server):
        known = (*schema.migrations(), script)
        schema.migrations = lambda known=known: known  # type: ignore[attr-defined]


def main() -> int:
    from headway.cli import main as headway

    faults = json.loads(os.environ["HEADWAY_TEST_FAULTS"])
    if "kill" in faults:
        watch = _watch_server if "://" in os.environ.get("HEADWAY_DB", "") else _watch_statements
        watch(faults["kill"])
    if "migration" in faults:
        _add_migration(faults["migration"])
    if "clock" in faults:
        _let_clock_jump(faults["clock"])
    if "clock_file" in faults:
        _let_clock_jump_with(*faults["clock_file"])
    if "unreached_s" in faults:
        from headway.core.lanes import breaker

        breaker.UNREACHED_S = faults["unreached_s"]  # type: ignore[misc]
    if "patience_s" in faults:
        from headway.stores.postgres import database

        database.PATIENCE_S = faults["patience_s"]  # type: ignore[misc]
    if "file_size" in faults:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (faults["file_size"], faults["file_size"]))
    return headway()


if __name__ == "__main__":
    sys.exit(main())
