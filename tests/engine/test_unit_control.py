"""Units of a running job that another terminal cancels, or wants again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from tests.engine.test_engine import Adapter, Watcher, ended, engine_of, job_of, stuck, until

from headway.core.model import Kind, LaneLimits, Outcome
from headway.engine.engine import Engine
from headway.engine.run_result import RunResult
from headway.providers.adapter import Answer, Request
from headway.stores.records import Job
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store

ONE_BY_ONE = LaneLimits(max_concurrency=1)


class Gate:
    """Answers each unit when the test says so, and remembers which were cancelled."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, asyncio.Future[Answer]] = {}
        self.cancelled: list[bytes] = []

    async def send(self, request: Request) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.waiting[request.body] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled.append(request.body)
            raise
        finally:
            del self.waiting[request.body]

    def answer(self, n: int, answer: Answer | None = None) -> None:
        self.waiting[_body(n)].set_result(answer or Answer(status=200, body=b'{"good":true}'))


def _body(n: int) -> bytes:
    return b'{"n":%d}' % n


class Bench:
    """A run of a job with a store in memory, and the other terminal."""

    def __init__(self, units: int, limits: LaneLimits | None = None) -> None:
        self.store, self.gate = Store(SqliteMemory()), Gate()
        self.adapter = Adapter(self.gate.send)
        self.made: Job = job_of(self.store, units)
        self.engine, self.watcher = engine_of(self.store, self.adapter, units, limits=limits)

    def ask(self, what: str, *units: int) -> None:
        args = {"units": list(units), "names": [f"u{n}" for n in units]}
        self.store.add_command(self.made.id, what, args, time.time())

    def states(self) -> dict[int, str]:
        return self.store.states(self.made.id, range(self.made.total))

    @property
    def job(self) -> Job:
        job = self.store.job("job")
        assert job is not None
        return job

    def texts(self) -> list[str]:
        return [event.text for event in self.store.events(self.made.id) if event.what == "command"]


async def _during(engine: Engine, act: Callable[[], Awaitable[None]]) -> RunResult:
    """The end of a run, while `act` does something beside it."""
    async with asyncio.TaskGroup() as group:
        run = group.create_task(ended(engine))
        await act()
    return run.result()


async def test_a_unit_in_flight_is_stopped_and_its_place_goes_to_the_next() -> None:
    bench = Bench(3, ONE_BY_ONE)

    async def act() -> None:
        await until(lambda: _body(0) in bench.gate.waiting)
        bench.ask("cancel_units", 0)
        await until(lambda: _body(1) in bench.gate.waiting)
        assert bench.gate.cancelled == [_body(0)]
        bench.gate.answer(1)
        await until(lambda: _body(2) in bench.gate.waiting)
        bench.gate.answer(2)

    ending = await _during(bench.engine, act)
    assert bench.states() == {0: "cancelled", 1: "succeeded", 2: "succeeded"}
    assert (ending.state, bench.job.counts["cancelled"]) == ("failed", 1)
    assert bench.texts() == ["cancel u0"]
    [attempt] = bench.store.attempts(bench.made.id, 0)
    assert attempt.outcome == "cancelled"


async def test_a_unit_that_waits_never_starts_also_if_it_was_not_fetched_yet() -> None:
    bench = Bench(500, ONE_BY_ONE)

    async def act() -> None:
        await until(lambda: _body(0) in bench.gate.waiting)
        bench.ask("cancel_units", 1, 499)
        await until(lambda: bench.states()[499] == "cancelled")
        assert bench.states()[1] == "cancelled"
        bench.engine.interrupt()
        bench.engine.interrupt()

    await _during(bench.engine, act)
    assert bench.adapter.sent == [_body(0)]
    assert bench.job.counts["cancelled"] == 2
    view = bench.watcher.views[-1]
    assert view.snapshot.remaining == 498, "neither is expected any more"


async def test_a_cancelled_and_a_failed_unit_run_again_in_the_same_run() -> None:
    bench = Bench(3)

    async def act() -> None:
        await until(lambda: len(bench.gate.waiting) == 3)
        bench.gate.answer(1, Answer(Outcome(Kind.INVALID, message="no")))
        bench.ask("cancel_units", 0)
        await until(lambda: bench.states() == {0: "cancelled", 1: "failed", 2: "running"})
        bench.ask("retry_units", 0, 1, 2)
        await until(lambda: len(bench.gate.waiting) == 3)
        for n in range(3):
            bench.gate.answer(n)

    ending = await _during(bench.engine, act)
    assert set(bench.states().values()) == {"succeeded"}
    assert ending.state == "complete"
    assert bench.job.counts == {**dict.fromkeys(bench.job.counts, 0), "succeeded": 3}
    assert bench.texts() == ["cancel u0", "retry u0, u1; u2 waits or runs already"]
    assert [attempt.number for attempt in bench.store.attempts(bench.made.id, 1)] == [1, 2]


async def test_a_unit_that_is_wanted_again_and_cancelled_at_once_is_cancelled() -> None:
    """Commands are carried out in order, also while the unit of the first is being brought back."""
    bench = Bench(2)

    async def act() -> None:
        await until(lambda: len(bench.gate.waiting) == 2)
        bench.gate.answer(1, Answer(Outcome(Kind.INVALID, message="no")))
        await until(lambda: bench.states()[1] == "failed")
        bench.ask("retry_units", 1)
        bench.ask("cancel_units", 1)
        await until(lambda: bench.states()[1] == "cancelled")
        bench.gate.answer(0)

    await _during(bench.engine, act)
    assert bench.texts() == ["retry u1", "cancel u1"]
    assert bench.states() == {0: "succeeded", 1: "cancelled"}


