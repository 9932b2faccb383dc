"""`headway.WorkerPool`: slots, records at every step, callbacks, timeouts, stopping."""

from __future__ import annotations

import logging
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import RateLimited, Retry, WorkerPool, WorkerResult, WorkUnit
from headway.core.model import SUCCESS, LaneSpec, Outcome
from headway.engine.calls import CallEnd, Calls, SubmittedCall
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store


class Doing:
    """A worker that calls a function of the test."""

    def __init__(self, act: Callable[[str], Any]) -> None:
        self.act = act

    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        found = self.act(prompt)
        return found if isinstance(found, WorkerResult) else WorkerResult(True, output=found)


class Gate:
    """A worker that waits at a gate."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.open = threading.Event()

    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        self.inside.release()
        assert self.open.wait(30)
        return WorkerResult(True, output=prompt)


def rows(db: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchall()


def until(db: Path, sql: str, wanted: list[Any]) -> None:
    """Another process looks at the records: what it sees comes with the next commit."""
    give_up_at = time.monotonic() + 10
    while (found := rows(db, sql)) != wanted:
        assert time.monotonic() < give_up_at, f"{found} is not {wanted}"
        time.sleep(0.005)


def test_submit_returns_false_if_every_worker_is_busy() -> None:
    worker = Gate()
    pool = WorkerPool(worker, max_workers=2)
    pool.start()
    assert pool.submit_work_unit("a", "1")
    assert pool.submit_work_unit("b", "2")
    assert not pool.submit_work_unit("c", "3")
    assert not pool.wait_for_available_slot(timeout=0.01)
    assert not pool.wait_for_completion(timeout=0.01)
    worker.open.set()
    assert pool.wait_for_available_slot(timeout=10)
    assert pool.wait_for_completion(timeout=10)
    pool.stop()
    with pytest.raises(headway.HeadwayError, match="not running"):
        pool.submit_work_unit("d", "4")


def test_callbacks_get_every_end_and_units_are_filled_in() -> None:
    ended: dict[str, Any] = {}

    def act(prompt: str) -> Any:
        if prompt == "raise":
            raise ValueError("oh")
        return WorkerResult(prompt == "fine", output=prompt, error="no good" if prompt != "fine" else "")

    def note(unit: WorkUnit, result: WorkerResult) -> None:
        ended[unit.id] = (unit.status, result.success, result.error)
        assert unit.result is result
        assert result.execution_time > 0

    with WorkerPool(Doing(act), on_unit_complete=note, on_unit_failed=note) as pool:
        for prompt in ("fine", "poor", "raise"):
            assert pool.wait_for_available_slot(10)
            pool.submit_work_unit(WorkUnit(prompt), prompt)
    assert ended == {
        "fine": ("succeeded", True, ""),
        "poor": ("failed", False, "no good"),
        "raise": ("failed", False, "ValueError: oh"),
    }


def test_a_callback_that_fails_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def bad(unit: Any, result: WorkerResult) -> None:
        raise RuntimeError("in the callback")

    unit = WorkUnit("a")
    with (
        caplog.at_level(logging.ERROR, "headway"),
        WorkerPool(Doing(str.upper), "job", tmp_path / "h.db", on_unit_complete=bad) as pool,
    ):
        pool.submit_work_unit(unit, "x")
        assert pool.wait_for_completion(10)
    assert unit.status == "succeeded"
    assert "in the callback" in caplog.text
    assert rows(tmp_path / "h.db", "SELECT status FROM units") == [("succeeded",)]


def test_each_step_is_on_record_while_it_happens(tmp_path: Path) -> None:
    db, worker = tmp_path / "h.db", Gate()
    pool = WorkerPool(worker, "job", db, max_workers=2)
    pool.start()
    slots = "SELECT name, status FROM workers WHERE name LIKE 'worker-%' ORDER BY id"
    until(db, slots, [("worker-1", "idle"), ("worker-2", "idle")])
    pool.submit_work_unit({"id": "a", "payload": {"n": 1}}, "do it")
    assert worker.inside.acquire(timeout=10)
    until(db, "SELECT custom_id, status FROM units", [("a", "running")])
    until(db, f"SELECT count(*) FROM ({slots}) WHERE status = 'busy'", [(1,)])
    assert rows(db, "SELECT body FROM requests") == [(b'{"prompt":"do it","payload":{"n":1}}',)]
    worker.open.set()
    pool.stop()
    assert rows(db, "SELECT status FROM units") == [("succeeded",)]
    assert rows(db, slots) == [("worker-1", "terminated"), ("worker-2", "terminated")]
    ((worker_of_attempt,),) = rows(
        db, "SELECT name FROM attempts JOIN workers ON workers.id = attempts.worker"
    )
    assert worker_of_attempt.startswith("worker-")
    assert rows(db, "SELECT state, succeeded FROM jobs") == [("complete", 1)]


def test_everything_in_a_result_is_recorded_and_the_unit_does_not_run_again(tmp_path: Path) -> None:
    result = WorkerResult(
        True, {"files": 2}, output_files=["a.txt"], rendered_prompt="Do it, please", session_id="s-1", cost_usd=0.5,
        conversation=[{"role": "user", "content": "Do it"}, {"role": "assistant", "content": "Done"}],
    )  # fmt: skip
    calls: list[str] = []

    def act(prompt: str) -> WorkerResult:
        calls.append(prompt)
        return result

    seen: list[WorkerResult] = []
    for _ in range(2):
        with WorkerPool(
            Doing(act), "job", tmp_path / "h.db", on_unit_complete=lambda unit, kept: seen.append(kept)
        ) as pool:
            pool.submit_work_unit("a", "Do it")
    assert len(calls) == 1
    assert seen[0] == seen[1]
    assert rows(tmp_path / "h.db", "SELECT cost_usd FROM jobs") == [(0.5,)]


def test_a_worker_past_its_timeout_is_abandoned_and_its_late_result_is_dropped(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    late = threading.Event()
    done = threading.Event()
    ended: list[tuple[str, str]] = []

    def act(prompt: str) -> str:
        if prompt == "slow":
            late.wait(30)
            done.set()
        return prompt

    def note(unit: WorkUnit, result: WorkerResult) -> None:
        ended.append((unit.id, result.error))

    # The quick one has the same time: enough for its thread to get a turn on a busy machine.
    with WorkerPool(
        Doing(act), "job", db, max_workers=1, timeout="1s", on_unit_complete=note, on_unit_failed=note
    ) as pool:
        pool.submit_work_unit(WorkUnit("slow"), "slow")
        assert pool.wait_for_available_slot(10), "its slot is free again"
        assert pool.submit_work_unit(WorkUnit("next"), "quick")
        assert pool.wait_for_completion(10)
        late.set()
        assert done.wait(10)
    assert ended == [("slow", "no result within 1 s; its thread was abandoned"), ("next", "")]
    assert rows(db, "SELECT custom_id, status FROM units ORDER BY uid") == [
        ("slow", "timed_out"),
        ("next", "succeeded"),
    ]
    slots = "SELECT name, status FROM workers WHERE name LIKE 'worker-%' ORDER BY id"
    assert rows(db, slots) == [("worker-1", "failed"), ("worker-2", "terminated")]


def test_a_rate_limit_holds_the_pool_and_the_unit_is_tried_again(tmp_path: Path) -> None:
    tries: list[float] = []

    def act(prompt: str) -> str:
        tries.append(time.monotonic())
        if len(tries) == 1:
            raise RateLimited(retry_after=0.05)
        return prompt

    unit = WorkUnit("a")
    with WorkerPool(Doing(act), "job", tmp_path / "h.db") as pool:
        pool.submit_work_unit(unit, "x")
        assert pool.wait_for_completion(10)
    assert unit.status == "succeeded"
    assert tries[1] - tries[0] >= 0.048
    assert rows(tmp_path / "h.db", "SELECT outcome FROM attempts ORDER BY id") == [
        ("throttled",),
        ("succeeded",),
    ]


def test_failures_are_final_unless_a_retry_is_given() -> None:
    tries: list[str] = []

    def act(prompt: str) -> str:
        tries.append(prompt)
        if len(tries) % 2:
            raise ConnectionResetError("gone")
        return prompt

    first, second = WorkUnit("a"), WorkUnit("b")
    with WorkerPool(Doing(act)) as pool:
        pool.submit_work_unit(first, "x")
    tries.clear()
    with WorkerPool(Doing(act), retry=Retry(max_attempts=2, base="1ms")) as pool:
        pool.submit_work_unit(second, "x")
    assert (first.status, second.status) == ("failed", "succeeded")


async def test_an_asynchronous_worker() -> None:
    class Async:
        async def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:  # noqa: ASYNC109
            return WorkerResult(True, output=(prompt, payload, timeout))

    unit = WorkUnit("a", {"n": 1})
    with WorkerPool(Async(), timeout="1m") as pool:
        pool.submit_work_unit(unit, "x")
    assert unit.result is not None
    assert unit.result.output == ("x", {"n": 1}, 60.0)


def test_many_units_never_more_than_the_workers_at_once() -> None:
    lock = threading.Lock()
    at_once = most = begun = 0
    together = threading.Barrier(3)

    def act(prompt: str) -> str:
        nonlocal at_once, most, begun
        with lock:
            at_once += 1
            begun += 1
            most = max(most, at_once)
            first = begun <= 3
        if first:
            together.wait(10)  # Three are in at once, or this breaks.
        time.sleep(0.001)
        with lock:
            at_once -= 1
        return prompt

    ended: list[Any] = []
    with WorkerPool(Doing(act), max_workers=3, on_unit_complete=lambda unit, _: ended.append(unit)) as pool:
        for n in range(100):
            assert pool.wait_for_available_slot(10)
            assert pool.submit_work_unit(str(n), "x")
    assert sorted(map(int, ended)) == list(range(100))
    assert most == 3


def test_wrong_use_of_a_pool_is_an_error_that_says_why() -> None:
    with pytest.raises(headway.HeadwayError, match="max_workers is 0"):
        WorkerPool(Doing(str), max_workers=0)
    with WorkerPool(Doing(str)) as pool, pytest.raises(headway.HeadwayError, match="no id"):
        pool.submit_work_unit({"payload": 1}, "x")

    class Wrong:
        def execute(self, prompt: str, payload: Any, timeout: float) -> str:
            return prompt

    unit = WorkUnit("a")
    with WorkerPool(Wrong()) as pool:
        pool.submit_work_unit(unit, "x")
    assert unit.result is not None
    assert "returned a str, not a WorkerResult" in unit.result.error


def test_a_failed_unit_can_be_submitted_again(tmp_path: Path) -> None:
    tries: list[str] = []

    def act(prompt: str) -> Any:
        tries.append(prompt)
        return WorkerResult(len(tries) > 1, output=prompt, error="not yet")

    unit = WorkUnit("a")
    with WorkerPool(Doing(act), "job", tmp_path / "h.db") as pool:
        for _ in range(2):
            pool.submit_work_unit(unit, "x")
            assert pool.wait_for_completion(10)
    assert unit.status == "succeeded"
    assert rows(tmp_path / "h.db", "SELECT status, attempts FROM units") == [("succeeded", 2)]


def test_a_worker_without_execute_is_refused() -> None:
    wrong: Any = len
    with pytest.raises(headway.HeadwayError, match="without execute"):
        headway.WorkerPool(wrong)


def test_bytes_in_a_recorded_result_come_back_as_bytes(tmp_path: Path) -> None:
    class Speaker:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(success=True, output={"audio": b"\xff", "odd": 1 + 2j})

    given: list[Any] = []
    for _ in range(2):
        with headway.WorkerPool(
            Speaker(),
            store=tmp_path / "h.db",
            on_unit_complete=lambda unit, result: given.append(result.output),
        ) as pool:
            pool.submit_work_unit("a", "speak")
    assert given == [{"audio": b"\xff", "odd": 1 + 2j}, {"audio": b"\xff", "odd": "(1+2j)"}]


def test_nan_and_infinities_in_a_recorded_result_come_back(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")

    class Scorer:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(success=True, output={"score": nan, "bounds": [-inf, inf, None]})

    given: list[Any] = []
    for _ in range(2):
        with headway.WorkerPool(
            Scorer(),
            store=tmp_path / "h.db",
            on_unit_complete=lambda unit, result: given.append(result.output),
        ) as pool:
            pool.submit_work_unit({"id": "a", "payload": {"threshold": nan}}, "score")
    assert [repr(output) for output in given] == ["{'score': nan, 'bounds': [-inf, inf, None]}"] * 2
    assert rows(tmp_path / "h.db", "SELECT body FROM requests") == [
        (b'{"prompt":"score","payload":{"threshold":"NaN"}}',)
    ]


def test_exhaustion_says_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    def act(prompt: str) -> Any:
        raise RateLimited(retry_after=0, reason="slow down")

    unit = WorkUnit("a")
    with WorkerPool(Doing(act), "job", tmp_path / "h.db", retry=Retry(max_throttles=2)) as pool:
        pool.submit_work_unit(unit, "x")
        assert pool.wait_for_completion(20)
    expected = (
        r"refused 3 times over \d+ s, the last time with: slow down; reduce concurrency or try again later"
    )
    assert unit.result is not None
    assert re.fullmatch(expected, unit.result.error)
    ((message,),) = rows(tmp_path / "h.db", "SELECT message FROM units")
    assert re.fullmatch(expected, message)


def test_a_unit_that_is_under_way_is_refused(tmp_path: Path) -> None:
    go_on = threading.Event()
    calls: list[str] = []

    class Slow:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            calls.append(prompt)
            go_on.wait(10)
            return headway.WorkerResult(success=True)

    with headway.WorkerPool(Slow(), store=tmp_path / "h.db") as pool:
        assert pool.submit_work_unit("same", "once")
        with pytest.raises(headway.HeadwayError, match="the unit 'same' is already running"):
            pool.submit_work_unit("same", "twice")
        go_on.set()
        assert pool.wait_for_completion(10)
        assert pool.submit_work_unit("same", "once")  # It is on record.
    assert calls == ["once"]


@pytest.mark.parametrize("output", [{(1, 2): b"x"}, {"bad": "\ud800"}, {"deep": object()}])
def test_an_output_without_a_json_form_does_not_end_the_pool(output: Any, tmp_path: Path) -> None:
    class Odd:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(success=True, output=output)

    units = [headway.WorkUnit("a"), headway.WorkUnit("b")]
    with headway.WorkerPool(Odd(), store=tmp_path / "h.db") as pool:
        for unit in units:
            assert pool.submit_work_unit(unit, "do")
        assert pool.wait_for_completion(10)
    assert [unit.status for unit in units] == ["succeeded", "succeeded"]


def test_a_class_instead_of_a_worker_is_refused() -> None:
    class Odd:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(success=True)

    wrong: Any = Odd
    with pytest.raises(headway.HeadwayError, match=r"worker is the class Odd — make one: Odd\("):
        headway.WorkerPool(wrong)
    wrong = "4"
    with pytest.raises(headway.HeadwayError, match="max_workers is '4'"):
        headway.WorkerPool(Odd(), max_workers=wrong)


@pytest.mark.parametrize("retry", [5, False, "3", {"max_attempts": 2}])
def test_an_invalid_retry_is_refused_when_the_pool_is_made(retry: Any) -> None:
    with pytest.raises(headway.HeadwayError, match=r"^retry is .* — use headway\.Retry\(max_attempts=…\)$"):
        WorkerPool(Doing(str), retry=retry)


class Moody(Retry):
    """One that lets itself be made, and fails when a lane wants it."""

    made = False

    def to_core(self) -> Any:
        if self.made:
            raise RuntimeError("not today")
        Moody.made = True
        return super().to_core()


def test_a_unit_has_one_end_whatever_fails_inside() -> None:
    ends: list[tuple[str, str]] = []
    pool = WorkerPool(
        Doing(str),
        retry=Moody(),
        on_unit_failed=lambda unit, result: ends.append((unit.status, result.error)),
    )
    with pool:
        pool.submit_work_unit(WorkUnit("a"), "x")
    assert ends == [("failed", "RuntimeError: not today")]


async def test_a_call_whose_lane_cannot_be_made_has_no_end_besides_the_exception() -> None:
    def spec_of(lane: str) -> LaneSpec:
        raise RuntimeError(lane)

    async def call(flight: SubmittedCall) -> Outcome:
        return SUCCESS

    ends: list[CallEnd] = []
    calls = Calls(spec_of)
    with pytest.raises(RuntimeError, match=r"^a$"):
        calls.submit("a", call, lambda _, end: ends.append(end))
    assert len(calls) == 0
    await calls.close()
    assert ends == []


def test_units_that_changed_under_their_id_give_one_warning(tmp_path: Path) -> None:
    brought: list[Any] = []

    def run(job_id: str = "job", **given: tuple[str, Any]) -> list[Any]:
        brought.clear()
        pool = WorkerPool(
            Doing(str.upper),
            job_id,
            tmp_path / "h.db",
            on_unit_complete=lambda _, done: brought.append(done.output),
        )
        with pool:
            for key, (prompt, payload) in given.items():
                pool.wait_for_available_slot()
                pool.submit_work_unit(WorkUnit(key, payload), prompt)
        return sorted(brought)

    run(a=("x", {"n": 1, "m": 2}), b=("y", None), c=("z", object()))
    assert run(a=("x", {"m": 2, "n": 1}), b=("y", None), c=("z", object())) == ["X", "Y", "Z"]
    told = r"^2 units were changed under the same id after the first call, and have their old answer \(the first: 'a'\)"
    with pytest.warns(UserWarning, match=told) as warned:
        assert run(a=("x", {"n": 3}), b=("new", None), c=("z", None)) == ["X", "Y", "Z"]
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^1 unit was changed .*give another id or another job_id=…$"):
        run(b=("new", None))
    assert run("another", b=("new", None)) == ["NEW"]


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (WorkUnit(5), "the id of the unit is 5 — use a string that is not empty"),  # type: ignore[arg-type]
        (WorkUnit(""), "the id of the unit is '' — use a string that is not empty"),
        ("", "the id of the unit is '' — use a string that is not empty"),
        (
            {"name": "a"},
            "unit is a dict and has no id — give it one: WorkUnit('…'), {'id': …} or an object with .id",
        ),
        (7, "unit is 7 and has no id — give it one: WorkUnit('…'), {'id': …} or an object with .id"),
    ],
)
def test_a_unit_without_a_valid_id_is_refused_at_the_call(unit: Any, said: str) -> None:
    with WorkerPool(Doing(str)) as pool:
        with pytest.raises(headway.HeadwayError) as caught:
            pool.submit_work_unit(unit, "x")
        assert pool.active == 0
    assert str(caught.value) == said


@pytest.mark.parametrize("timeout", ["x", -1, float("nan"), True])
def test_an_invalid_timeout_of_a_wait_is_refused_at_the_call(timeout: Any) -> None:
    with WorkerPool(Doing(str)) as pool:
        for wait in (pool.wait_for_completion, pool.wait_for_available_slot):
            with pytest.raises(headway.HeadwayError, match=r"^timeout is .* — use seconds, 0 or more; None"):
                wait(timeout)
            assert wait(float("inf"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"on_unit_complete": 5},
            "on_unit_complete is 5 — use a function of two arguments: on_unit_complete(unit, result)",
        ),
        (
            {"on_unit_failed": "f"},
            "on_unit_failed is 'f' — use a function of two arguments: on_unit_failed(unit, result)",
        ),
        ({"store": 5}, 'store is 5 — use the path of a file: store="work.db"'),
        ({"job_id": 5}, "job_id is 5 — use a string: the name of the job in the store"),
        ({"max_workers": "4"}, "max_workers is '4' — use a whole number, 1 or more"),
        ({"max_workers": True}, "max_workers is True — use a whole number, 1 or more"),
    ],
)
def test_arguments_of_a_pool_are_checked_when_it_is_made(given: dict[str, Any], said: str) -> None:
    with pytest.raises(headway.HeadwayError) as caught:
        WorkerPool(Doing(str), **given)
    assert str(caught.value) == said


def test_an_id_that_is_under_way_is_refused_without_a_store() -> None:
    worker = Gate()
    with WorkerPool(worker) as pool:
        assert pool.submit_work_unit("same", "x")
        with pytest.raises(
            headway.HeadwayError, match="the unit 'same' is already running — ids must be unique"
        ):
            pool.submit_work_unit("same", "x")
        worker.open.set()
        assert pool.wait_for_completion(10)
        assert pool.submit_work_unit("same", "x")


# -- units that are submitted again ---------------------------------------------------------------------------------


def trying(fails: int) -> Callable[[str], WorkerResult]:
    """Fails so often, with a conversation and a session each time."""
    tries: list[str] = []

    def act(prompt: str) -> WorkerResult:
        tries.append(prompt)
        number, good = len(tries), len(tries) > fails
        return WorkerResult(
            good, output=f"output {number}", error="" if good else f"error {number}", rendered_prompt=f"<{prompt}>",
            conversation=[{"role": "user", "content": prompt}, {"role": "assistant", "content": f"reply {number}"}],
            session_id=f"session-{number}", output_files=[f"f{number}.txt"],
        )  # fmt: skip

    return act


COUNTS = "SELECT state, total, succeeded, failed, timed_out, skipped, cancelled, attempts FROM jobs"


@pytest.mark.parametrize("runs", [1, 2])
def test_units_that_fail_and_are_submitted_again_are_counted_once(tmp_path: Path, runs: int) -> None:
    """In the same run, or in a later one."""
    db, failed = tmp_path / "h.db", list[WorkUnit]()
    lock = threading.Lock()
    tries: dict[str, int] = {}

    def act(prompt: str) -> WorkerResult:
        with lock:
            tries[prompt] = tries.get(prompt, 0) + 1
            return WorkerResult(tries[prompt] > 1, error="not yet")

    def submit(pool: WorkerPool, units: list[WorkUnit]) -> None:
        for unit in units:
            assert pool.wait_for_available_slot(10)
            assert pool.submit_work_unit(unit, unit.id)
        assert pool.wait_for_completion(10)

    pools = [
        WorkerPool(Doing(act), "job", db, on_unit_failed=lambda unit, _: failed.append(unit))
        for _ in range(runs)
    ]
    units = [WorkUnit(str(n)) for n in range(20)]
    with pools[0] as pool:
        submit(pool, units)
        if runs == 1:
            submit(pool, failed)
    if runs == 2:
        assert rows(db, COUNTS) == [("failed", 20, 0, 20, 0, 0, 0, 20)]
        with pools[1] as pool:
            submit(pool, failed)
    assert len(failed) == 20
    assert rows(db, COUNTS) == [("complete", 20, 20, 0, 0, 0, 0, 40)]


def test_a_job_with_a_failed_unit_is_failed(tmp_path: Path) -> None:
    db = tmp_path / "h.db"

    def act(prompt: str) -> WorkerResult:
        return WorkerResult(prompt == "good", error="bad")

    with WorkerPool(Doing(act), "job", db) as pool:
        for prompt in ("bad", "bad", "good", "good"):
            pool.submit_work_unit("a", prompt)
            assert pool.wait_for_completion(10)
        pool.submit_work_unit("b", "bad")
    assert rows(db, COUNTS) == [("failed", 2, 1, 1, 0, 0, 0, 4)]
    with WorkerPool(Doing(act), "job", db) as pool:
        pool.submit_work_unit("a", "good")
    assert rows(db, COUNTS) == [("stopped", 2, 1, 0, 0, 0, 0, 4)], "b was not submitted again"


def test_units_of_a_stopped_lane_stay_pending_and_the_job_is_not_complete(tmp_path: Path) -> None:
    db = tmp_path / "h.db"

    class Refused(Exception):
        status_code = 401

    def act(prompt: str) -> WorkerResult:
        raise Refused("Incorrect API key provided")

    with WorkerPool(Doing(act), "job", db, max_workers=1) as pool:
        pool.submit_work_unit("a", "x")
        assert pool.wait_for_completion(10)
    assert [state for state, *_ in rows(db, COUNTS)] == ["stopped"]


def test_every_attempt_keeps_its_prompt_its_conversation_and_its_session(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    worker = Doing(trying(2))
    for prompts in (("one", "two"), ("three",)):
        with WorkerPool(worker, "job", db) as pool:
            for prompt in prompts:
                pool.submit_work_unit(WorkUnit("a", {"for": prompt}), prompt)
                assert pool.wait_for_completion(10)
    with Store(SqliteFile(db)) as store:
        notes = store.notes_of(1, 0)
        assert [attempt.outcome for attempt in store.attempts(1, 0)] == ["failed", "failed", "succeeded"]
        assert store.request(1, 0) == ("", b'{"prompt":"three","payload":{"for":"three"}}')
    assert notes == {
        number: {
            "prompt": f"<{prompt}>",
            "messages": [
                {"role": "user", "content": prompt},
                {"role": "assistant", "content": f"reply {number}"},
            ],
            "session_id": f"session-{number}",
            "files": [f"f{number}.txt"],
            **({} if number == 3 else {"output": f"output {number}"}),
        }
        for number, prompt in enumerate(("one", "two", "three"), 1)
    }
    turns = 'SELECT attempt, position, role, content FROM messages ORDER BY job, "index", attempt, position'
    assert rows(db, turns)[2:4] == [(2, 0, "user", '"two"'), (2, 1, "assistant", '"reply 2"')]


def test_a_retry_of_the_pool_keeps_the_attempt_before_it(tmp_path: Path) -> None:
    db, tries = tmp_path / "h.db", list[str]()

    def act(prompt: str) -> WorkerResult:
        tries.append(prompt)
        if len(tries) == 1:
            raise ConnectionResetError("gone")
        if len(tries) == 2:
            raise RateLimited(retry_after=0)
        return WorkerResult(True, rendered_prompt="rendered", session_id="s")

    with WorkerPool(Doing(act), "job", db, retry=Retry(max_attempts=2, base="1ms")) as pool:
        pool.submit_work_unit("a", "as submitted")
        assert pool.wait_for_completion(10)
    with Store(SqliteFile(db)) as store:
        assert store.notes_of(1, 0) == {
            1: {"prompt": "as submitted"},
            2: {"prompt": "as submitted"},
            3: {"prompt": "rendered", "session_id": "s"},
        }


class Rude:
    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    "odd", [None, 5, "text", ("a", "b"), Rude(), [Rude()], {"role": Rude()}, [["\ud800"]]]
)
def test_odd_values_in_a_result_do_not_fail_its_unit(odd: Any, tmp_path: Path) -> None:
    def act(prompt: str) -> WorkerResult:
        return WorkerResult(
            prompt == "good", odd, rendered_prompt=odd, conversation=odd, session_id=odd, output_files=odd
        )

    units = {prompt: WorkUnit(prompt) for prompt in ("good", "bad")}
    with WorkerPool(Doing(act), "job", tmp_path / "h.db") as pool:
        for prompt, unit in units.items():
            pool.submit_work_unit(unit, prompt)
        assert pool.wait_for_completion(10)
    assert {prompt: unit.status for prompt, unit in units.items()} == {"good": "succeeded", "bad": "failed"}


KILLED = """
import os, signal, sys
from headway import WorkerPool, WorkerResult, WorkUnit

