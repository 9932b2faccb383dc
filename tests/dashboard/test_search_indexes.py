"""The search indexes that the dashboard holds open, when the records or the files under them change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.stage import wait_for

from headway.dashboard.records.search_indexes import SearchIndexes
from headway.reports.unit_search import UnitQuery, search_units
from headway.stores.job_lock import JobPlaces
from headway.stores.records import Job, NewJob, NewUnit, StoredRoute
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store


class Folder:
    """Records that may be replaced, and their indexes."""

    def __init__(self, root: Path) -> None:
        self.db, self.jobs = root / "headway.db", root / "jobs"
        self.indexes = SearchIndexes(lambda: Store(SqliteFile(self.db, read_only=True)), JobPlaces(self.jobs))

    def record(self, name: str, prompt: str) -> None:
        """New records with one job of one unit."""
        for file in self.db.parent.glob("headway.db*"):
            file.unlink()
        with Store(SqliteFile(self.db)) as store:
            number = store.add_job(NewJob(name, "batch", "in.jsonl", "d", "", 0.0))
            route = store.add_route(number, StoredRoute("alpha", "openai", "m"))
            body = b'{"messages":[{"role":"user","content":"%s"}]}' % prompt.encode()
            store.add_units(number, 0, [NewUnit("u", route, "/v1/chat/completions", body)])
            store.seal(number, 1, {}, "d")

    def found(self, name: str, words: str) -> list[int]:
        with Store(SqliteFile(self.db, read_only=True)) as store:
            job: Job | None = store.job(name)
            assert job is not None
            with self.indexes.index_of(job) as index:
                return [unit.index for unit in search_units(store, job, UnitQuery(words), index).units]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.indexes.close()


def test_a_job_of_other_records_with_the_same_number_has_an_index_of_its_own(folder: Folder) -> None:
    folder.record("old", "lemon")
    wait_for("the index", lambda: folder.found("old", "lemon") == [0])
    folder.record("new", "melon")
    assert folder.found("new", "lemon") == []
    wait_for("the new index", lambda: folder.found("new", "melon") == [0])
    assert folder.found("new", "lemon") == []


def test_an_index_that_was_removed_is_made_again(folder: Folder) -> None:
    folder.record("job", "lemon")
    wait_for("the index", lambda: folder.found("job", "lemon") == [0])
    file = folder.jobs / "job" / "search.db"
    file.unlink()
    wait_for("the index", lambda: folder.found("job", "lemon") == [0] and file.exists())
