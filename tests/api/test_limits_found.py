"""A rate limit is found in what work raises, returns, prints and leaves in logs, whichever function runs the work.

Every call may be tried once only (`max_attempts=1`): what is tried again was taken for a limit.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.api.isolated_acts import appended, limited
from tests.executors.limit_rows import CLAUDE, EVENT, SubTestResult

import headway
from headway import PoolResult, Retry, WorkerPool, WorkerResult, WorkUnit
from headway.errors import UsageError
from headway.testing import scripted, virtual_time

ONCE = Retry(max_attempts=1, base="10ms", cap="20ms", default_wait="300ms")

#: How a limit shows in work that runs here, and how long the lane waits for it.
SHOWN: dict[str, tuple[Any, float]] = {
    "a text": (RuntimeError("You've hit your limit, resets in 30s"), 30.0),
    "a code": (RuntimeError("rate_limit"), 0.0),
    "a number": (RuntimeError("429 rate limit exceeded, retry in 40s"), 40.0),
    "a program": (subprocess.CalledProcessError(1, "x", stderr=b"rate limited, try again in 20s"), 20.0),
    "an event": (subprocess.CalledProcessError(1, "x", output=EVENT), 0.0),
    "a result": (SubTestResult(rate_limit_info={"retry_after_seconds": 25}), 25.0),
    "a reason": (SubTestResult(selection_reason="RateLimitError: resets in 35s"), 35.0),
    "a dictionary": ({"rate_limit": {"retry_after_s": 15}}, 15.0),
}


def by_map(call: Callable[[Any], Any]) -> Any:
    return headway.map(call, ["x"], retry=ONCE)[0]


def by_stream(call: Callable[[Any], Any]) -> Any:
    (done,) = headway.stream(call, ["x"], retry=ONCE)
    assert done.attempts == 2
    return done.get()


def by_run_pool(call: Callable[[Any], Any]) -> Any:
    values: list[Any] = []

    async def handler(item: str) -> Any:
        values.append(await call(item))
        return values[-1]

    assert headway.run_pool(["x"], 1, handler, retry=ONCE) == PoolResult(completed=1)
    return values[-1]


@pytest.mark.parametrize("way", [by_map, by_stream, by_run_pool])
@pytest.mark.parametrize("shown", SHOWN)
def test_a_limit_is_waited_for_and_spends_no_attempt(way: Callable[[Any], Any], shown: str) -> None:
    outcome, wait_s = SHOWN[shown]
    call = scripted([outcome, "through"])
    with virtual_time() as clock:
        began = clock.now
        assert way(call) == "through"
        assert clock.now - began >= wait_s - 0.001
    assert len(call.calls) == 2


def test_amap() -> None:
    call = scripted([RuntimeError("429 rate limit exceeded"), "through"])
    with virtual_time() as clock:
        assert clock.run(headway.amap(call, ["x"], retry=ONCE)) == ["through"]


@pytest.mark.parametrize(
    "answer",
    [CLAUDE, {"answer": CLAUDE}, {"rate_limit": None}, {"rate_limit_info": {"status": "allowed_warning"}}],
)
def test_an_answer_is_an_answer(answer: Any) -> None:
    assert headway.map(lambda _: answer, ["x"], retry=ONCE) == [answer]


@pytest.mark.parametrize("error", [KeyError("rate_limit"), ValueError(f"no grade: {CLAUDE}")])
def test_a_fault_is_a_fault(error: Exception) -> None:
    call = scripted(lambda _: error)
    (done,) = headway.stream(call, ["x"], retry=ONCE)
    assert (done.code, done.attempts) == ("invalid", 1)


# -- a pool of workers ------------------------------------------------------------------------------------------------


class Told:
    """A worker that reports a limit once."""

    def __init__(self, first: Any) -> None:
        self.first = first
        self.runs = 0

    def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
        self.runs += 1
        if self.runs > 1:
            return WorkerResult(True, output="through")
        if isinstance(self.first, Exception):
            raise self.first
        result: WorkerResult = self.first
        return result


@pytest.mark.parametrize(
    "first",
    [
        WorkerResult(False, error="429 rate limit exceeded"),
        WorkerResult(False, error="rate limited, retry in 0.1s"),
        WorkerResult(False, error="it failed", output=EVENT),
        WorkerResult(False, error="it failed", output={"rate_limit_info": {"retry_after_seconds": 0.1}}),
        WorkerResult(True, output={"rate_limit_info": {"retry_after_seconds": 0.1}}),
        SubTestResult(rate_limit_info={"retry_after_seconds": 0.1}),
        RuntimeError("rate_limit"),
        subprocess.CalledProcessError(75, "agent"),
    ],
)
def test_a_worker_that_reports_a_limit_is_tried_again(first: Any, tmp_path: Path) -> None:
    worker, unit = Told(first), WorkUnit("a")
    with WorkerPool(worker, "job", tmp_path / "h.db", retry=ONCE, limit_exit_codes=[75]) as pool:
        pool.submit_work_unit(unit, "x")
        assert pool.wait_for_completion(30)
    assert (unit.status, worker.runs) == ("succeeded", 2)
    with closing(sqlite3.connect(tmp_path / "h.db")) as db:
        told = db.execute("SELECT outcome, rate_limit FROM attempts ORDER BY id").fetchall()
    assert [outcome for outcome, _ in told] == ["throttled", "succeeded"]
    source = "exit code" if getattr(first, "returncode", 0) else type(first).__name__ if isinstance(first, Exception) else "result"  # fmt: skip
    assert json.loads(told[0][1])["source"] == source


@pytest.mark.parametrize(
    "first",
    [
        WorkerResult(False, error="no grade"),
        WorkerResult(False, error="KeyError: 'rate_limit'"),
        WorkerResult(False, error="it failed", output=CLAUDE),
        subprocess.CalledProcessError(74, "agent"),
    ],
)
def test_a_worker_that_reports_a_failure_has_failed(first: Any) -> None:
    worker, unit = Told(first), WorkUnit("a")
    with WorkerPool(worker, retry=ONCE, limit_exit_codes=[75]) as pool:
        pool.submit_work_unit(unit, "x")
    assert (unit.status, worker.runs) == ("failed", 1)


def test_output_files_are_read_where_they_are_logs(tmp_path: Path) -> None:
    """A text that a unit wrote may be an answer; a log and an agent's own document are none."""

    class Writing:
        def __init__(self, name: str, text: str) -> None:
            self.path, self.text, self.runs = tmp_path / name, text, 0

        def execute(self, prompt: str, payload: Any, timeout: float) -> WorkerResult:
            self.runs += 1
            self.path.write_text(self.text)
            return WorkerResult(self.runs > 1, error="it failed", output_files=[str(self.path), "none"])

    for name, text, runs in (
        ("run.log", CLAUDE.partition(" ·")[0], 2),
        ("result.json", json.dumps({"stderr": "rate limited"}), 2),
        ("report.md", CLAUDE, 1),
        ("answer.json", json.dumps({"message": CLAUDE}), 1),
    ):
        worker = Writing(name, text)
        with WorkerPool(worker, retry=ONCE) as pool:
            pool.submit_work_unit("a", "x")
        assert worker.runs == runs, name


