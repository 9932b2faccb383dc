"""Worker processes: overhead per unit beside ProcessPoolExecutor, and a limit that is only in a log on both. Deaths: `deaths`."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

from bench import processes
from bench.deaths import AGENT, EXECUTOR, LOGS, WORKERS
from headway.executors.entry_point import EntryPoint, entry_name
from headway.executors.process_pool import ProcessPool
from headway.executors.worker_entry import serve_calls
from headway.runtime.loops import run_here

#: Microseconds per no-op unit, without a store.
OVERHEAD_BAR_US: Final = 100.0
NO_OPS: Final = 10_000
ROUNDS: Final = 5


def no_op(item: int) -> int:
    """A unit that does nothing."""
    return item


# -- overhead -----------------------------------------------------------------------------------------------------


class Overhead(msgspec.Struct, frozen=True):
    """Microseconds per unit: the medians of several rounds, in turns."""

    pool_us: float
    executor_us: float


def overhead() -> Overhead:
    """No-op units through the pool, and through a ProcessPoolExecutor, in turns."""
    pool_s: list[float] = []
    executor_s: list[float] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(WORKERS, mp_context=context) as executor:
        list(executor.map(no_op, range(100)))

        async def measure() -> None:
            work = EntryPoint(entry_name(serve_calls), pickle.dumps((no_op, ())))
            pool = ProcessPool(work, WORKERS)
            try:
                await _no_ops(pool, 100)
                for _ in range(ROUNDS):
                    began = time.perf_counter()
                    await _no_ops(pool, NO_OPS)
                    pool_s.append(time.perf_counter() - began)
                    began = time.perf_counter()
                    list(executor.map(no_op, range(NO_OPS)))
                    executor_s.append(time.perf_counter() - began)
            finally:
                await pool.close()

        run_here(measure)
    return Overhead(median(pool_s) / NO_OPS * 1e6, median(executor_s) / NO_OPS * 1e6)


async def _no_ops(pool: ProcessPool, count: int) -> None:
    payload = pickle.dumps(1)
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            ran = await pool.run(payload, 60.0)
            assert ran.end == "value"

    lanes: list[Awaitable[None]] = [one_after_another() for _ in range(WORKERS)]
    await asyncio.gather(*lanes)


# -- a limit that is only in a log ----------------------------------------------------------------------------------

_CONFIG: Final = f"""
[providers.agent]
kind = "python"
target = "seed_agent:work"
workers = 4
failure_logs = "{LOGS}"
"""


class LimitInLogs(msgspec.Struct, frozen=True):
    """How many of 15 units each finished, and Headway's message."""

    executor: int
    headway: int
    summary: str


def limit_in_logs() -> LimitInLogs:
    """The limit is reached at the fifth of 15 units; workers exit hard, and the message is only in a log."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        (Path(first) / "seed_agent.py").write_text(AGENT)
        (Path(first) / "executor.py").write_text(EXECUTOR)
        command = [sys.executable, "executor.py"]
        output = subprocess.run(command, cwd=first, capture_output=True, check=True, timeout=60).stdout
        folder = Path(second)
        (folder / "seed_agent.py").write_text(AGENT)
        (folder / "headway.toml").write_text(_CONFIG)
        rows = (json.dumps({"id": f"t{n}", "payload": n}) + "\n" for n in range(15))
        (folder / "in.jsonl").write_text("".join(rows))
        ended = processes.run([*processes.HEADWAY, "run", "in.jsonl"], folder, 60.0)
        lines = (folder / "in.results.jsonl").read_text().splitlines()
        good = sum(json.loads(line)["error"] is None for line in lines)
        messages = [line for line in ended.errors.decode().splitlines() if "limit" in line]
    return LimitInLogs(int(output), good, messages[0].strip() if messages else "")
