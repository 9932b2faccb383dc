"""Runs in a network namespace: short tasks through bare Ray, through `headway.map` on Ray, and in worker processes, in turns.

Prints JSON: tasks per second of each turn, by name, and how long the first unit took.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import headway
from bench.on_ray.clock import clock

CPUS = 2


def per_second(called_at: list[float]) -> float:
    """From the first tenth of the tasks to the last one: the start does not count."""
    counted = sorted(called_at)[len(called_at) // 10 :]
    return (len(counted) - 1) / (counted[-1] - counted[0])


def main(tasks: int, turns: int) -> dict[str, list[float]]:
    """Measure."""
    import ray

    ray.init(num_cpus=CPUS, include_dashboard=False, log_to_driver=False, logging_level=logging.CRITICAL)
    remote: Any = ray.remote(max_retries=0)(clock)
    ways: dict[str, Callable[[], list[float]]] = {
        "bare Ray": lambda: ray.get([remote.remote(item) for item in range(tasks)]),
        "headway.map on Ray": lambda: headway.map(clock, range(tasks), executor="ray"),
        "headway.map in processes": lambda: headway.map(
            clock, range(tasks), isolation="process", workers=CPUS
        ),
    }
    figures: dict[str, list[float]] = {name: [] for name in [*ways, "first"]}
    for _ in range(turns):
        for name, way in ways.items():
            began = time.monotonic()
            called_at = way()
            figures[name].append(per_second(called_at))
            if "on Ray" in name:
                figures["first"].append(min(called_at) - began)
    return figures


if __name__ == "__main__":
    found = main(int(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(found))
