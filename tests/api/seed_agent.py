"""The agent of seed 002, as a program and as a function: its account's limit strikes at unit 5, and it exits hard.

The message is in a log file and nowhere else. Run as `python -m tests.api.seed_agent FOLDER UNIT`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import headway

UNITS = 15
LOGS = ".failed/*/agent/result.json"
SAID = "You've hit your limit · resets in 1s"
#: How long the account's limit lasts; the message promises its end for a little later.
LASTS_S = 0.9


def work(item: tuple[str, int]) -> int:
    """One unit. From unit 5 on the account has a limit, which ends soon."""
    folder, unit = Path(item[0]), item[1]
    with (folder / "log").open("ab", buffering=0) as log:
        log.write(b"%d\n" % unit)
    resets = folder / "resets"
    strikes = unit >= 5 and not resets.exists()
    if strikes:
        begun = folder / f"resets.{unit}"
        begun.write_text(str(time.time() + LASTS_S))
        begun.replace(resets)
    time.sleep(0.02)
    if strikes or (resets.exists() and time.time() < float(resets.read_text())):
        place = folder / ".failed" / str(unit) / "agent"
        place.mkdir(parents=True, exist_ok=True)
        told = {"exit_code": -1, "stdout": "", "stderr": SAID}
        (place / "result.json").write_text(json.dumps(told))
        os._exit(255)
    return unit


def run_agent(item: tuple[str, int]) -> int:
    """The same in a process of its own, as a handler or a worker runs a CLI."""
    folder, unit = item
    command = [sys.executable, "-m", "tests.api.seed_agent", folder, str(unit)]
    return int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


class AgentWorker:
    """A worker that reports its agent's failure and says nothing of the reason."""

    def __init__(self, *, lists_log: bool) -> None:
        self.lists_log = lists_log

    def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
        try:
            return headway.WorkerResult(True, output=run_agent(payload))
        except subprocess.CalledProcessError as error:
            folder, unit = payload
            log = f"{folder}/.failed/{unit}/agent/result.json"
            return headway.WorkerResult(False, error=f"exit code {error.returncode}", output_files=[log] if self.lists_log else [])  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(str(work((sys.argv[1], int(sys.argv[2])))))
