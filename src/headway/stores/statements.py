"""The SQL of the SQLite store: statements by name out of `sql/queries.sql`, the schema's steps out of `sql/migrations`."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any


@cache
def queries() -> dict[str, str]:
    """Every named statement."""
    text = (resources.files("headway.stores") / "sql" / "queries.sql").read_text(encoding="utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@cache
def migrations() -> tuple[str, ...]:
    """The schema's steps in order; the file's number is the version that it makes."""
    folder = resources.files("headway.stores") / "sql" / "migrations"
    files = sorted(
        (each for each in folder.iterdir() if each.name.endswith(".sql")), key=lambda each: each.name
    )
    return tuple(each.read_text(encoding="utf-8") for each in files)


def statements(script: str) -> Iterator[str]:
    """A script's statements one by one, so that they run inside a transaction that is already open."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


# -- many rows ---------------------------------------------------------------------------------------------------


def each(db: sqlite3.Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    """Run a statement once for each row. What is NULL in all of them is written into the statement.

    To bind a None takes sqlite3 0.4 µs, eight times as long as a number: it looks for an adapter first. A record has a
    dozen of them.
    """
    columns = list(zip(*rows, strict=True))
    empty = [n for n, column in enumerate(columns) if column[0] is None and column.count(None) == len(rows)]
    if empty:
        rows = list(zip(*(column for n, column in enumerate(columns) if n not in empty), strict=True))
    db.executemany(_with_nulls(sql, tuple(empty)), rows)


@cache
def _with_nulls(sql: str, empty: tuple[int, ...]) -> str:
    """The statement without its parameters at these places; they are numbered, from one."""
    return re.sub(r"\?(\d+)", lambda found: _place(int(found[1]) - 1, empty), sql)


def _place(n: int, empty: tuple[int, ...]) -> str:
    return "NULL" if n in empty else f"?{n + 1 - sum(other < n for other in empty)}"