async def test_a_unit_that_is_wanted_again_twice_at_once_comes_back_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(3)
    store, open_commands = bench.store, bench.store.open_commands

    async def act() -> None:
        await until(lambda: len(bench.gate.waiting) == 3)
        for n in (0, 1):
            bench.gate.answer(n, Answer(Outcome(Kind.INVALID, message="no")))
        await until(lambda: bench.states() == {0: "failed", 1: "failed", 2: "running"})
        monkeypatch.setattr(
            store, "open_commands", lambda job: found if len(found := open_commands(job)) > 2 else []
        )
        bench.ask("retry_units", 0, 1, 1)
        bench.ask("retry_units", 1, 0)
        bench.ask("retry_units", 0)
        await until(lambda: len(bench.gate.waiting) == 3 and len(bench.texts()) == 3)
        for n in range(3):
            bench.gate.answer(n)

    ending = await _during(bench.engine, act)
    assert ending.state == "complete"
    assert len(bench.adapter.sent) == 5
    assert bench.texts() == ["retry u0, u1", "u1, u0 waits or runs already", "u0 waits or runs already"]


async def test_a_unit_that_succeeded_gets_a_new_answer() -> None:
    bench = Bench(2)

    async def act() -> None:
        await until(lambda: len(bench.gate.waiting) == 2)
        bench.gate.answer(0)
        await until(lambda: bench.states()[0] == "succeeded")
        bench.ask("retry_units", 0)
        await until(lambda: len(bench.gate.waiting) == 2)
        bench.gate.answer(0, Answer(status=200, body=b'{"new":1}'))
        bench.gate.answer(1)

    assert (await _during(bench.engine, act)).state == "complete"
    assert bench.store.answer(bench.made.id, 0) == b'{"new":1}'
    assert bench.job.counts["succeeded"] == 2


async def test_a_command_at_the_very_end_is_carried_out_or_stays_open() -> None:
    """The last unit ends while the command is on its way: the run goes on with the unit that comes back."""
    bench = Bench(1)
    reopened: list[int] = []
    bench.engine.when_reopened(lambda: lambda: reopened.append(1))

    async def act() -> None:
        await until(lambda: len(bench.gate.waiting) == 1)
        bench.ask("retry_units", 0)
        bench.ask("cancel_units", 0)
        await until(lambda: bool(bench.gate.cancelled))

    ending = await _during(bench.engine, act)
    assert ending.state == "failed"
    assert bench.texts() in (["retry u0", "cancel u0"], ["u0 waits or runs already", "cancel u0"])
    assert bench.store.open_commands(bench.made.id) == []


@pytest.mark.parametrize("mode", ["pause", "run"])
async def test_a_paused_job_can_lose_units_and_get_them_back(mode: str) -> None:
    bench = Bench(3, ONE_BY_ONE)

    async def act() -> None:
        await until(lambda: _body(0) in bench.gate.waiting)
        if mode == "pause":
            bench.store.add_command(bench.made.id, "pause", {}, time.time())
            await until(lambda: bench.job.state == "paused")
        bench.ask("cancel_units", 2)
        await until(lambda: bench.states()[2] == "cancelled")
        bench.ask("retry_units", 2)
        await until(lambda: bench.states()[2] != "cancelled")
        bench.store.add_command(bench.made.id, "resume", {}, time.time())
        for n in range(3):
            await until(lambda n=n: _body(n) in bench.gate.waiting)  # type: ignore[misc]
            bench.gate.answer(n)

    assert (await _during(bench.engine, act)).state == "complete"
    assert len(bench.adapter.sent) == 3


async def test_a_later_run_runs_only_the_named_units_whatever_their_state() -> None:
    store = Store(SqliteMemory())

    async def good(request: Request) -> Answer:
        return Answer(status=200, body=b"{}")

    first = Adapter(good)
    engine, _ = engine_of(store, first, 3)
    await ended(engine)
    job = store.job("job")
    assert job is not None
    again = Adapter(good)
    engine, watcher = engine_of(store, again, 3)
    import msgspec

    engine._spec = msgspec.structs.replace(engine._spec, only_units=(1,))
    await ended(engine)
    assert again.sent == [_body(1)]
    after = store.job("job")
    assert after is not None
    assert (after.state, after.counts["succeeded"]) == ("complete", 3)
    assert watcher.views[-1].ended == 3


async def test_an_unknown_command_and_stuck_units_do_not_disturb_each_other() -> None:
    store, adapter = Store(SqliteMemory()), Adapter(stuck)
    job = job_of(store, 2)
    engine, watcher = engine_of(store, adapter, 2)
    run = asyncio.ensure_future(ended(engine))
    await until(lambda: len(adapter.sent) == 2)
    store.add_command(job.id, "cancel_units", {"units": [0]}, time.time())  # Without names.
    await until(lambda: not store.open_commands(job.id))
    engine.interrupt()
    engine.interrupt()
    await run
    assert isinstance(watcher, Watcher)
