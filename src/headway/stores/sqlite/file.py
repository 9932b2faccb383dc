"""A SQLite file: how it is made and opened.

One object a thread: WAL, `synchronous=FULL`. The schema is brought up to date when a file is opened for writing. A new file is for
its owner alone; SQLite gives its `-wal` and `-shm` the same mode.

A file that is opened for reading is not changed: an older schema is read through, and no file is left beside it.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from headway.errors import NoRecords, StoreError
from headway.stores.files import FILE_MODE, make_folder, sync_folder
from headway.stores.sqlite import schema
from headway.stores.sqlite.database import SqliteDatabase
from headway.stores.sqlite.errors import explained

#: How long a writer waits for another process's transaction before it calls the database locked.
BUSY_S: Final = 10.0
#: How often it looks again where SQLite does not wait by itself.
WAL_STEP_S: Final = 0.005
CACHE_KB: Final = 4_000
#: Pages in the write-ahead log before it is folded back: 32 MB, so that a checkpoint is rare and a burst fits.
CHECKPOINT_PAGES: Final = 8_000

#: Held while a new file is made: see `_make`.
_making: Final = threading.Lock()


class SqliteFile(SqliteDatabase):
    """One connection to one file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        with explained(path):
            if path.is_dir():
                raise StoreError(f"{path} is a directory", hint="name a file with --db")
            if read_only and not path.exists():
                raise NoRecords(
                    f"there is no database at {path}", hint="'headway run FILE' makes one; --db names another"
                )
            if not read_only:
                _make(path)
            connection = _connection(path, _way_to_read(path) if read_only else "rwc")
            super().__init__(connection, path, read_only=read_only)
            try:
                self._prepare()
            except BaseException:
                connection.close()
                raise

    def probe(self) -> tuple[int, int]:
        """The schema's version and the newest that is known. Raises where the file may not be written; writes nothing."""
        with explained(self.path), closing(_connection(self.path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        return schema.version(self), len(schema.migrations())

    def _prepare(self) -> None:
        pragma = self._pragma
        pragma("cache_size", -CACHE_KB)
        version = schema.version(self)
        if self.read_only:
            if 0 < version < len(schema.migrations()):
                schema.read_as_newest(self.connection)
            pragma("query_only", 1)
            return
        self._use_wal()
        pragma("synchronous", "FULL")
        # On macOS an fsync reaches the disk's cache only; elsewhere these two change nothing.
        pragma("fullfsync", 1)
        pragma("checkpoint_fullfsync", 1)
        pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        schema.migrate(self)

    def _pragma(self, name: str, value: int | str) -> None:
        self.connection.execute(f"PRAGMA {name} = {value}")

    def _use_wal(self) -> None:
        """If two processes open a new file at once, both change its mode, and SQLite refuses one of them without waiting."""
        give_up_at = time.monotonic() + BUSY_S
        while self.connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._pragma("journal_mode", "WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= give_up_at:
                    raise
                time.sleep(WAL_STEP_S)


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
