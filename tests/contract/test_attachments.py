"""The contract of attached files: stored once by content, read by the jobs that use them, removed with the last of these."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway.stores.records import NewAttachment, StoredAttachment
from headway.stores.store import Store

from .records import new_job, ready_job

A, B = "aa" * 32, "bb" * 32
IMAGE = StoredAttachment(A, "image/png", 640, 480, 0, 5)
DOCUMENT = StoredAttachment(B, "application/pdf", 0, 0, 3, 3)


def new(file: StoredAttachment, data: bytes) -> NewAttachment:
    return file, lambda: data


def unread() -> bytes:
    raise AssertionError("a file that is stored is not read again")


def count(store: Store, table: str = "attachments") -> int:
    connection = store._db.connection  # type: ignore[attr-defined]
    number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


def test_a_file_is_stored_once_and_belongs_to_the_jobs_that_use_it(store: Store) -> None:
    one, two = store.add_job(new_job("one")), store.add_job(new_job("two"))
    assert not store.has_attachments(one)
    store.add_attachments(one, [new(IMAGE, b"image"), new(DOCUMENT, b"pdf")])
    store.add_attachments(one, [new(IMAGE, b"image")])
    store.add_attachments(two, [(IMAGE, unread)])
    assert (count(store), count(store, "attachment_uses")) == (2, 3)
    assert store.has_attachments(one)
    assert store.attachment(one, A) == store.attachment(two, A) == b"image"
    assert store.attachment(two, B) is None  # Another job's file.
    assert store.attachments(one, [B, A, "cc" * 32]) == [DOCUMENT, IMAGE]
    assert store.attachments(two, [A, B]) == [IMAGE]


def test_the_last_job_that_uses_a_file_takes_it_along(store: Store) -> None:
    one, _ = ready_job(store, name="one")
    two, _ = ready_job(store, name="two")
    store.add_attachments(one, [new(IMAGE, b"image"), new(DOCUMENT, b"pdf")])
    store.add_attachments(two, [new(IMAGE, b"image")])
    store.forget(one)
    assert store.attachment(two, A) == b"image"
    assert (count(store), count(store, "attachment_uses")) == (1, 1)
    store.forget(two)
    assert (count(store), count(store, "attachment_uses")) == (0, 0)


def test_a_file_that_cannot_be_read_adds_nothing(store: Store) -> None:
    job = store.add_job(new_job())
    with pytest.raises(AssertionError):
        store.add_attachments(job, [new(IMAGE, b"image"), (DOCUMENT, unread)])
    assert (count(store), count(store, "attachment_uses")) == (0, 0)


def test_another_connection_sees_them(open_store: Callable[[], Store], store: Store) -> None:
    job = store.add_job(new_job())
    store.add_attachments(job, [new(IMAGE, b"image")])
    with open_store() as other:
        assert other.attachment(job, A) == b"image"
