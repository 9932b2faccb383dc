"""Builds the search index of a job, in slices, and keeps it up to date.

The first pass reads all units in the order of the input. After it, units with new attempts are indexed again; if the job's counters
show other ends (from the cache, skipped, cancelled), another pass compares what is indexed. A unit that was never sent is indexed once no process
runs the job: until then most would be indexed twice.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Final
from zlib import crc32

from headway.core.unit_states import ENDED
from headway.reports.unit_pages.listed import answer_start, prompt_start
from headway.stores.records import Job
from headway.stores.sqlite.search_file import IndexedText, IndexProgress, SearchFile
from headway.stores.store import Store
from headway.stores.unit_lists import ListedUnit, UnitFilter

#: Units that are indexed in one transaction: about 30 ms.
SLICE: Final = 500
#: Attempts that are looked up at once.
ATTEMPTS: Final = 2_000
#: Characters of an error that are searched.
ERROR_CHARS: Final = 300


class UnitIndex:
    """The index of one job. Its store and its file belong to the thread that calls it."""

    def __init__(self, store: Store, job: Job, file: SearchFile) -> None:
        self._store, self._job, self._file = store, job, file

    def advance(self, seconds: float, *, live: bool) -> bool:
        """Work for about so long; returns whether there is more to do. `live`: a process runs the job."""
        until = time.monotonic() + seconds
        job = self._store.job(self._job.name)
        if job is None or job.id != self._job.id:
            return False
        self._job = job
        try:
            while self._slice(live=live):
                if time.monotonic() > until:
                    return True
        except sqlite3.DatabaseError:
            self._file.make_again()
            return True
        return False

    def _slice(self, *, live: bool) -> bool:
        """Index the next units; False: everything is up to date."""
        store, job = self._store, self._job
        last = store.last_index(job.id)
        with self._file.page() as before:
            if before.upto < 0:
                signature = _signature(job, live=live)
                before = IndexProgress(-1, store.lists.last_attempt(), signature)
            if before.upto < last:
                indexes = store.lists.next(job.id, before.upto, last, SLICE, UnitFilter())
                after = IndexProgress(indexes[-1] if indexes else last, before.attempt, before.signature)
            else:
                indexes, attempt = store.lists.attempted_since(job.id, before.attempt, ATTEMPTS)
                after = IndexProgress(before.upto, attempt, before.signature)
                if attempt == before.attempt and _signature(job, live=live) != before.signature:
                    after = IndexProgress(-1)
            if after == before:
                return False
            self._index(indexes, after, live=live)
        return True

    def _index(self, indexes: Sequence[int], after: IndexProgress, *, live: bool) -> None:
        known = self._file.stamps(indexes)
        texts = [
            IndexedText(unit.index, stamp, searched_text(unit))
            for unit in self._store.lists.rows(self._job.id, indexes)
            if (unit.attempts or unit.status in ENDED or not live)
            and known.get(unit.index) != (stamp := _stamp(unit))
        ]
        self._file.add(texts, known, after)


def searched_text(unit: ListedUnit) -> str:
    """Everything by which a unit is found."""
    error = f"{unit.code or ''} {(unit.message or '')[:ERROR_CHARS]}"
    answer = answer_start(unit.answer) if unit.answer else ""
    return "\n".join((unit.custom_id, error, prompt_start(unit.request), answer))


def _stamp(unit: ListedUnit) -> int:
    """Changes whenever the text of a unit may have changed."""
    return crc32(f"{unit.status}|{unit.attempts}|{unit.finished_utc}|{unit.code}|{unit.message}".encode())


def _signature(job: Job, *, live: bool) -> str:
    """Changes whenever units may have ended, or been brought back, without an attempt."""
    counts = job.counts
    return f"{counts['cached']} {counts['skipped']} {counts['cancelled']} {'' if live else job.state}"