# -- worker processes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "source"),
    [
        ("exception", "RuntimeError"),
        ("unpicklable", "Unpicklable"),
        ("program", "CalledProcessError"),
        ("program's code", "exit code"),
        ("result", "result"),
        ("stderr", "stderr"),
        ("stdout", "stdout"),
        ("exit code", "exit code"),
        ("sys.exit", "exit code"),
        ("sys.exit with words", "SystemExit"),
        ("log", ".failed/agent.log"),
    ],
)
def test_process_isolation_reads_what_python_workers_read(
    how: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (done,) = headway.stream(
        limited,
        [(how, str(tmp_path))],
        isolation="process",
        workers=1,
        retry=ONCE,
        failure_logs=".failed/*.log",
        limit_exit_codes=[75],
        db=tmp_path / "h.db",
        key=lambda item: item[0],
    )
    assert (done.ok, done.value, done.attempts) == (True, "through", 2), done.error
    with closing(sqlite3.connect(tmp_path / "h.db")) as db:
        told = db.execute("SELECT outcome, rate_limit FROM attempts ORDER BY id").fetchall()
    assert [outcome for outcome, _ in told] == ["throttled", "succeeded"]
    assert json.loads(told[0][1])["source"] == source


def test_an_answer_in_process_isolation_is_an_answer() -> None:
    assert headway.map(limited, [("answer", "")], isolation="process", workers=1) == [{"answer": CLAUDE}]


# -- the arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"failure_logs": "*.log"}, 'failure_logs is for worker processes — set isolation="process" too'),
        ({"limit_exit_codes": [75]}, 'limit_exit_codes is for worker processes — set isolation="process" too'),
        ({"isolation": "process", "failure_logs": ""}, "failure_logs is '' — use a pattern of files: \".failed/*/agent/result.json\""),
        ({"isolation": "process", "failure_logs": 7}, "failure_logs is 7 — use a pattern of files: \".failed/*/agent/result.json\""),
        ({"isolation": "process", "limit_exit_codes": [0]}, "limit_exit_codes is [0] — use exit codes from 1 to 255: (75,)"),
        ({"isolation": "process", "limit_exit_codes": "75"}, "limit_exit_codes is '75' — use exit codes from 1 to 255: (75,)"),
        ({"isolation": "process", "limit_exit_codes": 75}, "limit_exit_codes is 75 — use exit codes from 1 to 255: (75,)"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_errors(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as told:
        headway.map(len, ["a"], **given)
    assert str(told.value) == said


def test_pools_check_them_too() -> None:
    with pytest.raises(UsageError, match="failure_logs is 7"):
        headway.run_pool([1], 1, print, failure_logs=7)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="limit_exit_codes is"):
        WorkerPool(Told(None), limit_exit_codes=["x"])  # type: ignore[list-item]


def test_a_pattern_may_be_absolute(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    runs: list[int] = []

    def handler(_: int) -> None:
        runs.append(1)
        if len(runs) == 1:
            log.write_text("rate limited\n")
            raise RuntimeError("exit code 1")

    assert headway.run_pool([1], 1, handler, retry=ONCE, failure_logs=f"{tmp_path}/*.log").completed == 1


# -- logs that are appended to ----------------------------------------------------------------------------------------


class Appends:
    """A worker whose attempts append to one log, which has an old refusal in it. It meets a limit where `words` has one."""

    def __init__(self, log: Path, words: list[str]) -> None:
        self.log, self.words, self.runs = log, words, 0
        log.write_text("yesterday: You've hit your usage limit\n")

    def __call__(self, *_: Any) -> str:
        self.runs += 1
        if not self.words:
            return "through"
        with self.log.open("a") as log:
            log.write(f"{self.words.pop(0)}\n")
        raise RuntimeError("exit code 1")

    def execute(self, prompt: str, payload: Any, timeout: float | None) -> WorkerResult:
        return WorkerResult(True, output=self())


def pool_of(work: Appends) -> bool:
    with WorkerPool(work, max_workers=1, retry=ONCE, failure_logs=f"{work.log.parent}/*.log") as pool:
        unit = WorkUnit("u", None)
        assert pool.submit_work_unit(unit, "do it")
        assert pool.wait_for_completion(timeout=60)
    assert unit.result is not None
    return unit.result.success


def run_pool_of(work: Appends) -> bool:
    logs = f"{work.log.parent}/*.log"
    return headway.run_pool(["x"], 1, work, retry=ONCE, failure_logs=logs).completed == 1


@pytest.mark.parametrize("run", [pool_of, run_pool_of])
def test_only_lines_of_this_attempt_count(run: Callable[[Appends], bool], tmp_path: Path) -> None:
    work = Appends(tmp_path / "agent.log", ["no such row"])
    assert (run(work), work.runs) == (False, 1)


@pytest.mark.parametrize("run", [pool_of, run_pool_of])
def test_lines_of_an_earlier_attempt_do_not_count(run: Callable[[Appends], bool], tmp_path: Path) -> None:
    work = Appends(tmp_path / "agent.log", ["rate limited", "no such row"])
    assert (run(work), work.runs) == (False, 2)


def test_only_lines_of_this_attempt_count_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.log").write_text("yesterday: You've hit your usage limit\n")
    logs: dict[str, Any] = {"failure_logs": "*.log", "isolation": "process", "workers": 1}
    done = list(
        headway.stream(appended, [("no such row", str(tmp_path)), ("rate limited", str(tmp_path))], retry=ONCE, **logs)
    )  # fmt: skip
    assert sorted((result.item[0], result.ok, result.attempts) for result in done) == [
        ("no such row", False, 1),
        ("rate limited", True, 2),
    ]
