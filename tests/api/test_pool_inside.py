"""A pool whose methods are called from inside: by callbacks, and by the `execute` that it runs."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway import HeadwayError, WorkerPool, WorkerResult

pytestmark = pytest.mark.timeout(60)


class Doing:
    def __init__(self) -> None:
        self.pool: WorkerPool
        self.act: Callable[[WorkerPool, str], Any] = lambda pool, prompt: prompt

    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        return WorkerResult(True, output=self.act(self.pool, prompt))


class ADoing(Doing):
    async def execute(  # type: ignore[override]
        self,
        prompt: str,
        payload: Any,
        timeout: float,  # noqa: ASYNC109
    ) -> WorkerResult:
        value = self.act(self.pool, prompt)
        return WorkerResult(True, output=await value if asyncio.iscoroutine(value) else value)


Act = Callable[[WorkerPool, str], Any]


class Stage:
    """A pool, and what its callbacks do with it."""

    def __init__(self, *, worker: Doing | None = None, callback: Act | None = None, **given: Any) -> None:
        self.ended: dict[str, WorkerResult] = {}
        self.given: list[Any] = []
        self.worker = worker or Doing()

        def told(unit: str, result: WorkerResult) -> Any:
            value = None if callback is None else callback(self.pool, unit)
            self.given.append(value)
            self.ended[unit] = result
            return value

        self.pool = self.worker.pool = WorkerPool(
            self.worker, on_unit_complete=told, on_unit_failed=told, **given
        )

    def run(self, *units: str) -> None:
        self.pool.start()
        for unit in units:
            assert self.pool.submit_work_unit(unit, unit)

    def outputs(self) -> dict[str, Any]:
        return {unit: result.output for unit, result in self.ended.items()}


def state(db: Path) -> list[Any]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute("SELECT state, succeeded FROM jobs").fetchall()


def still_running() -> list[str]:
    return [
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith(("headway-loop", "headway-stop"))
    ]


@pytest.mark.parametrize("outside", ["stop", "nothing", "with"])
def test_stop_in_a_callback_returns_and_the_pool_ends(outside: str, tmp_path: Path) -> None:
    stage = Stage(callback=lambda pool, _: pool.stop(), store=tmp_path / "h.db", max_workers=2)
    if outside == "with":
        with stage.pool:
            assert stage.pool.submit_work_unit("a", "a")
            assert stage.pool.wait_for_completion(20)
    else:
        stage.run("a", "b")
        assert stage.pool.wait_for_completion(20)
        if outside == "stop":
            stage.pool.stop()
        else:
            for thread in threading.enumerate():
                if thread.name == "headway-stop":
                    thread.join(20)
    assert state(tmp_path / "h.db") == [("complete", len(stage.ended))]
    assert set(stage.given) == {None}
    assert still_running() == []
    with pytest.raises(HeadwayError, match="not running"):
        stage.pool.submit_work_unit("c", "c")


def test_stop_outside_waits_for_a_stop_in_a_callback() -> None:
    """After the `with` block everything has ended, even if a callback stopped the pool first."""
    stopped, go = threading.Event(), threading.Event()

    def callback(pool: WorkerPool, unit: str) -> None:
        pool.stop()
        stopped.set()
        assert go.wait(20)

    stage = Stage(callback=callback)
    stage.run("a")
    assert stopped.wait(20)
    threading.Timer(0.05, go.set).start()
    stage.pool.stop()
    assert list(stage.ended) == ["a"]
    assert still_running() == []


@pytest.mark.parametrize("worker", [Doing, ADoing])
def test_stop_in_execute_lets_the_unit_finish(worker: type[Doing]) -> None:
    stage = Stage(worker=worker())

    def act(pool: WorkerPool, prompt: str) -> str:
        pool.stop()
        return prompt

    stage.worker.act = act
    stage.run("a")
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.outputs() == {"a": "a"}
    assert still_running() == []


def test_a_pool_that_was_stopped_inside_can_be_started_again() -> None:
    stage = Stage(callback=lambda pool, _: pool.stop())
    for unit in ("a", "b"):
        stage.run(unit)
        assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.outputs() == {"a": "a", "b": "b"}


def test_start_inside_does_nothing_and_is_refused_once_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    def callback(pool: WorkerPool, unit: str) -> None:
        pool.start()
        if unit == "b":
            pool.stop()
            pool.start()

    stage = Stage(callback=callback, max_workers=1)
    with caplog.at_level(logging.ERROR, "headway"):
        stage.run("a")
        assert stage.pool.wait_for_completion(20)
        stage.run("b")
        assert stage.pool.wait_for_completion(20)
        stage.pool.stop()
    assert "the pool is stopping" in caplog.text


@pytest.mark.parametrize("workers", [1, 3])
def test_callbacks_that_wait_for_completion_do_not_wait_for_each_other(workers: int) -> None:
    stage = Stage(callback=lambda pool, _: pool.wait_for_completion(), max_workers=workers)
    units = ["a", "b", "c"][:workers]
    stage.run(*units)
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.given == [True] * workers


def test_a_callback_that_waits_for_completion_waits_for_the_units() -> None:
    go, waits = threading.Event(), threading.Event()

    def callback(pool: WorkerPool, unit: str) -> bool | None:
        if unit == "b":
            return None
        assert not pool.wait_for_completion(0.01)
        waits.set()
        done = pool.wait_for_completion()
        assert "b" in stage.ended
        return done

    stage = Stage(callback=callback, max_workers=2)
    stage.worker.act = lambda _, prompt: prompt if prompt == "a" else (go.wait(20), prompt)[1]
    stage.run("a", "b")
    assert waits.wait(20)
    go.set()
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.given == [None, True]


def test_the_pool_is_not_complete_for_others_while_a_callback_waits() -> None:
    """A callback that has waited goes on: callers outside wait for its end."""
    waited, go = threading.Event(), threading.Event()

    def callback(pool: WorkerPool, unit: str) -> None:
        pool.wait_for_completion()
        waited.set()
        assert go.wait(20)

    stage = Stage(callback=callback)
    stage.run("a")
    assert waited.wait(20)
    assert not stage.pool.wait_for_completion(0.01)
    go.set()
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()


@pytest.mark.parametrize("workers", [1, 3])
def test_units_that_wait_for_completion_or_a_slot_do_not_wait_for_each_other(workers: int) -> None:
    stage = Stage(max_workers=workers)
    stage.worker.act = lambda pool, prompt: (pool.wait_for_completion(), pool.wait_for_available_slot())
    stage.run(*["a", "b", "c"][:workers])
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert len(stage.ended) == workers
    assert all(result.output[0] is True for result in stage.ended.values())
    assert any(result.output[1] is False for result in stage.ended.values())


def test_a_chain_of_units_that_each_callback_submits() -> None:
    def callback(pool: WorkerPool, unit: str) -> bool:
        if unit == "9":
            pool.stop()
            return True
        assert pool.wait_for_available_slot()
        return pool.submit_work_unit(str(int(unit) + 1), "next")

    stage = Stage(callback=callback, max_workers=1)
    stage.run("0")
    while not stage.pool.wait_for_completion(20) or "9" not in stage.ended:
        pass
    stage.pool.stop()
    assert sorted(stage.ended) == [str(n) for n in range(10)]


def test_leaving_the_with_block_in_a_callback_stops_the_pool() -> None:
    def callback(pool: WorkerPool, unit: str) -> None:
        with pool:
            pass

    stage = Stage(callback=callback)
    stage.run("a")
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert list(stage.ended) == ["a"]


@pytest.mark.parametrize("name", ["wait_for_completion", "wait_for_available_slot"])
def test_waiting_on_the_pools_own_loop_is_refused(name: str) -> None:
    stage = Stage(worker=ADoing())
    stage.worker.act = lambda pool, _: getattr(pool, name)()
    stage.run("a")
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert f"{name}() would block the event loop" in stage.ended["a"].error
    assert f"asyncio.to_thread(pool.{name})" in stage.ended["a"].error


def test_a_thread_of_an_asynchronous_unit_may_wait() -> None:
    stage = Stage(worker=ADoing())
    stage.worker.act = lambda pool, _: asyncio.to_thread(pool.wait_for_completion)
    stage.run("a")
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.outputs() == {"a": True}


def test_an_asynchronous_callback_is_awaited() -> None:
    heard: list[str] = []

    async def callback(unit: str, result: WorkerResult) -> None:
        await asyncio.sleep(0)
        heard.append(unit)

    worker = Doing()
    worker.pool = WorkerPool(worker, on_unit_complete=callback)
    with worker.pool:
        assert worker.pool.submit_work_unit("a", "a")
        assert worker.pool.wait_for_completion(20)
        assert heard == ["a"]


def test_a_callback_may_wait_for_another_pool() -> None:
    """Inside of one pool is outside of another."""
    other = Stage()

    def callback(pool: WorkerPool, unit: str) -> dict[str, Any]:
        other.run("x")
        assert other.pool.wait_for_completion(20)
        other.pool.stop()
        return other.outputs()

    stage = Stage(callback=callback)
    stage.run("a")
    assert stage.pool.wait_for_completion(20)
    stage.pool.stop()
    assert stage.given == [{"x": "x"}]
