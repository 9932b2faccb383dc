"""One of two racing processes: it has imported everything, and runs the command of each line on stdin at once.

A line is JSON: `cwd`, `args`, and `delay_s` to wait before the command starts. The answer is a line of JSON: the exit code, and
what the command wrote to stderr.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time

from headway.cli import inspect, main, resume, run
from headway.cli.shared import run_job, workspace
from headway.jobs import find_or_add
from headway.wiring import run_execution

#: What `headway run` loads when it is called: a race is between commands, not between imports.
PRELOADED = (find_or_add, inspect, resume, run, run_execution, run_job, workspace)


def race(order: dict[str, object]) -> dict[str, object]:
    os.chdir(str(order["cwd"]))
    start_at = time.perf_counter() + float(str(order["delay_s"]))
    while time.perf_counter() < start_at:
        pass
    args = order["args"]
    assert isinstance(args, list)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(args)
    return {"code": code, "err": said.getvalue()}


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _tell("ready")
    for line in sys.stdin:
        _tell(json.dumps(race(json.loads(line))))
