"""Files in memory while requests are sent: each once, all together below a ceiling, in the order of the requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from headway.engine.units.attachment_reader import AttachmentReader
from headway.errors import StoreError
from headway.providers.attached_body import AttachedBody, mark_of

SIZE = 100


class Records:
    """The part of a recorder that a reader needs: it delivers what is asked for when it is told to."""

    job = 1

    def __init__(self) -> None:
        self.reads: list[str] = []
        self._waiting: list[Callable[[], None]] = []
        self.missing: set[str] = set()
        self.at_once = True

    def read(self, query: Callable[[Any], Any], then: Callable[[Any], None]) -> None:
        def deliver() -> None:
            then(query(self))

        if self.at_once:
            deliver()
        else:
            self._waiting.append(deliver)

    def attachment(self, job: int, digest: str) -> bytes | None:
        self.reads.append(digest[:2])
        return None if digest in self.missing else digest[:2].encode() * (SIZE // 2)

    def deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each()


def body(*names: str, size: int = SIZE) -> bytes:
    return " ".join(f'"data":"{mark_of(name * 32, size)}"' for name in names).encode()


def reader_of(records: Records, most: int = 3 * SIZE) -> AttachmentReader:
    return AttachmentReader(records, most)  # type: ignore[arg-type]


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_file_is_read_once_however_many_requests_send_it() -> None:
    records = Records()
    records.at_once = False
    reader = reader_of(records)
    opening = [asyncio.ensure_future(reader.open(body("aa"))) for _ in range(50)]
    await settled()
    records.deliver()
    opened: list[AttachedBody] = await asyncio.gather(*opening)
    assert records.reads == ["aa"]
    assert reader.held_bytes == SIZE
    assert {b"".join(each.pieces()) for each in opened} == {b"".join(opened[0].pieces())}
    for each in opened:
        each.release()
    again = await reader.open(body("aa"))
    assert records.reads == ["aa"]
    again.release()


async def test_requests_wait_in_order_until_there_is_room() -> None:
    records = Records()
    reader = reader_of(records)
    first = await reader.open(body("aa", "bb"))
    large = asyncio.ensure_future(reader.open(body("cc", "dd")))
    small = asyncio.ensure_future(reader.open(body("ee")))
    known = asyncio.ensure_future(reader.open(body("aa")))
    await settled()
    assert not large.done()
    assert not small.done()  # It would fit, but it came later.
    first.release()
    for waiting in (large, small, known):
        (await waiting).release()
    assert records.reads == ["aa", "bb", "cc", "dd", "ee", "aa"]
    assert reader.held_bytes <= 3 * SIZE


async def test_a_request_above_the_ceiling_is_sent_alone() -> None:
    reader = reader_of(Records(), most=SIZE)
    other = await reader.open(body("aa"))
    huge = asyncio.ensure_future(reader.open(body("bb", "cc", "dd")))
    await settled()
    assert not huge.done()
    other.release()
    (await huge).release()
    assert reader.held_bytes <= SIZE


async def test_cancelled_requests_leave_nothing_behind() -> None:
    records = Records()
    records.at_once = False
    reader = reader_of(records, most=SIZE)
    reading = asyncio.ensure_future(reader.open(body("aa")))
    await settled()
    queued = asyncio.ensure_future(reader.open(body("bb")))
    after = asyncio.ensure_future(reader.open(body("cc")))
    await settled()
    queued.cancel()
    reading.cancel()
    await settled()
    records.deliver()
    await settled()
    records.deliver()
    (await after).release()
    assert records.reads == ["aa", "cc"]
    assert reader.held_bytes <= SIZE


async def test_a_missing_file_is_an_error_of_that_request_alone() -> None:
    records = Records()
    records.missing.add("bb" * 32)
    reader = reader_of(records)
    with pytest.raises(StoreError, match="not in the database"):
        await reader.open(body("aa", "bb"))
    (await reader.open(body("aa", "cc", "dd"))).release()
