"""The file under the SQLite store: how it is opened, the schema in it, transactions on it, and its errors in words.

Owns the connection: the standard library's module, WAL, `synchronous=FULL`; one object a thread. The schema's steps are
applied forward when a file is opened, each in a transaction of its own together with the version it makes. SQLite's errors
become `StoreError`s that say what to do. What is in the tables is for `sqlite` and `sqlite_cache` to know.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from headway.errors import NoRecords, StoreError
from headway.stores.statements import migrations, queries, statements

#: How long a writer waits for another process's transaction before it calls the database locked.
BUSY_S: Final = 10.0
#: How often it looks again where SQLite does not wait by itself.
WAL_STEP_S: Final = 0.005
CACHE_KB: Final = 4_000
#: Pages in the write-ahead log before it is folded back: 32 MB, so that a checkpoint is rare and a burst fits.
CHECKPOINT_PAGES: Final = 8_000


class SqliteFile:
    """One connection to one file, and the statements that are run on it by name."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.sql = queries()
        with _explained(path):
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise NoRecords(f"there is no database at {path}", hint="'headway run FILE' makes one")
            if path.is_dir():
                raise StoreError(f"{path} is a directory", hint="name a file with --db")
            self.db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
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
        reading = self.db.execute("PRAGMA query_only").fetchone()[0]
        self.db.execute("PRAGMA query_only = 0")
        try:
            with self.transaction():
                return self.version(), len(migrations())
        finally:
            self.db.execute(f"PRAGMA query_only = {reading}")

    @property
    def outdated(self) -> bool:
        """Whether it was written by an older Headway and only looked at since."""
        return 0 < self.version() < len(migrations())

    def _prepare(self, read_only: bool) -> None:
        db = self.db
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        version = self.version()
        if read_only:
            if 0 < version < len(migrations()):
                self._migrate()  # An older Headway wrote it: whoever looks needs the present tables, too.
            db.execute("PRAGMA query_only = 1")
            return
        self._use_wal()
        db.execute("PRAGMA synchronous = FULL")
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

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Everything that is done with the connection meanwhile, or nothing of it."""
        db = self.db
        with _explained(self.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def rows(self, name: str, *values: Any) -> list[Any]:
        """What a named statement finds."""
        with _explained(self.path):
            return self.db.execute(self.sql[name], values).fetchall()

    def row(self, name: str, *values: Any) -> Any:
        """The first of it, or None."""
        rows = self.rows(name, *values)
        return rows[0] if rows else None

    def mappings(self, name: str, *values: Any) -> list[dict[str, Any]]:
        """The same as `rows`, each by the names of its columns."""
        with _explained(self.path):
            cursor = self.db.execute(self.sql[name], values)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor]


# -- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences for people."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise _explanation(path, error) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be made: {(error.strerror or str(error)).lower()}",
            hint="name another place with --db",
        ) from error


def _explanation(path: Path, error: sqlite3.Error) -> StoreError:
    text = str(error)
    for part, message, hint in _EXPLANATIONS:
        if part in text:
            return StoreError(message.format(path=path), hint=hint)
    return StoreError(f"{path}: {text}")


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