class Worker:
    def execute(self, prompt, payload, timeout):
        if prompt == "again 5":
            os.kill(os.getpid(), signal.SIGKILL)
        return WorkerResult(prompt.startswith("again"), error="not yet", session_id=prompt)

failed = []
with WorkerPool(Worker(), "job", sys.argv[1], max_workers=1, on_unit_failed=lambda unit, _: failed.append(unit)) as pool:
    for n in range(8):
        pool.wait_for_available_slot()
        pool.submit_work_unit(WorkUnit(str(n)), f"first {n}")
    pool.wait_for_completion()
    for unit in failed:
        pool.wait_for_available_slot()
        pool.submit_work_unit(unit, f"again {unit.id}")
    pool.wait_for_completion()
"""


def test_a_kill_while_units_run_again_leaves_counters_that_fit(tmp_path: Path) -> None:
    db = tmp_path / "h.db"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(db)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    with WorkerPool(Doing(lambda prompt: WorkerResult(True)), "job", db, renamed_from="Worker") as pool:
        for n in range(8):
            assert pool.wait_for_available_slot(10)
            assert pool.submit_work_unit(str(n), f"again {n}")
    assert rows(db, COUNTS.replace(", attempts", "")) == [("complete", 8, 8, 0, 0, 0, 0)]
    with Store(SqliteFile(db)) as store:
        assert [attempt.outcome for attempt in store.attempts(1, 5)] == ["failed", "lost", "succeeded"]
        assert {number: note["prompt"] for number, note in store.notes_of(1, 5).items()} == {
            1: "first 5",
            3: "again 5",
        }


# -- waiting holds nothing ---------------------------------------------------------------------------------------------


class Limited:
    """Fails its first units, which wait then."""

    def __init__(self, error: Callable[[], Exception], waiting: int = 1) -> None:
        self.error, self.left = error, waiting
        self.lock = threading.Lock()
        self.done: list[str] = []

    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        with self.lock:
            if self.left:
                self.left -= 1
                raise self.error()
            self.done.append(prompt)
        return WorkerResult(True)


def waits(unit: WorkUnit) -> None:
    """Until the unit waits for another try."""
    give_up_at = time.monotonic() + 10
    while unit.status != "pending":
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


def test_a_unit_that_waits_for_a_retry_holds_no_slot() -> None:
    worker = Limited(lambda: ConnectionResetError("gone"))
    first = WorkUnit("first", status="new")
    with WorkerPool(worker, max_workers=1, retry=Retry(max_attempts=2, base="1s", jitter=0)) as pool:
        assert pool.submit_work_unit(first, "first")
        waits(first)
        assert pool.wait_for_available_slot(10)
        assert pool.submit_work_unit("second", "second")
        assert not pool.wait_for_completion(0), "the first is still under way"
        assert pool.active >= 1
        assert pool.wait_for_completion(10)
    assert worker.done == ["second", "first"]
    assert first.status == "succeeded"


def test_a_held_lane_accepts_as_many_units_as_there_are_workers() -> None:
    worker = Limited(lambda: RateLimited(retry_after=1))
    first = WorkUnit("first", status="new")
    with WorkerPool(worker, max_workers=1) as pool:
        assert pool.submit_work_unit(first, "first")
        waits(first)
        assert pool.wait_for_available_slot(10)
        assert pool.submit_work_unit("second", "second"), "it starts when the lane opens"
        assert not pool.submit_work_unit("third", "third")
        assert not pool.wait_for_available_slot(0)
        assert pool.active == 2
        assert pool.wait_for_available_slot(10)
        assert pool.submit_work_unit("third", "third")
        assert pool.wait_for_completion(10)
    assert sorted(worker.done) == ["first", "second", "third"]


def test_at_most_a_thousand_units_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.api.pool.pool_state.MOST_WAITING", 3)
    worker = Limited(lambda: ConnectionResetError("gone"), waiting=3)
    units = [WorkUnit(str(n), status="new") for n in range(4)]
    with WorkerPool(worker, max_workers=1, retry=Retry(max_attempts=2, base="1s", jitter=0)) as pool:
        for unit in units[:3]:
            assert pool.wait_for_available_slot(10)
            assert pool.submit_work_unit(unit, unit.id)
            waits(unit)
        assert not pool.wait_for_available_slot(0)
        assert not pool.submit_work_unit(units[3], "3")
        assert pool.wait_for_available_slot(10)
        assert pool.submit_work_unit(units[3], "3")
        assert pool.wait_for_completion(10)
    assert [unit.status for unit in units] == ["succeeded"] * 4


def test_a_slot_that_was_offered_is_kept_for_the_next_unit() -> None:
    """A caller that waits for a slot, submits, and ignores the return value loses no unit."""
    worker, again = Gate(), threading.Event()

    class First:
        tries = 0

        def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
            self.tries += prompt == "first"
            if prompt == "first" and self.tries == 1:
                raise ConnectionResetError("gone")
            again.set()
            return worker.execute(prompt, payload, timeout)

    first = WorkUnit("first", status="new")
    with WorkerPool(First(), max_workers=1, retry=Retry(max_attempts=2, base="50ms", jitter=0)) as pool:
        assert pool.submit_work_unit(first, "first")
        waits(first)
        assert pool.wait_for_available_slot(10)
        assert again.wait(10), "the first one has its worker again"
        assert pool.submit_work_unit("second", "second")
        assert not pool.submit_work_unit("third", "third")
        worker.open.set()
        assert pool.wait_for_completion(10)
    assert first.status == "succeeded"
