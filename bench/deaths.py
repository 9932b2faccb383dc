"""Worker processes that die, for the benchmark and for the tests.

The kills are real: SIGKILL while a process runs a unit. Each unit has a mark file while it runs, so that the unit is
known. The process is stopped first, so that kill and mark belong to the same unit.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

import headway

WORKERS: Final = 4
UNITS: Final = 400
KILLS: Final = 40
SEED: Final = 7


def marked(item: tuple[int, str]) -> int:
    """Has a mark file while it runs. A unit with a negative number kills its process."""
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


class Killer(threading.Thread):
    """Sends SIGKILL to workers in the middle of random units. Some units are hit twice.

    None is hit three times: after two deaths a unit runs alone, and another death would quarantine it.
    """

    def __init__(self, folder: Path, kills: int, at_once: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.kills, self.at_once = folder, kills, at_once
        self.random = random.Random(seed)
        self.killed: Counter[int] = Counter()
        self.over = threading.Event()

    def run(self) -> None:
        while self.killed.total() < self.kills and not self.over.is_set():
            running = sorted(self.folder.glob("*.running"))
            running = [path for path in running if self.killed[int(path.name.split(".")[0])] < 2]
            if len(running) < self.at_once:
                time.sleep(0.001)
                continue
            self._kill(self.random.sample(running, self.at_once))
            time.sleep(self.random.uniform(0.0, 0.03))

    def _kill(self, marks: list[Path]) -> None:
        """Kill all or none. They are stopped first; then their marks show whether they still run those units."""
        pids = [int(mark.name.split(".")[1]) for mark in marks]
        stopped = [pid for pid in pids if _stop(pid)]
        unchanged = len(stopped) == len(pids) and all(mark.exists() for mark in marks)
        for pid in stopped:
            os.kill(pid, signal.SIGKILL if unchanged else signal.SIGCONT)
        for mark in marks if unchanged else ():
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


class Deaths(msgspec.Struct, frozen=True):
    """The result of a run with deaths. `repeats`: runs of units after their first; `attempts`: those that Headway counted."""

    finished: int
    quarantined: int
    killed: int
    repeats: int
    attempts: int
    #: Units that were killed twice and then ran alone.
    suspects: int
    #: Units with a wrong number of runs (not 1 + kills) or a wrong value.
    wrong: int
    took_s: float
    #: The errors of quarantined units.
    errors: list[str]


def deaths(kills: int = KILLS, at_once: int = 1, deadly: int = 0, seed: int = SEED) -> Deaths:
    """Run UNITS units on WORKERS processes, with kills, and with units that always kill their process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killer = Killer(folder, kills, at_once, seed)
        if kills:
            killer.start()
        items = [(-1 - n if n < deadly else n, name) for n in range(UNITS)]
        began = time.monotonic()
        retry = headway.Retry(base="10ms", cap="20ms", max_attempts=50)
        stream = headway.stream(
            marked, items, isolation="process", workers=WORKERS, retry=retry, ordered=True
        )
        results = list(stream)
        killer.over.set()
        if kills:
            killer.join()
        took_s = time.monotonic() - began
        runs = Counter(int(unit) for unit in (folder / "log").read_text().split())
    expected = Counter({unit: 3 if unit < 0 else 1 for unit, _ in items}) + killer.killed
    wrong = sum(runs[unit] != expected[unit] for unit in expected)
    wrong += sum(result.ok and result.value != unit for result, (unit, _) in zip(results, items, strict=True))
    finished = sum(result.ok for result in results)
    return Deaths(
        finished,
        UNITS - finished,
        killer.killed.total(),
        runs.total() - UNITS,
        sum(result.attempts for result in results),
        sum(times > 1 for times in killer.killed.values()),
        wrong,
        took_s,
        [str(result.error) for result in results if not result.ok],
    )


#: An agent whose account reaches its limit at the fifth unit. Workers exit hard, and the message is only in a log file. Every
#: run is recorded in `log`.
AGENT: Final = """
import json, os, time
from pathlib import Path

def work(unit):
    with open("log", "ab", buffering=0) as log:
        log.write(b"%d\\n" % unit)
    if unit >= 5 and not Path("resets").exists():
        fresh = Path(f"resets-{os.getpid()}")  # Other workers read it meanwhile.
        fresh.write_text(str(int(time.time()) + 4))
        fresh.replace("resets")
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
LOGS: Final = ".failed/*/agent/result.json"
#: The same with a ProcessPoolExecutor: prints how many of the 15 units it finished.
EXECUTOR: Final = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from seed_agent import work

if __name__ == "__main__":
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        units = [pool.submit(work, n) for n in range(15)]
        print(sum(unit.exception() is None for unit in units))
"""
