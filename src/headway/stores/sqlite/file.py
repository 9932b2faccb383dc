"""A SQLite file: how it is made and opened.

One object a thread; WAL, `synchronous=FULL`. The schema is migrated when a file is opened for writing. Only its owner can read
a new file; SQLite gives its `-wal` and `-shm` files the same mode.

Opening a file for reading does not change it: an older schema is read as it is, and no file is left beside it.
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

#: How long a writer waits for the transaction of another process before it reports a locked database.
BUSY_S: Final = 10.0
#: The interval of retries where SQLite does not wait by itself.
WAL_STEP_S: Final = 0.005
#: Of each connection; a run has four. A job of 60,000 rows took the same CPU with 4 MB, and 11 MB more memory.
CACHE_KB: Final = 1_000
#: Pages in the write-ahead log before a checkpoint: 32 MB, so that checkpoints are rare and a burst fits.
CHECKPOINT_PAGES: Final = 8_000

#: Held while a new file is made: see `make_file`.
_making: Final = threading.Lock()


class SqliteFile(SqliteDatabase):
    """One connection to one file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        with explained(path):
            if path.is_dir():
                raise StoreError(f"{path} is a directory", hint="name a file with --db")
            if read_only and not path.exists():
                raise NoRecords(
                    f"there is no database at {path}",
                    hint="'headway run FILE' creates one; --db names another",
                )
            if not read_only:
                make_file(path)
            connection = connect_file(path, _read_mode(path) if read_only else "rwc")
            super().__init__(connection, path, read_only=read_only)
            try:
                self._prepare()
            except BaseException:
                connection.close()
                raise

    def probe(self) -> tuple[int, int]:
        """The version of the schema, and the newest known version. Raises if the file may not be written; writes nothing."""
        with explained(self.path), closing(connect_file(self.path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        return schema.version(self), len(schema.migrations())

    def _prepare(self) -> None:
        pragma = self._pragma
        pragma("cache_size", -CACHE_KB)
        version = schema.version(self)
        if self.read_only:
            if version < len(schema.migrations()):  # 0: the process that made the file was interrupted.
                schema.read_as_newest(self.connection)
            pragma("query_only", 1)
            return
        self._use_wal()
        pragma("synchronous", "FULL")
        # On macOS a plain fsync only reaches the cache of the disk. On other systems these two have no effect.
        pragma("fullfsync", 1)
        pragma("checkpoint_fullfsync", 1)
        pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        schema.migrate(self)

    def _pragma(self, name: str, value: int | str) -> None:
        self.connection.execute(f"PRAGMA {name} = {value}")

    def _use_wal(self) -> None:
        """Switch to WAL. If two processes open a new file at once, both do this, and SQLite rejects one of them without waiting."""
        give_up_at = time.monotonic() + BUSY_S
        while self.connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._pragma("journal_mode", "WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= give_up_at:
                    raise
                time.sleep(WAL_STEP_S)


#: The modes in which SQLite opens a file, and `immutable`, which takes no locks and makes no files.
OpenMode = Literal["rwc", "rw", "ro", "immutable"]


def connect_file(path: Path, mode: OpenMode) -> sqlite3.Connection:
    """A connection to a file, in autocommit mode, which any thread may use."""
    real = quote(os.fsencode(os.path.realpath(path)))
    how = "immutable=1" if mode == "immutable" else f"mode={mode}"
    return sqlite3.connect(
        f"file:{real}?{how}", uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )


def make_file(path: Path) -> None:
    """Make the file if it is missing, readable by its owner only, and sync its name to disk. SQLite treats an empty file as new.

    Closing a file drops all locks that the process has on it, including SQLite's. So no other thread may open the file between
    its creation and its closing here.
    """
    make_folder(path.parent)
    real = Path(os.path.realpath(path))
    with _making:
        if not os.path.lexists(real):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                os.close(os.open(real, flags, FILE_MODE))
            except FileExistsError:
                pass  # Another process has made it.
            else:
                sync_folder(real.parent)
    if (names := real.stat().st_nlink) > 1:
        raise StoreError(
            f"{path} has {names} names (hard links), and SQLite can lose what is written under one of them",
            hint="remove the others, or use a copy: --db names another place",
        )


def _read_mode(path: Path) -> OpenMode:
    """The mode in which to open a file for reading, so that no file is left beside it.

    With a write-ahead log: read-only, and SQLite also reads the log. Without a log, no process has the file open for writing, and
    the file is complete. Then a reader makes a log and removes it on closing, which a read-only connection cannot do. If
    nothing may be written, the file is read without locks.
    """
    real = os.path.realpath(path)
    if os.path.exists(f"{real}-wal"):
        return "ro"
    may_write = os.access(real, os.W_OK) and os.access(os.path.dirname(real), os.W_OK)
    return "rw" if may_write else "immutable"
