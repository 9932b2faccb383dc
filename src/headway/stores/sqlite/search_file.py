"""The search index of one job: a SQLite file of its own, which can be made again from the records at any time.

It finds units by the beginnings of words (FTS5, `contentless`: the texts themselves are not stored). A unit whose text changes is added
again under a new version, and what is found of older versions is dropped. A damaged file is removed and made again. Several processes
may build it together: each page is a transaction that begins by reading how far the index is. A link in its place is an error.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.stores.files import must_be_no_link
from headway.stores.job_lock import JOB_LEVELS
from headway.stores.sqlite.file import connect_file, make_file

#: Changed whenever the tables or the texts change: an index of another version is made again.
FORMAT: Final = 1
#: Of a document's number: the upper half is its version, the lower half the index of its unit.
SHIFT: Final = 32
INDEX: Final = (1 << SHIFT) - 1
#: Words of scripts without spaces are single characters: kana, CJK, Hangul has spaces.
_UNSPACED: Final = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
_WORDS: Final = re.compile(r"[^\W_]+")
#: At most so many words of a search count.
MOST_WORDS: Final = 12
#: A word that so many units have counts only as a whole word.
FREQUENT: Final = 20_000
CACHE_KB: Final = 16_000

_TABLES: Final = (
    "CREATE TABLE progress (one INTEGER PRIMARY KEY CHECK (one = 1), job TEXT NOT NULL, state TEXT NOT NULL)",
    # `stamp`: of what was indexed, so that a change is seen.
    "CREATE TABLE units (place INTEGER PRIMARY KEY, version INTEGER NOT NULL, stamp INTEGER NOT NULL)",
    "CREATE VIRTUAL TABLE words USING fts5 (text, content = '', detail = none, columnsize = 0, tokenize = 'unicode61', prefix = '2 3')",
)


class IndexedText(msgspec.Struct, frozen=True, gc=False):
    """The text by which a unit is found. `stamp` changes with it."""

    index: int
    stamp: int
    text: str


class IndexProgress(msgspec.Struct, frozen=True):
    """How far an index is: the last unit that the present pass looked at (-1: none yet), the last recorded attempt that was seen, and
    how the job was when the pass began.
    """

    upto: int = -1
    attempt: int = 0
    signature: str = ""


class SearchFile:
    """One connection to the index of a job. `job` identifies it: an index of another job in this place is made again."""

    def __init__(self, path: Path, job: str) -> None:
        self._path, self._job = path, job
        self._db = self._opened()
        #: Words that were searched → whether they are frequent.
        self._frequent: dict[str, bool] = {}

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @property
    def is_in_place(self) -> bool:
        """Whether the open file is the one that the path leads to: others may remove it, or make it again."""
        return _place_of(self._path) == self._place

    # -- building ------------------------------------------------------------------------------------------------

    def progress(self) -> IndexProgress:
        """How far the index is."""
        rows = self._read("SELECT state FROM progress", ())
        try:
            return _progress_in(rows)
        except sqlite3.DatabaseError:
            self.make_again()
            return IndexProgress()

    @contextmanager
    def page(self) -> Iterator[IndexProgress]:
        """A transaction that adds texts and says how far the index is then. Another process does not add the same meanwhile."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield _progress_in(self._db.execute("SELECT state FROM progress").fetchall())
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def stamps(self, indexes: Sequence[int]) -> dict[int, int]:
        """The stamps of these units, as they were indexed."""
        wanted = msgspec.json.encode(list(indexes)).decode()
        rows = self._db.execute(
            "SELECT place, stamp FROM units WHERE place IN (SELECT value FROM json_each(?))", (wanted,)
        )
        return dict(rows.fetchall())

    def add(self, texts: Sequence[IndexedText], known: dict[int, int], progress: IndexProgress) -> None:
        """Add the texts of units inside `page`; `known` are the stamps of those that are in the index already."""
        self._db.executemany(
            "INSERT INTO units (place, version, stamp) VALUES (?, 0, ?) "
            "ON CONFLICT (place) DO UPDATE SET version = version + 1, stamp = excluded.stamp",
            [(one.index, one.stamp) for one in texts],
        )
        versions = self._versions([one.index for one in texts if one.index in known])
        self._db.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [((versions.get(one.index, 0) << SHIFT) + one.index, spaced(one.text)) for one in texts],
        )
        self._db.execute("UPDATE progress SET state = ?", (msgspec.json.encode(progress).decode(),))

    def _versions(self, indexes: Sequence[int]) -> dict[int, int]:
        if not indexes:
            return {}
        wanted = msgspec.json.encode(list(indexes)).decode()
        rows = self._db.execute(
            "SELECT place, version FROM units WHERE place IN (SELECT value FROM json_each(?))", (wanted,)
        )
        return dict(rows.fetchall())

    # -- finding --------------------------------------------------------------------------------------------------

    def find(self, query: str, after: int, limit: int) -> list[int]:
        """The numbers of the next documents with every word of the query, above the number `after`. They may be out of date (`present`)."""
        match = " ".join(map(self._term, words_of(query)))
        if not match:
            return []
        rows = self._read(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid > ? ORDER BY rowid LIMIT ?",
            (match, after, limit),
        )
        return [number for (number,) in rows]

    def _term(self, word: str) -> str:
        """A word in an expression: its beginning is enough, unless so many units have the whole word that finding all beginnings would
        take long. A single letter or digit is a whole word.
        """
        whole = f'"{word}"'
        if len(word) == 1 and word.isascii():
            return whole
        if word not in self._frequent:
            sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
            counted = self._read(sql, (whole, FREQUENT))
            self._frequent[word] = bool(counted) and counted[0][0] == FREQUENT
        return whole if self._frequent[word] else f"{whole}*"

    def present(self, documents: Sequence[int]) -> list[int]:
        """Those of the documents that are the latest of their units."""
        try:
            versions = self._versions([number & INDEX for number in documents])
        except sqlite3.DatabaseError as error:
            self._repair(error)
            return []
        return [number for number in documents if versions.get(number & INDEX) == number >> SHIFT]

    # -- the file ---------------------------------------------------------------------------------------------------

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        """The rows of a query. A damaged index is made again, and has none for now."""
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            self._repair(error)
            return []

    def _repair(self, error: sqlite3.DatabaseError) -> None:
        """Make a damaged index again. Raises an error that is no damage."""
        if isinstance(error, sqlite3.OperationalError) and not _is_damage(error):
            raise error
        self.make_again()

    def make_again(self) -> None:
        """Remove the file and make an empty one."""
        self._db.close()
        self._frequent.clear()
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)
        self._db = self._opened()

    def _opened(self) -> sqlite3.Connection:
        for last in (False, True):
            must_be_no_link(self._path, JOB_LEVELS)
            make_file(self._path)
            self._place = _place_of(self._path)
            db = connect_file(self._path, "rwc")
            try:
                self._prepare(db)
            except sqlite3.DatabaseError:
                db.close()
                if last:
                    raise
                for suffix in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            else:
                return db
        raise AssertionError("the second attempt returns or raises")

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("BEGIN IMMEDIATE")
        try:
            [(version,)] = db.execute("PRAGMA user_version")
            jobs = db.execute("SELECT job FROM progress").fetchall() if version == FORMAT else []
            if version and jobs != [(self._job,)]:
                raise sqlite3.DatabaseError("an index of another job or version")
            if not version:
                for table in _TABLES:
                    db.execute(table)
                state = msgspec.json.encode(IndexProgress()).decode()
                db.execute("INSERT INTO progress (one, job, state) VALUES (1, ?, ?)", (self._job, state))
                db.execute(f"PRAGMA user_version = {FORMAT}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _place_of(path: Path) -> tuple[int, int] | None:
    """What identifies the file that a path leads to; None if there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _progress_in(rows: Sequence[tuple[Any, ...]]) -> IndexProgress:
    """The progress in its only row. Anything else is damage."""
    try:
        [(state,)] = rows
        return msgspec.json.decode(state, type=IndexProgress)
    except (ValueError, TypeError, msgspec.DecodeError) as error:
        raise sqlite3.DatabaseError("the progress of the index is damaged") from error


def _is_damage(error: sqlite3.OperationalError) -> bool:
    return any(word in str(error) for word in ("malformed", "corrupt", "no such table", "disk I/O"))


def spaced(text: str) -> str:
    """The text with spaces around each character of scripts that have no spaces between words."""
    return text if text.isascii() else _UNSPACED.sub(r" \1 ", text)


def words_of(query: str) -> list[str]:
    """The words of a query, as the index has them."""
    return _WORDS.findall(spaced(query))[:MOST_WORDS]
