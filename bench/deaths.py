"""Scenarios of worker processes that die, for the benchmark and for the tests alike.

What is done is real: processes are killed by SIGKILL while they run a unit, known by the mark that each unit leaves
while it runs. The process is stopped first, so that the kill and the mark belong to the same unit.
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
    """Shows for as long as it runs that it does; a unit of a negative number kills its process."""
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
    """Sends SIGKILL to workers in the middle of a unit, whichever it is: some units are hit twice.

    None is hit three times. After two deaths a unit runs alone, and a death there quarantines it.
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


class Deaths(msgspec.Struct, frozen=True):
    """How a run with deaths went. `repeats` are the runs of units beyond their first, `attempts` what Headway counted."""

    finished: int
    quarantined: int
    killed: int
    repeats: int
    attempts: int
    #: Units that were killed twice, and so ran a third time alone.
    suspects: int
    #: Units whose number of runs is not one and their kills, and those whose value is not theirs.
    wrong: int
    took_s: float
    #: What is said of those that were quarantined.
    said: list[str]


def deaths(kills: int = KILLS, at_once: int = 1, deadly: int = 0, seed: int = SEED) -> Deaths:
    """UNITS units on WORKERS processes, with kills, and with units that always kill."""
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


#: The seed's failure: an agent's run against an account whose limit strikes at the fifth unit. Workers exit hard, and the
#: message is only in a log. Every run is noted in `log`.
AGENT: Final = """
import json, os, time
from pathlib import Path

def work(unit):
    with open("log", "ab", buffering=0) as log:
        log.write(b"%d\\n" % unit)
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
LOGS: Final = ".failed/*/agent/result.json"
#: The same on a ProcessPoolExecutor: prints how many of the 15 it has in the end.
EXECUTOR: Final = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from seed_agent import work

if __name__ == "__main__":
    with ProcessPoolExecutor(4, mp_context=get_context("spawn")) as pool:
        units = [pool.submit(work, n) for n in range(15)]
        print(sum(unit.exception() is None for unit in units))
"""
