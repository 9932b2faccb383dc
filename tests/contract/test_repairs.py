"""Every store records an answer that did not fit the schema, the repair request and the unit's state in one transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from headway.stores.records import Repair, UnitChange
from headway.stores.sqlite.file import SqliteFile
from headway.stores.sqlite.schema import migrations
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

from .records import begun, end, new_job, the_job


def keep(store: Store, job: int, *repairs: Repair) -> None:
    batch = WriteBatch(job)
    for repair in repairs:
        batch.change(repair.index, UnitChange("pending", tries=1))
    batch.repairs += repairs
    store.commit(batch)


ASKED = Repair(1, 1, b'{"n":"x"}', b'{"messages":[]}', 70)


def test_a_unit_continues_with_its_repair_request(store: Store) -> None:
    job, _, _ = begun(store)
    keep(store, job, ASKED)
    assert store.open_repairs(job) == [ASKED]
    assert store.repairs_of(job, 1) == [ASKED]
    assert store.repairs_of(job, 0) == []
    assert store.request(job, 1)[1] == b'{"id":"u1"}'  # Its own request is what it always was.


def test_a_second_answer_that_does_not_fit_closes_the_first(store: Store) -> None:
    job, _, _ = begun(store)
    second = Repair(1, 2, b'{"n":"y"}')
    keep(store, job, ASKED, second)
    assert store.open_repairs(job) == []
    assert [each.answer for each in store.repairs_of(job, 1)] == [ASKED.answer, second.answer]


def test_a_repair_that_only_closes_earlier_ones_is_not_recorded(store: Store) -> None:
    job, _, _ = begun(store)
    keep(store, job, ASKED)
    keep(store, job, Repair(1, 0))
    assert store.open_repairs(job) == []
    assert store.repairs_of(job, 1) == [ASKED]


def test_a_unit_with_an_answer_has_no_open_repair(store: Store) -> None:
    job, _, _ = begun(store)
    keep(store, job, ASKED, Repair(2, 1, b"{}", b"{}", 5))
    end(store, job, 1, "succeeded")
    assert [each.index for each in store.open_repairs(job)] == [2]


def test_forgetting_a_job_removes_its_repairs(store: Store) -> None:
    job, _, _ = begun(store)
    other, _, _ = begun(store, name="other")
    keep(store, job, ASKED)
    keep(store, other, ASKED)
    store.forget(job)
    assert store.open_repairs(job) == []
    assert store.open_repairs(other) == [ASKED]


def test_a_job_keeps_its_form(store: Store) -> None:
    form = {"schema": {"type": "object", "properties": {"ü": {}}}, "columns": "QVJST1cx"}
    store.add_job(msgspec.structs.replace(new_job("formed"), form=form))
    store.add_job(new_job("plain"))
    assert the_job(store, "formed").form == form
    assert the_job(store, "plain").form == {}


def test_records_of_an_earlier_version_are_read_and_migrated(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    db = sqlite3.connect(path)
    db.executescript(migrations()[0])
    db.execute("PRAGMA user_version = 1")
    db.execute(
        "INSERT INTO jobs (name, kind, state, input, digest, models, settings, created_utc)"
        " VALUES ('old', 'batch', 'ready', 'i', 'd', '{}', '{}', 1.0)"
    )
    db.commit()
    db.close()
    with Store(SqliteFile(path, read_only=True)) as reading:
        assert the_job(reading, "old").form == {}
        assert reading.repairs_of(1, 0) == []
    with Store(SqliteFile(path)) as writing:
        assert the_job(writing, "old").form == {}
        assert writing.open_repairs(1) == []


def test_the_conversation_includes_the_repair_turn(tmp_path: Path) -> None:
    with Store(SqliteFile(tmp_path / "h.db")) as store:
        job, _, _ = begun(store)
        asked = b'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}'
        keep(store, job, Repair(1, 1, b"{}", asked, 2))
        batch = WriteBatch(job)
        batch.change(1, UnitChange("succeeded", finished_utc=300.0))
        batch.answers.append((1, 200, None, b'{"choices":[{"message":{"content":"d"}}]}'))
        store.commit(batch)
    with closing(sqlite3.connect(tmp_path / "h.db")) as db, db:
        said = db.execute('SELECT role, content FROM messages WHERE "index" = 1 ORDER BY position').fetchall()
    db.close()
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant"]
    assert [content for _, content in said[:3]] == ['"a"', '"b"', '"c"']
