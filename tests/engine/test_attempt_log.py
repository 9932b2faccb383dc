"""What adapters report of attempts while they run: recorded as it comes, in bounded memory, and told to observers."""

from __future__ import annotations

import asyncio

import pytest
from tests.engine.test_engine import Adapter, ended, engine_of, good

from headway.engine.recording import attempt_log
from headway.providers.adapter import Answer, Request
from headway.providers.attempt_log import AgentProgress
from headway.reports import transcripts
from headway.stores.row_conversion import uid
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store


class LoggingAdapter(Adapter):
    """Reports lines and progress of its attempts."""

    takes_log = True


async def test_an_attempts_lines_and_progress_are_recorded_and_told() -> None:
    store = Store(SqliteMemory())

    async def send(request: Request) -> Answer:
        assert request.log is not None
        for turn in range(1, 4):
            request.log.progress(AgentProgress(turn, "Bash", 10 * turn, 0.5))
            request.log.line(b"line %d" % turn, b'[{"role":"assistant","content":"%d"}]' % turn)
        await asyncio.sleep(1.0)
        return await good(request)

    engine, watcher = engine_of(store, LoggingAdapter(send), 1)
    await ended(engine)
    assert [line.line for line in transcripts.lines(store, uid(1, 0))] == [b"line 1", b"line 2", b"line 3"]
    assert [told.turn for told in watcher.activities] == [3, 3]
    assert [told.is_over for told in watcher.activities] == [False, True]
    assert (watcher.activities[0].unit, watcher.activities[0].lane) == ("u0", "alpha/gpt-x")


async def test_a_program_that_prints_faster_than_the_disk_writes_has_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attempt_log, "MOST_UNWRITTEN", 1_000)
    store, waits = Store(SqliteMemory()), 0

    async def send(request: Request) -> Answer:
        nonlocal waits
        assert request.log is not None
        for _ in range(50):
            wait = request.log.line(b"x" * 100, b"[]")
            if wait is not None:
                waits += 1
                await wait
        return await good(request)

    engine, _ = engine_of(store, LoggingAdapter(send), 1)
    await ended(engine)
    assert len(transcripts.lines(store, uid(1, 0))) == 50
    assert 4 <= waits <= 10
