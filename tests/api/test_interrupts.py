"""Ctrl-C in every front: running calls finish at the first, are cancelled at the second; finished results are there.

Each script is a process of its own, and says what it does in a log: `_wait_for` reads it, and nothing sleeps and hopes.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import Limits
from headway.api import interrupts
from headway.testing import virtual_time

#: Four calls at once; each says that it began, and ends once the file "go" is there, or never. Call 0 ends by itself.
HEAD = """
import asyncio, os, signal, sys, time
from pathlib import Path
import headway

log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def say(text):
    os.write(log, f"{text}\\n".encode())

async def call(number):
    say(f"began {number}")
    while number and not Path("go").exists():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            say("cancelled")
            raise
    return number

def blocking(number):
    say(f"began {number}")
    while number and not Path("go").exists():
        time.sleep(0.005)
    return number

CHOICES = dict(limits=headway.Limits(max_concurrency=4, rpm=0), progress=False)
DB = dict(db="h.db", key=str, name="n")

def caught(work):
    handler = signal.getsignal(signal.SIGINT)
    try:
        work()
        say("ended as if nothing had been")
    except KeyboardInterrupt as stopped:
        say(f"results {[one.value for one in getattr(stopped, 'results', [])]}")
        say(f"handler {signal.getsignal(signal.SIGINT) is handler}")
        raise
"""

FRONTS = {
    "map": "caught(lambda: headway.map(call, range(100), **CHOICES, **DB))",
    "threads": "caught(lambda: headway.map(blocking, range(100), **CHOICES, **DB))",
    "amap": "caught(lambda: asyncio.run(headway.amap(call, range(100), **CHOICES, **DB)))",
    "run_until_complete": """
loop = asyncio.new_event_loop()
caught(lambda: loop.run_until_complete(headway.amap(call, range(100), **CHOICES, **DB)))
""",
    "map in a loop": """
async def main():
    return headway.map(call, range(100), **CHOICES, **DB)

caught(lambda: asyncio.run(main()))
""",
    "async for": """
async def main():
    async for done in headway.stream(call, range(100), **CHOICES, **DB):
        say(f"got {done.get()}")

caught(lambda: asyncio.run(main()))
""",
    "for": """
def main():
    for done in headway.stream(call, range(100), ordered=True, **CHOICES, **DB):
        say(f"got {done.get()}")

caught(main)
""",
    "two at once": """
async def main():
    one = headway.amap(call, [0, 1, 2], **CHOICES, **DB)
    two = headway.amap(call, range(3, 100), **CHOICES, db="h.db", key=str, name="m")
    await asyncio.gather(one, two)

caught(lambda: asyncio.run(main()))
""",
    "run_pool": "caught(lambda: headway.run_pool(range(100), 4, call, progress=False))",
}


class Script:
    """A program that runs, and what it says."""

    def __init__(self, folder: Path, body: str) -> None:
        (folder / "script.py").write_text(HEAD + body, encoding="utf-8")
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "script.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip

    def said(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def wait_for(self, beginning: str, times: int = 1) -> None:
        give_up_at = time.monotonic() + 30
        while sum(line.startswith(beginning) for line in self.said()) < times:
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < give_up_at, self.said()
            time.sleep(0.005)

    def wait_for_stderr(self, text: str) -> None:
        """Until it has said so; what is read of a line stays read."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if text in line:
                return
        raise AssertionError(f"it never said {text!r}")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def go(self) -> None:
        (self.folder / "go").touch()

    def ended(self) -> str:
        _, errors = self.process.communicate(timeout=30)
        return errors


@pytest.fixture
def scripts() -> Iterator[list[Script]]:
    made: list[Script] = []
    yield made
    for script in made:
        if script.process.poll() is None:
            script.process.kill()
        script.process.communicate()


def kept(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "h.db")) as connection:
        found = connection.execute("SELECT count(*) FROM units WHERE status = 'succeeded'").fetchone()
    return int(found[0])


