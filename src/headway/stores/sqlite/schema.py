"""The schema of a SQLite database: its migrations, its version, and reading an older one.

Migrations are numbered files. They are only applied forward, each in one transaction together with its version number; a new file
gets all of them in one.

A file that is opened for reading is not migrated. What its older schema lacks is added to the connection, in memory: a missing
table as an empty temporary table, a missing column as a temporary view of the table with the default of the column. SQLite
resolves temporary names first. Changes that a migration makes to rows are not applied: the rows are read as they are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

from headway.errors import NewerRecords, StoreError
from headway.stores.sqlite.database import SqliteDatabase


@cache
def migrations() -> tuple[str, ...]:
    """The migrations in order. The number in the name of a file is the version after it."""
    folder = Path(__file__).with_name("migrations")
    files = sorted(each for each in folder.iterdir() if each.name.endswith(".sql"))
    return tuple(each.read_text(encoding="utf-8") for each in files)


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one, so that they run inside an open transaction."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def version(db: SqliteDatabase) -> int:
    """The version of the schema. A file with tables but without a version belongs to another program: an error."""
    number: int
    number, tables = db.connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    newest = len(migrations())
    if number == 0 and tables:
        raise StoreError(
            f"{db.path} is not a Headway database",
            hint="name another one with --db, or move this file away",
        )
    if number > newest:
        raise NewerRecords(
            f"{db.path} was written by a newer Headway (schema {number}, this one knows {newest})",
            hint="upgrade headway",
        )
    return number


def migrate(db: SqliteDatabase) -> None:
    """Apply the missing migrations. If two processes open a new file at once, the second one finds them applied."""
    known = migrations()
    while (number := version(db)) < len(known):
        # A new file gets all of them in one transaction: one fsync, not one for each.
        last = number + 1 if number else len(known)
        with db.transaction():
            if version(db) == number:
                for statement in statements("".join(known[number:last])):
                    db.connection.execute(statement)
                db.connection.execute(f"PRAGMA user_version = {last}")


# -- an older schema ---------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    name: str
    #: The expression in the definition of the table.
    default: str


class _Table(NamedTuple):
    definition: str
    columns: tuple[_Column, ...]


def read_as_newest(db: sqlite3.Connection) -> None:
    """Add the missing tables and columns. The connection must not be `query_only` yet."""
    db.execute("PRAGMA temp_store = MEMORY")
    for name, table in _newest().items():
        present = {column.name for column in _columns(db, name)}
        if not present:
            db.execute(table.definition.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
        elif any(column.name not in present for column in table.columns):
            db.execute(_view(name, table, present))


def _view(name: str, table: _Table, present: set[str]) -> str:
    columns = (
        f'"{column.name}"' if column.name in present else f'{column.default} AS "{column.name}"'
        for column in table.columns
    )
    return f'CREATE TEMP VIEW "{name}" AS SELECT {", ".join(columns)} FROM main."{name}"'


@cache
def _newest() -> dict[str, _Table]:
    """The tables of the newest schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for script in migrations():
            for statement in statements(script):
                db.execute(statement)
        found = db.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        return {name: _Table(sql, tuple(_columns(db, name))) for name, sql in found}


def _columns(db: sqlite3.Connection, table: str) -> list[_Column]:
    """The columns of a table in the file; none if the table does not exist."""
    rows = db.execute("SELECT name, dflt_value FROM main.pragma_table_xinfo(?)", (table,))
    return [_Column(name, "NULL" if default is None else default) for name, default in rows]
