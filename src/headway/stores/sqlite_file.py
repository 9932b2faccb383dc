"""The file under the SQLite store: how it is opened, the schema in it, transactions on it, and its errors in words.

Owns the connection: the standard library's module, WAL, `synchronous=FULL`; one object a thread. The schema's steps are
applied forward when a file is opened for writing, each in a transaction of its own together with the version it makes. A new
file is for its owner alone; SQLite gives its `-wal` and `-shm` the same mode. SQLite's errors become `StoreError`s that say what
to do. What is in the tables is for `sqlite` and `sqlite_cache` to know.

A file that is opened for reading is not changed: an older schema is read through (`older_schema`), and no file is left beside it.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote

from headway.errors import NoRecords, StoreError
from headway.stores.database import CheckFailed, DuplicateKey, Values, queries
from headway.stores.files import FILE_MODE, make_folder, sync_folder
from headway.stores.older_schema import read_as_newest
from headway.stores.statements import migrations, statements

#: How long a writer waits for another process's transaction before it calls the database locked.
BUSY_S: Final = 10.0
#: How often it looks again where SQLite does not wait by itself.
WAL_STEP_S: Final = 0.005
CACHE_KB: Final = 4_000
#: Pages in the write-ahead log before it is folded back: 32 MB, so that a checkpoint is rare and a burst fits.
CHECKPOINT_PAGES: Final = 8_000

#: Held while a new file is made: see `_make`.
_making: Final = threading.Lock()


class SqliteFile:
    """One connection to one file, and the statements that are run on it by name."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._sql = queries()
        with _explained(path):
            if path.is_dir():
                raise StoreError(f"{path} is a directory", hint="name a file with --db")
            if read_only and not path.exists():
                raise NoRecords(
                    f"there is no database at {path}", hint="'headway run FILE' makes one; --db names another"
                )
            if not read_only:
                _make(path)
            self.db = _connection(path, _way_to_read(path) if read_only else "rwc")
            try:
                self._prepare(read_only)
            except BaseException:
                self.db.close()
                raise

    def close(self) -> None:
        """Let go of it."""
        self.db.close()

    # -- the schema -------------------------------------------------------------------------------------------

    def probe(self) -> tuple[int, int]:
        """The schema's version and the newest that is known. Raises where the file may not be written; writes nothing."""
        with _explained(self.path), closing(_connection(self.path, "rw")) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
        return self.version(), len(migrations())

    def _prepare(self, read_only: bool) -> None:
        db = self.db
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        version = self.version()
        if read_only:
            if 0 < version < len(migrations()):
                read_as_newest(db)
            db.execute("PRAGMA query_only = 1")
            return
        self._use_wal()
        db.execute("PRAGMA synchronous = FULL")
        # On macOS an fsync reaches the disk's cache only; elsewhere this changes nothing.
        db.execute("PRAGMA fullfsync = 1")
        db.execute("PRAGMA checkpoint_fullfsync = 1")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._migrate()

    def _use_wal(self) -> None:
        """Two that open a new file at once both want to change its mode, and SQLite refuses one without a wait."""
        give_up_at = time.monotonic() + BUSY_S
        while self.db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self.db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= give_up_at:
                    raise
                time.sleep(WAL_STEP_S)

    def version(self) -> int:
        """The schema's version. A file with tables but no version is somebody else's: it stays as it is."""
        version: int
        version, tables = self.db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        newest = len(migrations())
        if version == 0 and tables:
            raise StoreError(
                f"{self.path} is not a Headway database",
                hint="name another one with --db, or move this file away",
            )
        if version > newest:
            raise StoreError(
                f"{self.path} was written by a newer Headway (schema {version}, this one knows {newest})",
                hint="upgrade headway",
            )
        return version

    def _migrate(self) -> None:
        """Apply what is missing. Two processes may open a new file at once: the second finds the work done."""
        known = migrations()
        while (version := self.version()) < len(known):
            with self.transaction():
                if self.version() == version:
                    for statement in statements(known[version]):
                        self.db.execute(statement)
                    self.db.execute(f"PRAGMA user_version = {version + 1}")

    # -- statements -------------------------------------------------------------------------------------------

    def execute(self, name: str, values: Values = ()) -> list[Any]:
        try:
            return self.db.execute(self._sql[name], values).fetchall()
        except sqlite3.Error as error:
            raise _explanation(self.path, error) from error

    def executemany(self, name: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Where a statement's parameters are numbered, a value that is NULL in every row is written into the statement.

        To bind a None takes sqlite3 0.4 µs, eight times as long as a number: it looks for an adapter first. An attempt has a
        dozen of them.
        """
        sql = self._sql[name]
        if "?1" in sql:
            sql, rows = _without_nulls(sql, rows)
        try:
            self.db.executemany(sql, rows)
        except sqlite3.Error as error:
            raise _explanation(self.path, error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._control("BEGIN IMMEDIATE")
        try:
            yield
            self._control("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self._control("ROLLBACK")
            raise

    def _control(self, sql: str) -> None:
        try:
            self.db.execute(sql)
        except sqlite3.Error as error:
            raise _explanation(self.path, error) from error


def _without_nulls(sql: str, rows: Sequence[tuple[Any, ...]]) -> tuple[str, Sequence[tuple[Any, ...]]]:
    columns = list(zip(*rows, strict=True))
    empty = [n for n, column in enumerate(columns) if column[0] is None and column.count(None) == len(rows)]
    if not empty:
        return sql, rows
    filled = (column for n, column in enumerate(columns) if n not in empty)
    return _with_nulls(sql, tuple(empty)), list(zip(*filled, strict=True))


@cache
def _with_nulls(sql: str, empty: tuple[int, ...]) -> str:
    """The statement with NULL for its parameters at these places, the others numbered anew."""
    return re.sub(r"\?(\d+)", lambda match: _place(int(match[1]) - 1, empty), sql)


def _place(n: int, empty: tuple[int, ...]) -> str:
    return "NULL" if n in empty else f"?{n + 1 - sum(other < n for other in empty)}"


# -- the file itself ---------------------------------------------------------------------------------------------

#: SQLite's modes of opening a file, and `immutable`, which takes no locks and makes no files.
Way = Literal["rwc", "rw", "ro", "immutable"]


def _connection(path: Path, way: Way) -> sqlite3.Connection:
    real = quote(os.fsencode(os.path.realpath(path)))
    how = "immutable=1" if way == "immutable" else f"mode={way}"
    return sqlite3.connect(
        f"file:{real}?{how}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )


def _make(path: Path) -> None:
    """Make the file if it is missing, for its owner alone, and sync its name to disk. SQLite takes an empty file for a new one.

    Closing a file drops the locks that the process has on it, SQLite's too. So no other thread may go on to open a file that
    this one has just made and not closed yet.
    """
    make_folder(path.parent)
    real = Path(os.path.realpath(path))
    with _making:
        if not os.path.lexists(real):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                os.close(os.open(real, flags, FILE_MODE))
            except FileExistsError:
                pass  # Another process was quicker.
            else:
                sync_folder(real.parent)
    if (names := real.stat().st_nlink) > 1:
        raise StoreError(
            f"{path} has {names} names (hard links), and SQLite can lose what is written under one of them",
            hint="remove the others, or use a copy: --db names another place",
        )


def _way_to_read(path: Path) -> Way:
    """How to open a file for reading so that no file is left beside it.

    Where there is a write-ahead log, read-only: SQLite reads it, too. Where there is none, no process has the file open for
    writing, and all is in it. A reader then makes a log and removes it when it closes the file, which it cannot do if it is
    read-only; where nothing may be written, it reads without locks.
    """
    real = os.path.realpath(path)
    if os.path.exists(f"{real}-wal"):
        return "ro"
    may_write = os.access(real, os.W_OK) and os.access(os.path.dirname(real), os.W_OK)
    return "rw" if may_write else "immutable"


# -- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences for people."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explanation(path, error) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be made: {(error.strerror or str(error)).lower()}",
            hint="name another place with --db",
        ) from error


def _explanation(path: Path, error: sqlite3.Error) -> Exception:
    """The error to raise instead. A constraint that the store does not expect to fail is a bug: it is raised as it is."""
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
        "free some, then go on with 'headway resume'; what was committed is safe",
    ),
    (
        "disk I/O error",
        "{path} cannot be read or written: disk I/O error",
        "check the disk; what was committed is safe",
    ),
    (
        "database is locked",
        "{path} is locked by another program",
        "close whatever has it open, then try again",
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
        "{path} may not be written",
        "check its permissions, or name another place with --db",
    ),
    (
        "unable to open",
        "{path} cannot be opened",
        "check that its directory exists and may be written, or use --db",
    ),
    ("no such table", "{path} is not a Headway database", "name another one with --db"),
)
