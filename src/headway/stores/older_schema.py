"""Lets statements for the newest schema read a file of an older one, without changing the file.

What the older schema lacks is added to the connection alone, in memory: a missing table as an empty temporary table, a missing
column as a temporary view of the table with the column's default. SQLite looks for temporary names first. What a
migration does to the rows themselves is not done: they are shown as they were written.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from typing import NamedTuple

from headway.stores.statements import migrations, statements


class _Column(NamedTuple):
    name: str
    #: As it stands in the table's definition: an expression.
    default: str


class _Table(NamedTuple):
    definition: str
    columns: tuple[_Column, ...]


def read_as_newest(db: sqlite3.Connection) -> None:
    """Add what is missing. The connection must not be `query_only` yet."""
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
        found = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: _Table(sql, tuple(_columns(db, name))) for name, sql in found}


def _columns(db: sqlite3.Connection, table: str) -> list[_Column]:
    """The columns of a table in the file; none where it does not exist."""
    rows = db.execute("SELECT name, dflt_value FROM main.pragma_table_xinfo(?)", (table,))
    return [_Column(name, "NULL" if default is None else default) for name, default in rows]