@pytest.mark.parametrize("front", FRONTS)
def test_the_first_ctrl_c_lets_running_calls_finish_and_starts_none(
    front: str, tmp_path: Path, scripts: list[Script]
) -> None:
    script = Script(tmp_path, FRONTS[front])
    scripts.append(script)
    running = 6 if front == "two at once" else 4
    script.wait_for("began", running + 1)  # Call 0 ended, and made room.
    script.interrupt()
    script.wait_for_stderr("in flight will finish; Ctrl-C again cancels")
    script.go()
    errors = script.ended()
    said = script.said()
    began = sum(line.startswith("began") for line in said)
    assert began == running + 1, said
    assert "cancelled" not in said
    assert "KeyboardInterrupt" in errors
    assert script.process.returncode in (130, -signal.SIGINT)
    assert "handler True" in said
    if front != "run_pool":
        assert kept(tmp_path) == began
    if "for" in front.split():
        assert sum(line.startswith("got") for line in said) == began
    elif front not in ("run_pool", "two at once"):
        assert "results [0, 1, 2, 3, 4]" in said


@pytest.mark.parametrize("front", [front for front in FRONTS if front not in ("threads", "run_pool")])
def test_the_second_cancels_and_nothing_finished_is_lost(
    front: str, tmp_path: Path, scripts: list[Script]
) -> None:
    script = Script(tmp_path, FRONTS[front])
    scripts.append(script)
    running = 6 if front == "two at once" else 4
    script.wait_for("began", running + 1)
    script.interrupt()
    script.wait_for_stderr("Ctrl-C again cancels")
    script.interrupt()
    errors = script.ended()
    said = script.said()
    assert said.count("cancelled") == running, said
    assert "KeyboardInterrupt" in errors
    assert script.process.returncode in (130, -signal.SIGINT)
    assert "handler True" in said
    assert kept(tmp_path) == 1


def test_without_a_db_the_exception_has_what_had_finished(tmp_path: Path, scripts: list[Script]) -> None:
    script = Script(tmp_path, "caught(lambda: headway.map(call, range(100), **CHOICES))")
    scripts.append(script)
    script.wait_for("began", 5)
    script.interrupt()
    script.wait_for_stderr("Ctrl-C again cancels")
    script.go()
    errors = script.ended()
    assert "results [0, 1, 2, 3, 4]" in script.said()
    assert "KeyboardInterrupt: 5 calls had finished" in errors
    assert "stopped.results" in errors


def test_a_blocked_iterator_does_not_delay_the_end(tmp_path: Path, scripts: list[Script]) -> None:
    body = """
def items():
    yield 0
    time.sleep(3600)

caught(lambda: headway.map(call, items(), **CHOICES))
"""
    script = Script(tmp_path, body)
    scripts.append(script)
    script.wait_for("began 0")
    script.interrupt()
    script.ended()
    assert "results [0]" in script.said()


def test_a_map_inside_of_a_call_finishes_with_it(tmp_path: Path, scripts: list[Script]) -> None:
    body = """
async def outer(number):
    return sum(await headway.amap(call, [number, number + 1, number + 2], limits=headway.Limits(max_concurrency=1)))

caught(lambda: asyncio.run(headway.amap(outer, [1, 2, 3], limits=headway.Limits(max_concurrency=1, rpm=0))))
"""
    script = Script(tmp_path, body)
    scripts.append(script)
    script.wait_for("began 1")
    script.interrupt()
    script.wait_for_stderr("1 in flight will finish")
    script.go()
    script.ended()
    assert "results [6]" in script.said()


def test_a_programs_own_handler_stays(tmp_path: Path, scripts: list[Script]) -> None:
    body = """
def mine(number, frame):
    say("mine")
    Path("go").touch()

signal.signal(signal.SIGINT, mine)
say(f"sum {sum(headway.map(call, range(10), **CHOICES))}")
say(f"sum {sum(asyncio.run(headway.amap(call, range(10), **CHOICES)))}")
say(f"still {signal.getsignal(signal.SIGINT) is mine}")
"""
    script = Script(tmp_path, body)
    scripts.append(script)
    script.wait_for("began", 5)
    script.interrupt()
    assert script.ended() == ""
    assert [line for line in script.said() if not line.startswith("began")] == [
        "mine", "sum 45", "sum 45", "still True",
    ]  # fmt: skip


