"""Every store keeps the notes of attempts, and removes them with their job."""

from __future__ import annotations

from pathlib import Path

from headway.stores.records import UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .records import begun


def test_notes_are_read_by_attempt_number(store: Store) -> None:
    job, _, _ = begun(store)
    batch = WriteBatch(job)
    batch.change(1, UnitChange("pending", tries=1))
    batch.notes += [(1, 2, b'{"stdout":"later"}'), (1, 1, b'{"files":["a"]}')]
    store.commit(batch)
    assert store.notes_of(job, 1) == {1: {"files": ["a"]}, 2: {"stdout": "later"}}
    assert list(store.notes_of(job, 1)) == [1, 2]
    assert store.notes_of(job, 0) == {}


def test_forgetting_a_job_removes_its_notes(tmp_path: Path) -> None:
    with Store(SqliteFile(tmp_path / "h.db")) as store:
        job, _, _ = begun(store)
        batch = WriteBatch(job)
        batch.change(0, UnitChange("pending", tries=1))
        batch.notes.append((0, 1, b"{}"))
        store.commit(batch)
        store.forget(job)
        again, _, _ = begun(store)
        assert store.notes_of(job, 0) == store.notes_of(again, 0) == {}
