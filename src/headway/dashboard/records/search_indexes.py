"""The search indexes of the jobs whose units are being looked at: built and kept up to date by one thread, as long as someone looks.

The thread has a low priority and rests between slices, so that it takes little from a run on the same machine. An index that cannot be
made, for example on a disk that may not be written, is left out: units are then found by their ids only.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headway.errors import HeadwayError
from headway.reports.unit_pages.unit_index import UnitIndex
from headway.stores.job_lock import JobPlaces
from headway.stores.records import Job
from headway.stores.sqlite.search_file import SearchFile
from headway.stores.store import Store

#: The index of a job, in its folder.
FILE_NAME: Final = "search.db"
#: An index is kept up to date for so long after someone has asked.
KEPT_S: Final = 60.0
#: How long the builder uses a connection to the records: they may be replaced meanwhile.
_STORE_S: Final = 5.0
#: Work at once, and the rest after it; where nothing is to do, the rest is longer.
_SLICE_S: Final = 0.03
_REST_S: Final = 0.01
_IDLE_S: Final = 0.5
#: The priority of the thread, where threads have one: 19 is the lowest.
_NICE: Final = 10


class _OpenIndex:
    """One index: a connection for searches, used by one at a time."""

    def __init__(self, job: Job, path: Path) -> None:
        self.job, self.path, self.identity = job, path, _identity(job)
        self.file = SearchFile(path, self.identity)
        self.lock = threading.Lock()
        self.asked_at = time.monotonic()


class SearchIndexes:
    """The indexes of one database."""

    def __init__(self, open_store: Callable[[], Store], jobs: JobPlaces) -> None:
        self._open_store, self._jobs = open_store, jobs
        self._open: dict[int, _OpenIndex] = {}
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._builder: threading.Thread | None = None
        self._is_closed = False

    @contextmanager
    def index_of(self, job: Job) -> Iterator[SearchFile | None]:
        """The index of a job, which is built from now on; None if there can be none."""
        one = self._entry(job)
        if one is None:
            yield None
            return
        one.asked_at = time.monotonic()
        self._start()
        with one.lock:
            yield one.file

    def close(self) -> None:
        """Build no more, and close what is not being read."""
        self._is_closed = True
        self._asked.set()
        with self._lock:
            for one in self._open.values():
                if one.lock.acquire(blocking=False):
                    one.file.close()

    def _entry(self, job: Job) -> _OpenIndex | None:
        with self._lock:
            one = self._open.get(job.id)
            if one is None or one.identity != _identity(job) or not one.file.is_in_place:
                try:
                    one = _OpenIndex(job, self._jobs.folder / job.name / FILE_NAME)
                except (sqlite3.Error, OSError, HeadwayError):
                    return None
                self._open[job.id] = one
            return one

    def _start(self) -> None:
        self._asked.set()
        with self._lock:
            if self._builder is None or not self._builder.is_alive():
                self._builder = threading.Thread(target=self._build, name="headway-search", daemon=True)
                self._builder.start()

    def _wanted(self) -> list[_OpenIndex]:
        now = time.monotonic()
        with self._lock:
            return [one for one in self._open.values() if now - one.asked_at < KEPT_S]

    def _build(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        try:
            while not self._is_closed and self._wanted():
                with self._open_store() as store:
                    self._advance_all(store, time.monotonic() + _STORE_S)
        except (sqlite3.Error, OSError, HeadwayError):
            return  # The next search starts it again.

    def _advance_all(self, store: Store, until: float) -> None:
        files: dict[str, SearchFile] = {}
        try:
            while not self._is_closed and time.monotonic() < until and (wanted := self._wanted()):
                more = False
                for one in wanted:
                    if not one.file.is_in_place:  # The next search makes it again, if the job is still there.
                        continue
                    if (file := files.get(one.identity)) is None or not file.is_in_place:
                        file = files[one.identity] = SearchFile(one.path, one.identity)
                    index = UnitIndex(store, one.job, file)
                    more |= index.advance(_SLICE_S, live=self._jobs.is_live(one.job.name))
                    time.sleep(_REST_S)
                self._asked.clear()
                if not more:
                    self._asked.wait(_IDLE_S)
        finally:
            for file in files.values():
                file.close()


def _identity(job: Job) -> str:
    """What the index is of: a job of the same name in another database is another one."""
    return f"{job.id} {job.name} {job.created_utc}"