def test_a_handler_that_is_set_meanwhile_stays() -> None:
    def mine(*_: Any) -> None:
        pass

    def call(number: int) -> int:
        return number

    before = signal.getsignal(signal.SIGINT)
    try:
        for done in headway.stream(call, range(3), ordered=True):
            if done.index == 0:
                signal.signal(signal.SIGINT, mine)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def call(number: int) -> int:
        seen.append(signal.getsignal(signal.SIGINT))
        return number

    thread = threading.Thread(target=lambda: headway.map(call, [1]))
    thread.start()
    thread.join()
    assert seen == [before]


async def test_a_run_that_is_cancelled_twice_keeps_what_had_finished(tmp_path: Path) -> None:
    """As another handler would: the second cancellation comes while the first one cleans up."""
    ended = asyncio.Event()

    async def call(number: int) -> int:
        if number:
            ended.set()
            try:
                await asyncio.sleep(3600)
            finally:
                task.cancel()
                await asyncio.sleep(0)
        return number

    options: Any = {
        "db": tmp_path / "h.db",
        "key": str,
        "name": "n",
        "limits": Limits(max_concurrency=1, rpm=0),
    }
    task = asyncio.create_task(headway.amap(call, range(5), **options))
    await ended.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert kept(tmp_path) == 1
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        assert connection.execute("SELECT state FROM jobs").fetchone() == ("interrupted",)


@virtual_time()
async def test_a_value_that_is_there_when_a_run_is_cancelled_is_kept() -> None:
    """The call has ended, and the scheduler does not have the event yet."""
    from headway.core.model import SUCCESS, LaneLimits, LaneSpec, RetryPolicy
    from headway.engine.calls import CallEnd, Calls, SubmittedCall

    ends: list[CallEnd] = []
    began = asyncio.Event()

    async def call(flight: SubmittedCall) -> Any:
        began.set()
        return SUCCESS

    calls = Calls(lambda lane: LaneSpec(lane, LaneLimits(max_concurrency=1), RetryPolicy()))
    calls.submit("x", call, lambda flight, end: ends.append(end))
    await began.wait()
    await calls.close()
    assert [str(end.status) for end in ends] == ["succeeded"]


def test_no_handler_is_left_at_the_end() -> None:
    assert not interrupts._sigint._listeners


# -- a pool that is fed by hand -------------------------------------------------------------------------------------------

POOL = """
class Work:
    def execute(self, prompt, payload, timeout):
        return headway.WorkerResult(success=True, output=blocking(int(prompt)))

def failed(unit, result):
    say(f"failed {result.error}")

def main():
    pool = headway.WorkerPool(Work(), "pool", "h.db", max_workers=4, on_unit_failed=failed)
    WITH
        for number in range(100):
            pool.wait_for_available_slot()
            pool.submit_work_unit(f"u{number}", str(number))
        pool.wait_for_completion()
    FINALLY

caught(main)
"""
WAYS = {
    "with": POOL.replace("WITH", "with pool:").replace("FINALLY", ""),
    "finally": POOL.replace("WITH", "pool.start()\n    try:").replace(
        "FINALLY", "finally:\n        pool.stop()"
    ),
    "in stop": POOL.replace("WITH", "pool.start()\n    for _ in [1]:")
    .replace("range(100)", "range(5)")
    .replace("pool.wait_for_completion()", "")
    .replace("FINALLY", "pool.stop()"),
}
STOPPING = "headway: stopping, no new unit starts, 4 in flight will finish; Ctrl-C again cancels"


def status_of(folder: Path) -> tuple[str, dict[str, int]]:
    with closing(sqlite3.connect(folder / "h.db")) as connection:
        (state,) = connection.execute("SELECT state FROM jobs").fetchone()
        rows = connection.execute("SELECT status, count(*) FROM units GROUP BY status").fetchall()
    return state, dict(rows)


