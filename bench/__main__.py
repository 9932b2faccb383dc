"""`make bench`: measures everything that has a bar and writes bench/RESULTS.md. Exits 1 when a bar is missed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import headway
from bench import lanes, speed
from headway.sim.runner import HEADWAY, POLICIES, LaneResult, Report

RESULTS: Final = Path(__file__).parent / "RESULTS.md"

CPU_BAR_US: Final = 20.0
GROWTH_BAR: Final = 1.2


def main() -> int:
    """Measure, write, and say what was missed."""
    began = time.monotonic()
    missed: list[str] = []
    text = "\n".join([*_heading(), *_lanes(missed), *_beside_held(missed), *_speed(missed)])
    missed_text = (
        "Every bar is met." if not missed else "**Missed:**\n\n" + "\n".join(f"- {line}" for line in missed)
    )
    RESULTS.write_text(text.replace("VERDICT", missed_text), encoding="utf-8")
    print(f"wrote {RESULTS.relative_to(Path.cwd())} in {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def _heading() -> Iterator[str]:
    parts = f"headway {headway.__version__}, msgspec {msgspec.__version__}"
    yield "# What Headway reaches"
    yield ""
    yield "Written by `make bench`; do not edit. Lanes are measured in virtual time against their theoretical bound"
    yield "(docs/reference/scenarios.md), so those figures are the same on every machine; the speed of the scheduler is not."
    yield ""
    yield f"{platform.python_implementation()} {platform.python_version()}, {parts}; {_processor()}, {os.cpu_count()} cores."
    yield ""
    yield "VERDICT"
    yield ""


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def _lanes(missed: list[str]) -> Iterator[str]:
    yield "## Makespan ÷ bound (429s per 1000), the worst of the seeds"
    yield ""
    yield "| scenario | order | lane | bar | " + " | ".join(POLICIES) + " |"
    yield "|---|---|---|---|" + "---|" * len(POLICIES)
    for bar in lanes.BARS:
        print(f"{bar.scenario}, {bar.order} order …", flush=True)
        report = lanes.run(bar)
        missed += lanes.misses(bar, report)
        yield from _rows(bar, report)
    yield ""
    yield "### Aims, not bars"
    yield ""
    yield "Known to be hard; what is reached is written down."
    yield ""
    yield "| scenario | order | lane | aim | " + " | ".join(POLICIES) + " |"
    yield "|---|---|---|---|" + "---|" * len(POLICIES)
    for aim in lanes.AIMS:
        print(f"{aim.scenario} …", flush=True)
        yield from _rows(aim, lanes.run(aim))
    yield ""


def _rows(bar: lanes.Bar, report: Report) -> Iterator[str]:
    for lane in report.policies[HEADWAY].lanes:
        ratio, rejected = bar.of(lane)
        cells = [_cell(result.lanes[lane]) for result in report.policies.values()]
        yield (
            f"| {bar.scenario} | {bar.order} | {lane} | ≤ {ratio} ({rejected:.0f}) | "
            + " | ".join(cells)
            + " |"
        )


def _cell(result: LaneResult) -> str:
    ends = f", {result.failed} failed" if result.failed else ""
    ends += f", {result.unfinished} unfinished" if result.unfinished else ""
    return f"{result.ratio:.3f} ({result.rejected_per_1000:.1f}{ends})"


def _beside_held(missed: list[str]) -> Iterator[str]:
    print("a healthy lane beside a held one …", flush=True)
    yield "## A healthy lane beside a held one, against running alone"
    yield ""
    for seed, ratio in lanes.beside_held():
        yield f"- seed {seed}: {ratio:.4f} (bar: ≤ {lanes.BESIDE_HELD})"
        if ratio > lanes.BESIDE_HELD:
            missed.append(f"beside a held lane, seed {seed}: {ratio:.3f}")
    yield ""


def _speed(missed: list[str]) -> Iterator[str]:
    yield f"## CPU of the scheduler a unit, {speed.LANES} lanes, requests and tokens metered"
    yield ""
    yield "The driver that answers is included. *Batched*: all answers of an instant in one call, as the engine does;"
    yield "*single*: one call an answer. The long run is taken in a hundred slices with a whole short run after each, so"
    yield "that both see the same machine; the shorts' figure is the mean of their hundred."
    yield ""
    yield "| units | headers | calls | µs a unit | against 10,000 | most units in the queues | peak MB |"
    yield "|---|---|---|---|---|---|---|"
    for headers in (False, True):
        for batched in (True, False):
            yield from _speed_rows(missed, headers=headers, batched=batched)
    yield ""


def _speed_rows(missed: list[str], *, headers: bool, batched: bool) -> Iterator[str]:
    small, large = _in_own_process(headers=headers, batched=batched)
    for result in (small, large):
        growth = result.cpu_us / small.cpu_us
        yield (
            f"| {result.units:,} | {'yes' if headers else 'no'} | {'batched' if batched else 'single'} "
            f"| {result.cpu_us:.1f} | {growth:.2f} | {result.peak_queued:,} | {result.peak_mb:.0f} |"
        )
        if result.cpu_us > CPU_BAR_US:
            missed.append(
                f"{result.units:,} units: {result.cpu_us:.1f} µs a unit, the bar is {CPU_BAR_US:.0f}"
            )
    if large.cpu_us > small.cpu_us * GROWTH_BAR:
        missed.append(
            f"CPU a unit grows {large.cpu_us / small.cpu_us:.2f} × to a million, the bar is {GROWTH_BAR}"
        )


def _in_own_process(*, headers: bool, batched: bool) -> tuple[speed.SpeedResult, speed.SpeedResult]:
    print(f"speed: headers {headers}, batched {batched} …", flush=True)
    command = [sys.executable, "-m", "bench.speed", str(int(headers)), str(int(batched))]
    done = subprocess.run(command, check=True, capture_output=True)
    return msgspec.json.decode(done.stdout, type=tuple[speed.SpeedResult, speed.SpeedResult])


if __name__ == "__main__":
    sys.exit(main())
