"""Worker processes: what a unit costs beside ProcessPoolExecutor, and what deaths cost.

What is measured is real: processes are killed by SIGKILL while they run a unit, known by the mark that each unit leaves
while it runs. The process is stopped first, so that the kill and the mark belong to the same unit.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

import headway
from bench import processes
from headway.api.loops import run_here
from headway.executors.processes import ProcessPool, Work

#: Microseconds a no-op unit, the store apart.
OVERHEAD_BAR_US: Final = 100.0
NO_OPS: Final = 10_000
ROUNDS: Final = 5
WORKERS: Final = 4
UNITS: Final = 400
KILLS: Final = 40
SEED: Final = 7


def no_op(item: int) -> int:
    """The least that a unit can do."""
    return item


def marked(item: tuple[int, str]) -> int:
    """Shows for as long as it runs that it does; the unit of number -1 kills its process."""
    unit, folder = item
    with open(f"{folder}/log", "ab", buffering=0) as log:
        log.write(f"{unit}\n".encode())
    if unit < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    mark = Path(folder) / f"{unit}.{os.getpid()}.running"
    mark.touch()
    time.sleep(0.008)
    mark.unlink()
    return unit


# -- overhead -----------------------------------------------------------------------------------------------------


class Overhead(msgspec.Struct, frozen=True):
    """Microseconds a unit: the medians of some rounds, in turns."""

    pool_us: float
    executor_us: float


def overhead() -> Overhead:
    """No-op units through the pool, and through a ProcessPoolExecutor, in turns."""
    ours: list[float] = []
    theirs: list[float] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as executor:
        list(executor.map(no_op, range(100)))

        async def measure() -> None:
            work = Work("headway.api.served:calls", pickle.dumps((no_op, ())))
            pool = ProcessPool(work, WORKERS)
            try:
                await _no_ops(pool, 100)
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    await _no_ops(pool, NO_OPS)
                    ours.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    list(executor.map(no_op, range(NO_OPS)))
                    theirs.append(time.perf_counter() - began)
            finally:
                await pool.close()

        run_here(measure)
    return Overhead(median(ours) / NO_OPS * 1e6, median(theirs) / NO_OPS * 1e6)


async def _no_ops(pool: ProcessPool, count: int) -> None:
    payload = pickle.dumps(1)
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            ran = await pool.run(payload, 60.0)
            assert ran.end == "value"

    lanes: list[Awaitable[None]] = [one_after_another() for _ in range(WORKERS)]
    await asyncio.gather(*lanes)


# -- deaths -------------------------------------------------------------------------------------------------------


class Deaths(msgspec.Struct, frozen=True):
    """How a run with deaths went. `repeats` are the units that ran more than once, by how much more."""

    finished: int
    quarantined: int
    killed: int
    repeats: int
    #: Units whose number of runs is not one and their kills.
    wrong: int
    took_s: float


class Killer(threading.Thread):
    """Sends SIGKILL to workers in the midst of a unit; to none twice, because two deaths are a quarantine."""

    def __init__(self, folder: Path, kills: int, at_once: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.kills, self.at_once = folder, kills, at_once
        self.random = random.Random(SEED)
        self.killed: Counter[int] = Counter()

    def run(self) -> None:
        while self.killed.total() < self.kills:
            running = sorted(self.folder.glob("*.running"))
            running = [path for path in running if int(path.name.split(".")[0]) not in self.killed]
            if len(running) < self.at_once:
                time.sleep(0.001)
                continue
            self._kill(self.random.sample(running, self.at_once))
            time.sleep(self.random.uniform(0.0, 0.03))

    def _kill(self, marks: list[Path]) -> None:
        """All of them or none: stopped first, and then their marks tell whether they are still at those units."""
        pids = [int(mark.name.split(".")[1]) for mark in marks]
        stopped = [pid for pid in pids if _stop(pid)]
        whole = len(stopped) == len(pids) and all(mark.exists() for mark in marks)
        for pid in stopped:
            os.kill(pid, signal.SIGKILL if whole else signal.SIGCONT)
        for mark in marks if whole else ():
            mark.unlink()
            self.killed[int(mark.name.split(".")[0])] += 1


def _stop(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGSTOP)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZX":
            pass
    except (ProcessLookupError, FileNotFoundError):
        return False
    return True


def deaths(kills: int = KILLS, at_once: int = 1, deadly: int = 0) -> Deaths:
    """UNITS units on WORKERS processes, with kills, and with units that always kill."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killer = Killer(folder, kills, at_once)
        if kills:
            killer.start()
        items = [(-1 - n if n < deadly else n, name) for n in range(UNITS)]
        began = time.monotonic()
        results = headway.map(
            marked,
            items,
            isolation="process",
            workers=WORKERS,
            retry=headway.Retry(base="10ms", cap="20ms", max_attempts=50),
            on_error="return",
        )
        took_s = time.monotonic() - began
        runs = Counter(int(unit) for unit in (folder / "log").read_text().split())
    finished = sum(type(result) is int for result in results)
    expected = Counter({unit: 2 if unit < 0 else 1 for unit, _ in items}) + killer.killed
    wrong = sum(runs[unit] != expected[unit] for unit in expected)
    return Deaths(finished, UNITS - finished, killer.killed.total(), runs.total() - UNITS, wrong, took_s)


# -- the seed's failure ---------------------------------------------------------------------------------------------

_AGENT: Final = """
import json, os, time
from pathlib import Path

def work(unit):
    if unit >= 5 and not Path("resets").exists():
        Path("resets").write_text(str(int(time.time()) + 4))
    time.sleep(0.1)
    resets = int(Path("resets").read_text()) if Path("resets").exists() else 0
    if time.time() < resets:
        folder = Path(f".failed/{unit}/agent")
        folder.mkdir(parents=True, exist_ok=True)
        said = f"Claude AI usage limit reached|{resets}"
        (folder / "result.json").write_text(json.dumps({"exit_code": -1, "stdout": "", "stderr": said}))
        os._exit(255)
    return unit
"""
_CONFIG: Final = """
[providers.agent]
kind = "python"
target = "seed_agent:work"
workers = 4
failure_logs = ".failed/*/agent/result.json"
"""
_EXECUTOR: Final = """
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from seed_agent import work

if __name__ == "__main__":
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        units = [pool.submit(work, n) for n in range(15)]
        print(sum(unit.exception() is None for unit in units))
"""


class Seed(msgspec.Struct, frozen=True):
    """Of 15 units: how many each finished, and what Headway said of it."""

    executor: int
    headway: int
    summary: str


def seed() -> Seed:
    """The limit strikes at the fifth of 15 units; workers exit hard, and the message is only in a log."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        (Path(first) / "seed_agent.py").write_text(_AGENT)
        (Path(first) / "executor.py").write_text(_EXECUTOR)
        command = [sys.executable, "executor.py"]
        told = subprocess.run(command, cwd=first, capture_output=True, check=True, timeout=60).stdout
        folder = Path(second)
        (folder / "seed_agent.py").write_text(_AGENT)
        (folder / "headway.toml").write_text(_CONFIG)
        rows = (json.dumps({"id": f"t{n}", "payload": n}) + "\n" for n in range(15))
        (folder / "in.jsonl").write_text("".join(rows))
        ended = processes.run([*processes.HEADWAY, "run", "in.jsonl"], folder, 60.0)
        lines = (folder / "in.results.jsonl").read_text().splitlines()
        good = sum(json.loads(line)["error"] is None for line in lines)
        said = [line for line in ended.errors.decode().splitlines() if "limit" in line]
    return Seed(int(told), good, said[0].strip() if said else "")
