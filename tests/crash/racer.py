"""One of two processes that race: everything is imported, and each line on stdin is a command to run at once.

A line is JSON: `cwd`, `args`, and `delay_s` to wait before the command starts. The answer is a line of JSON: the exit code, and
what the command wrote to stderr.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import time

from headway.cli import main

#: What `headway run` loads when it is called: a race is between commands, not between imports.
PRELOADED = (
    "jobs.finding",
    "cli.run",
    "cli.shared.run_job",
    "cli.shared.workspace",
    "cli.resume",
    "cli.inspect",
    "wiring.run_execution",
)


def race(order: dict[str, object]) -> dict[str, object]:
    os.chdir(str(order["cwd"]))
    start_at = time.perf_counter() + float(str(order["delay_s"]))
    while time.perf_counter() < start_at:
        pass
    args = order["args"]
    assert isinstance(args, list)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(args)
    return {"code": code, "err": said.getvalue()}


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(f"headway.{module}")
    _tell("ready")
    for line in sys.stdin:
        _tell(json.dumps(race(json.loads(line))))
