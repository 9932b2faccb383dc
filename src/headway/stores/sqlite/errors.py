"""SQLite's errors as `StoreError`s that say what is wrong and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headway.errors import StoreError
from headway.stores.database import CheckFailed, DuplicateKey


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """While a file is opened: raise errors of SQLite and of the file system as `StoreError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise explanation(path, error) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be created: {(error.strerror or str(error)).lower()}",
            hint="name another place with --db",
        ) from error


def explanation(path: Path, error: sqlite3.Error) -> Exception:
    """The error to raise instead. An unexpected violation of a constraint is a bug, and is raised unchanged."""
    text = str(error)
    if isinstance(error, sqlite3.IntegrityError):
        return _CONSTRAINTS.get(error.sqlite_errorname, sqlite3.IntegrityError)(text)
    for part, message, hint in _EXPLANATIONS:
        if part in text:
            return StoreError(message.format(path=path), hint=hint)
    return StoreError(f"{path}: {text}")


_CONSTRAINTS: Final[dict[str, type[Exception]]] = {
    "SQLITE_CONSTRAINT_UNIQUE": DuplicateKey,
    "SQLITE_CONSTRAINT_PRIMARYKEY": DuplicateKey,
    "SQLITE_CONSTRAINT_CHECK": CheckFailed,
}

_EXPLANATIONS: Final = (
    (
        "disk is full",
        "no space is left for {path}",
        "free some disk space, then run 'headway resume'; everything committed is safe",
    ),
    (
        "disk I/O error",
        "{path} cannot be read or written: disk I/O error",
        "check the disk; everything committed is safe",
    ),
    (
        "database is locked",
        "{path} is locked by another program",
        "close the program that uses it, then try again",
    ),
    ("malformed", "{path} is damaged", "restore a copy, or move it away to start over"),
    ("decode to UTF-8", "{path} is damaged", "restore a copy, or move it away to start over"),
    (
        "not a database",
        "{path} is not a Headway database",
        "name another one with --db, or move this file away",
    ),
    (
        "readonly database",
        "{path} is not writable",
        "check its permissions, or name another place with --db",
    ),
    (
        "unable to open",
        "{path} cannot be opened",
        "check that its directory exists and may be written, or use --db",
    ),
    ("no such table", "{path} is not a Headway database", "name another one with --db"),
)
