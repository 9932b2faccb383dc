"""A `for_each` over a million rows of a data set, each handled by a tool that does nothing: `headway run`, with its worker processes.

The CPU of the scheduler and of the growth is measured inside the process (`timed_run`), everything else from outside. Bars: memory as that of a
small flow, and the CPU of scheduler and growth for each unit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.flows import graphs
from bench.overhead import sound
from bench.processes import Watched

SMALL: Final = 10_000
LARGE: Final = 1_000_000
LONGEST_S: Final = 7_200.0
MEMORY_BAR: Final = 1.5
UNIT_BAR_US: Final = 100.0


class Items(msgspec.Struct, frozen=True):
    """What a flow over so many items took. CPU is that of the process of `headway run`, without its workers."""

    items: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    scheduler_s: float
    growth_s: float

    @property
    def unit_us(self) -> float:
        """CPU of scheduler and growth for each unit."""
        return (self.scheduler_s + self.growth_s) / self.items * 1e6

    @property
    def process_us(self) -> float:
        """CPU of the whole process for each unit."""
        return self.cpu_s / self.items * 1e6


def measure(items: int) -> Items:
    """Run the flow to its end."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        graphs.fan_out(folder, items)
        command = [
            sys.executable,
            "-m",
            "bench.flows.timed_run",
            "clocks.json",
            "run",
            "flow.yaml",
            "--quiet",
        ]
        ended = sound(Watched(command, folder, LONGEST_S, {"KEY_X": "some-key-that-is-not-short"}).wait(), 0)
        clocks = msgspec.json.decode((folder / "clocks.json").read_bytes())
        found = msgspec.json.decode((folder / "flow.results.json").read_bytes())["nodes"]["touch"]
        if found["succeeded"] != items:
            raise RuntimeError(f"{found['succeeded']:,} of {items:,} items have an answer")
        return Items(
            items,
            ended.wall_s,
            ended.cpu_s,
            ended.peak_mb,
            clocks["scheduler"]["cpu_s"],
            clocks["growth"]["cpu_s"],
        )


def misses(few: Items, many: Items) -> list[str]:
    """The missed bars."""
    missed = []
    if many.peak_mb > MEMORY_BAR * few.peak_mb:
        missed.append(
            f"{many.items:,} items: memory {many.peak_mb / few.peak_mb:.2f} × that of {few.items:,}, the bar is {MEMORY_BAR:g}"
        )
    if many.unit_us > UNIT_BAR_US:
        missed.append(
            f"{many.items:,} items: {many.unit_us:.0f} µs of scheduler and growth for a unit, the bar is {UNIT_BAR_US:g}"
        )
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    runs = []
    for items in (SMALL, LARGE):
        print(f"flows: {items:,} items …", flush=True)
        runs.append(measure(items))
    few, many = runs
    missed += misses(few, many)
    yield f"### A `for_each` over {LARGE:,} items"
    yield ""
    yield "The rows of a .jsonl file, and a Python tool that does nothing, in persistent workers. Every end is durable."
    yield ""
    yield "| what | 10,000 items | 1,000,000 items | bar |".replace("10,000", f"{few.items:,}").replace(
        "1,000,000", f"{many.items:,}"
    )
    yield "|---|---|---|---|"
    yield f"| time, units per second | {_pace(few)} | {_pace(many)} | |"
    yield f"| peak memory of `headway run` | {few.peak_mb:.0f} MB | {many.peak_mb:.0f} MB, {many.peak_mb / few.peak_mb:.2f} × | ≤ {MEMORY_BAR:g} × |"
    yield f"| CPU of scheduler and growth, µs a unit | {_parts(few)} | {_parts(many)} | ≤ {UNIT_BAR_US:g} |"
    yield f"| CPU of the whole process, µs a unit | {few.process_us:.0f} | {many.process_us:.0f} | |"
    yield ""


def _pace(one: Items) -> str:
    return f"{one.wall_s:,.0f} s, {one.items / one.wall_s:,.0f}"


def _parts(one: Items) -> str:
    scheduler, growth = (seconds / one.items * 1e6 for seconds in (one.scheduler_s, one.growth_s))
    return f"{one.unit_us:.0f} ({scheduler:.0f} + {growth:.0f})"