@pytest.mark.parametrize("way", WAYS)
def test_a_pools_first_ctrl_c_says_what_finishes(way: str, tmp_path: Path, scripts: list[Script]) -> None:
    script = Script(tmp_path, WAYS[way])
    scripts.append(script)
    script.wait_for("began", 5)  # Unit 0 ends by itself.
    script.interrupt()
    script.wait_for_stderr(STOPPING)
    script.go()
    script.ended()
    assert script.process.returncode == -signal.SIGINT
    assert status_of(tmp_path) == ("interrupted", {"succeeded": 5})


@pytest.mark.parametrize("way", WAYS)
def test_a_pools_second_ctrl_c_cancels_and_its_units_stay_pending(
    way: str, tmp_path: Path, scripts: list[Script]
) -> None:
    script = Script(tmp_path, WAYS[way])
    scripts.append(script)
    script.wait_for("began", 5)
    script.interrupt()
    script.wait_for_stderr(STOPPING)
    script.interrupt()
    script.ended()
    assert script.process.returncode == -signal.SIGINT
    state, units = status_of(tmp_path)
    assert (state, units.pop("succeeded")) == ("interrupted", 1)
    assert units == {"pending": 4}
    failed = [line for line in script.said() if line.startswith("failed")]
    assert failed == ["failed it was cancelled while it ran"] * 4


#: Calls that give the loop no chance: a signal's handler runs in their midst, in the main thread.
BUSY = """
from headway.api.interrupts import _sigint

async def busy(n):
    say(f"began {n}")
    heard = 0
    while True:
        counts = [one.count for one in _sigint._listeners]
        if counts and counts[0] > heard:
            heard = counts[0]
            say(f"heard {heard}")
"""


@pytest.mark.parametrize("front", ["map", "amap", "run_pool"])
def test_the_third_ctrl_c_ends_the_program_even_during_a_call(
    front: str, tmp_path: Path, scripts: list[Script]
) -> None:
    """A KeyboardInterrupt that the work raises is the work's; that of the third Ctrl-C is not, wherever it strikes."""
    script = Script(tmp_path, BUSY + FRONTS[front].replace("(call,", "(busy,").replace(", call,", ", busy,"))
    scripts.append(script)
    script.wait_for("began")
    for times in (1, 2):
        script.interrupt()
        script.wait_for(f"heard {times}")
    script.interrupt()
    assert "KeyboardInterrupt" in script.ended()
    assert script.process.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("number", "raises", "code"),
    [
        (signal.SIGINT, "raise KeyboardInterrupt", -signal.SIGINT),
        (signal.SIGTERM, "sys.exit(7)", 7),
        (signal.SIGTERM, "raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
@pytest.mark.parametrize("front", ["map", "amap"])
def test_an_exception_of_a_programs_own_handler_is_not_the_calls(
    front: str, number: int, raises: str, code: int, tmp_path: Path, scripts: list[Script]
) -> None:
    handler = f"""
import sys

def mine(number, frame):
    {raises}

signal.signal({int(number)}, mine)
"""
    script = Script(tmp_path, handler + BUSY + FRONTS[front].replace("(call,", "(busy,"))
    scripts.append(script)
    script.wait_for("began")
    script.process.send_signal(number)
    script.ended()
    assert script.process.returncode == code


def test_a_keyboard_interrupt_raised_by_a_call_is_no_ctrl_c(tmp_path: Path, scripts: list[Script]) -> None:
    body = """
async def interrupts(n):
    if n == 1:
        raise KeyboardInterrupt
    return n

say(f"got {headway.map(interrupts, range(3), on_error='return', **CHOICES)}")
signal.signal(signal.SIGINT, lambda *_: None)
say(f"got {headway.map(interrupts, range(3), on_error='return', **CHOICES)}")
"""
    script = Script(tmp_path, body)
    scripts.append(script)
    assert script.ended() == ""
    assert script.said() == ["got [0, RuntimeError('the callable raised KeyboardInterrupt'), 2]"] * 2
