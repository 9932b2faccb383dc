"""The schema of a SQLite database: its steps out of `sql/migrations`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib import resources


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
