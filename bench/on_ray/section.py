"""The section `ray`: what our executor adds to bare Ray. Ray runs in a network namespace with only loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from statistics import median
from typing import Final

from bench.processes import ROOT
from bench.servers import installed

TASKS: Final = 5_000
TURNS: Final = 3
BAR: Final = 0.5
_ENTER: Final = 'ip link set lo up && exec "$@"'


def measured() -> dict[str, list[float]]:
    """Tasks per second of each way and turn."""
    if not installed.namespaces():
        raise RuntimeError("no network namespaces here: Ray must not reach the network")
    with tempfile.TemporaryDirectory(prefix="hw-ray-", dir="/tmp") as folder:
        command = [
            *installed.NAMESPACE,
            "bash",
            "-c",
            _ENTER,
            "bash",
            sys.executable,
            "-m",
            "bench.on_ray.rounds",
        ]
        done = subprocess.run(
            [*command, str(TASKS), str(TURNS)], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, "RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "HOME": folder, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2_000:])
    figures: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def section(missed: list[str]) -> Iterator[str]:
    """Measure."""
    figures = measured()
    first = figures.pop("first")
    yield "## Ray"
    yield ""
    yield f"Ray {version('ray')}, one node with 2 CPUs, in a network namespace. {TASKS:,} tasks that only look at the clock ({TURNS} turns, alternating);"
    yield "per second, without the start. Through Headway each task also passes the scheduler, and runs in a worker process of its host."
    yield ""
    yield "| | tasks per second, median | all | µs each |"
    yield "|---|---|---|---|"
    for name, values in figures.items():
        every = ", ".join(f"{value:,.0f}" for value in values)
        yield f"| {name} | {median(values):,.0f} | {every} | {1e6 / median(values):,.0f} |"
    yield ""
    ratio = median(figures["headway.map on Ray"]) / median(figures["bare Ray"])
    yield f"On Ray: {ratio:.2f} × bare Ray (bar: ≥ {BAR:g}). The first unit ran {median(first):.1f} s after the call: an actor was started for it."
    yield ""
    if ratio < BAR:
        missed.append(f"ray: {ratio:.2f} × bare Ray's tasks per second, the bar is {BAR:g}")
