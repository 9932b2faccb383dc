"""The engine with a store in memory and scripted adapters, for behaviour that no real provider shows on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headway.core.model import Hint, Kind, LaneLimits, LaneSpec, Outcome
from headway.engine import run_spec
from headway.engine.engine import Engine
from headway.engine.observer import AgentActivity, Observer, View
from headway.engine.recorder import LEARN_S
from headway.engine.run_result import RunResult
from headway.errors import JobTaken, StoreError
from headway.providers.adapter import Admitted, Answer, Request
from headway.stores.records import Job, JobEvent, NewJob, NewUnit, StoredRoute, UnknownOutcome
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

Send = Callable[[Request], Awaitable[Answer]]
#: A test that reaches it has failed.
PATIENCE_S = 30.0


class Adapter:
    """Sends by calling a function of the test."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.sent: list[bytes] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        self.sent.append(request.body)
        return await self._send(request)


async def good(request: Request) -> Answer:
    return Answer(status=200, body=b"{}")


async def stuck(request: Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("it is never set")


class Watcher(Observer):
    """An observer that remembers its calls."""

    def __init__(self) -> None:
        self.noted_events: list[str] = []
        self.views: list[View] = []
        self.indexes: list[int] = []
        self.activities: list[AgentActivity] = []

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing."""

    def noted(self, event: JobEvent) -> None:
        self.noted_events.append(event.what)

    def ended(self, indexes: list[int]) -> None:
        self.indexes += indexes

    def moved(self, view: View) -> None:
        self.views.append(view)

    def activity(self, activity: AgentActivity) -> None:
        self.activities.append(activity)


def job_of(store: Store, units: int) -> Job:
    number = store.add_job(NewJob("job", "batch", "in.jsonl", "digest", "", 0.0))
    route = store.add_route(number, StoredRoute("alpha", "openai", "gpt-x"))
    new = [
        NewUnit(f"u{n}", route, "/v1/chat/completions", b'{"n":%d}' % n, chars=10, max_tokens=5)
        for n in range(units)
    ]
    store.add_units(number, 0, new)
    store.seal(number, units, {"": ("alpha", "openai", "gpt-x")}, "digest")
    job = store.job("job")
    assert job is not None
    return job


def engine_of(
    store: Store, adapter: Adapter, units: int = 3, *, limits: LaneLimits | None = None
) -> tuple[Engine, Watcher]:
    job = store.job("job") or job_of(store, units)
    spec = LaneSpec("lane", limits or LaneLimits(max_concurrency=4))
    [route] = store.routes(job.id)
    plan = run_spec.RunSpec(
        job=job,
        lanes={"lane": run_spec.RunLane(spec, "alpha/gpt-x", adapter)},
        routes={route.id: run_spec.UnitRoute("lane", None)},
        settings={},
        timeout_s=10.0,
    )
    watcher = Watcher()
    return Engine(lambda: store, plan, [watcher]), watcher


async def ended(engine: Engine) -> RunResult:
    return await asyncio.wait_for(engine.run(), PATIENCE_S)


async def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Poll for a state that no event reports."""
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - nothing sets an event.
            await asyncio.sleep(0.001)


async def test_every_unit_is_answered_and_reported_once() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(good)
    engine, watcher = engine_of(store, adapter, 20)
    ending = await ended(engine)
    assert ending.state == "complete"
    assert sorted(adapter.sent) == sorted(b'{"n":%d}' % n for n in range(20))
    assert sorted(watcher.indexes) == list(range(20))
    assert watcher.views[-1].counts["succeeded"] == 20


async def test_the_second_interruption_cancels_what_is_in_flight() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(stuck)
    engine, _ = engine_of(store, adapter)
    running = asyncio.create_task(engine.run())
    await until(lambda: len(adapter.sent) == 3)
    engine.interrupt()
    engine.interrupt()
    ending = await asyncio.wait_for(running, PATIENCE_S)
    assert ending.state == "interrupted"
    assert store.unknown_outcomes(1) == []
    assert sum(store.pending(1).values()) == 3


@pytest.mark.parametrize("turns", range(12))
async def test_an_attempt_cancelled_before_its_first_step_is_not_waited_for(turns: int) -> None:
    """Two interruptions some rounds of the loop after an intent was committed. One of the tried moments is between the creation of
    a task and its first step, when the task cannot notice that it was cancelled.
    """
    store = Store(SqliteMemory())
    adapter = Adapter(stuck)
    engine, _ = engine_of(store, adapter, 1)
    commit = engine._committed
    seen = asyncio.Event()
    left = turns

    def stop() -> None:
        nonlocal left
        if left:
            left -= 1
            asyncio.get_running_loop().call_soon(stop)
            return
        engine.interrupt()
        engine.interrupt()

    def committed(batch: WriteBatch) -> None:
        if batch.intents and not seen.is_set():
            seen.set()
            if not turns:
                engine.interrupt()
                engine.interrupt()
            else:
                stop()
        commit(batch)

    engine._committed = committed  # type: ignore[method-assign]
    ending = await ended(engine)
    assert ending.state == "interrupted"
    assert store.unknown_outcomes(1) == []


async def test_nothing_is_sent_once_records_cannot_be_written() -> None:
    class Full(Store):
        def commit(self, batch: WriteBatch) -> None:
            if batch.answers:
                raise StoreError("no space is left")
            super().commit(batch)

    store, adapter = Full(SqliteMemory()), Adapter(good)
    engine, _ = engine_of(store, adapter, 200, limits=LaneLimits(max_concurrency=1))
    with pytest.raises(StoreError, match="no space"):
        await ended(engine)
    sent = len(adapter.sent)
    assert sent < 200
    await asyncio.sleep(0.05)
    assert len(adapter.sent) == sent


async def test_the_intent_is_committed_before_anything_is_sent() -> None:
    intended: set[int] = set()
    store = Store(SqliteMemory())
    plain_commit = store.commit

    def commit(batch: WriteBatch) -> None:
        plain_commit(batch)
        intended.update(batch.intents)

    async def checked(request: Request) -> Answer:
        assert int(request.body[5:-1]) in intended
        return await good(request)

    store.commit = commit  # type: ignore[method-assign]
    engine, _ = engine_of(store, Adapter(checked), 50)
    assert (await ended(engine)).state == "complete"


class Panic(BaseException):
    """A BaseException that is not an Exception."""


@pytest.mark.parametrize(
    ("raised", "code"),
    [(RuntimeError("a bug"), "crash"), (Panic("a bug"), "crash"), (SystemExit(1), "crash"), (asyncio.CancelledError(), "invalid")],
)  # fmt: skip
async def test_an_adapter_that_raises_fails_only_its_unit(raised: BaseException, code: str) -> None:
    async def send(request: Request) -> Answer:
        if request.body == b'{"n":1}':
            raise raised
        return await good(request)

    store = Store(SqliteMemory())
    engine, _ = engine_of(store, Adapter(send))
    ending = await ended(engine)
    assert ending.state == "failed"
    results = store.results(1, -1, 10)
    assert [result.status for result in results] == ["succeeded", "failed", "succeeded"]
    assert results[1].code == code


async def test_an_auth_failure_stops_the_lane_and_keeps_its_units() -> None:
    async def refused(request: Request) -> Answer:
        return Answer(Outcome(Kind.AUTH, message="no such key"), status=401)

    store, adapter = Store(SqliteMemory()), Adapter(refused)
    engine, watcher = engine_of(store, adapter, 30, limits=LaneLimits(max_concurrency=1))
    ending = await ended(engine)
    assert ending.state == "stopped"
    assert len(adapter.sent) == 1
    assert "stopped" in watcher.noted_events
    assert sum(store.pending(1).values()) == 30
    engine, _ = engine_of(store, Adapter(good))
    assert (await ended(engine)).state == "complete"


async def test_a_hold_is_recorded_at_once() -> None:
    """Not only when lanes are recorded the next time."""

    async def held(request: Request) -> Answer:
        return Answer(
            Outcome(Kind.HOLD, hint=Hint(retry_after_s=3600.0), message="come back later"), status=429
        )

    store, adapter = Store(SqliteMemory()), Adapter(held)
    engine, watcher = engine_of(store, adapter, 3, limits=LaneLimits(max_concurrency=1))
    running = asyncio.create_task(engine.run())
    await until(lambda: "held" in watcher.noted_events)
    await until(lambda: store.lanes()[0].record is not None, 0.8 * LEARN_S)
    assert b"held_until_utc" in (store.lanes()[0].record or b"")
    engine.interrupt()
    assert (await asyncio.wait_for(running, PATIENCE_S)).state == "interrupted"


async def test_a_run_that_lost_its_job_to_another_sends_nothing_more() -> None:
    store = Store(SqliteMemory())
    answers = asyncio.Event()

    async def wait_then_answer(request: Request) -> Answer:
        await answers.wait()
        return Answer(status=200, body=b"{}")

    adapter = Adapter(wait_then_answer)
    engine, watcher = engine_of(store, adapter, 50, limits=LaneLimits(max_concurrency=2))
    running = asyncio.create_task(engine.run())
    await until(lambda: len(adapter.sent) == 2)
    other = store.begin(1, {}, "", 9.0)
    answers.set()
    with pytest.raises(JobTaken, match="another process has taken over this job: 'job'"):
        await asyncio.wait_for(running, PATIENCE_S)

    assert watcher.indexes == []
    assert sum(store.pending(1).values()) == 50
    job = store.job("job")
    assert job is not None
    assert (job.state, job.good) == ("running", 0)
    assert [row["status"] for row in store.workers(1) if row["id"] == other] == ["busy"]
    assert len(adapter.sent) < 50
