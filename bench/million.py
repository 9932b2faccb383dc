"""A job of a million units, from the first call to the last row: interrupted once, resumed, and run to its end.

The fake has no limits and no latency, so this measures Headway on this machine. Bars: memory as that of a small job, and a quick resume;
nothing is lost, and no request is sent twice except those that the interruption cancelled (a first Ctrl-C cancels none).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.overhead import (
    ACCOUNT,
    FEW,
    MEMORY_BAR,
    RESUME_BAR_S,
    RUN,
    SMALL,
    Size,
    prepare,
    small,
    sound,
    start,
    unlimited_fake,
)
from bench.processes import first_seen_utc
from headway.fake.process import FakeProcess

UNITS: Final = 1_000_000
#: It takes about six minutes on two cores.
LONGEST_S: Final = 3_600.0


class Million(msgspec.Struct, frozen=True):
    """What a large job took, in two runs together."""

    units: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    resumed_call_s: float
    database_mb: float
    #: Rows that are missing, out of order or without an answer; and requests that were sent again.
    wrong_rows: int
    repeats: int

    @property
    def cpu_us(self) -> float:
        """CPU per unit."""
        return self.cpu_s / self.units * 1e6


def measure(units: int = UNITS) -> Million:
    """Run half of it, interrupt it, resume it, and wait for its end."""
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        folder = Path(name) / "job"
        prepare(folder, fake.url, units, FEW)
        first = start(folder, *RUN, longest_s=LONGEST_S)
        first.wait_for(lambda: _answered(fake) >= units // 2, every_s=0.1)
        first.interrupt()
        halted = sound(first.wait(), 130)
        before = _answered(fake)
        fake.reset()
        again = start(folder, "resume", "--quiet", longest_s=LONGEST_S)
        again.wait_for(lambda: _answered(fake) > 0, every_s=0.05)
        seen_utc = first_seen_utc(fake, ACCOUNT)
        ended = sound(again.wait(), 0)
        return Million(
            units=units,
            wall_s=halted.wall_s + ended.wall_s,
            cpu_s=halted.cpu_s + ended.cpu_s,
            peak_mb=max(halted.peak_mb, ended.peak_mb),
            resumed_call_s=(seen_utc or ended.ended_utc) - ended.began_utc,
            database_mb=(folder / ".headway" / "headway.db").stat().st_size / 1e6,
            wrong_rows=_wrong_rows(folder / "out.jsonl", units),
            repeats=before + _answered(fake) - units,
        )


def _answered(fake: FakeProcess) -> int:
    return int(fake.stats()["accounts"].get(ACCOUNT, {}).get("ok", 0))


class _Row(msgspec.Struct):
    custom_id: str
    error: object


def _wrong_rows(path: Path, units: int) -> int:
    """Rows that are not the good answer of the unit in this place of the input, or are missing."""
    good = number = 0
    decode = msgspec.json.Decoder(_Row).decode
    with path.open("rb") as file:
        for number, line in enumerate(file):
            row = decode(line)
            good += row.custom_id == f"unit-{number:07d}" and row.error is None
    return max(units, number + 1) - good


def misses(large: Million, few: Size) -> list[str]:
    """The missed bars."""
    missed = []
    if large.wrong_rows or large.repeats:
        missed.append(f"{large.wrong_rows} rows missing or wrong, {large.repeats} requests repeated")
    if large.peak_mb > MEMORY_BAR * few.peak_mb:
        missed.append(
            f"memory: {large.peak_mb / few.peak_mb:.2f} × that of {few.units:,} units, the bar is {MEMORY_BAR:g}"
        )
    if large.resumed_call_s > RESUME_BAR_S:
        missed.append(f"resume to the first call: {large.resumed_call_s:.1f} s, the bar is {RESUME_BAR_S:g}")
    return missed


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print(f"million: {SMALL:,} units …", flush=True)
    few = small()
    print(f"million: {UNITS:,} units …", flush=True)
    large = measure()
    missed += misses(large, few)
    yield f"## {large.units:,} units to their end: `headway run`, interrupted half-way, `headway resume`"
    yield ""
    yield f"Small requests to a fake without limits or latency, {FEW} in flight."
    yield ""
    yield "| what | reached | bar |"
    yield "|---|---|---|"
    yield f"| time, both runs together | {large.wall_s:,.0f} s, {large.units / large.wall_s:,.0f} units per second | |"
    yield f"| CPU | {large.cpu_us:.0f} µs per unit | |"
    yield (
        f"| memory against {few.units:,} units | {large.peak_mb / few.peak_mb:.2f} × ({large.peak_mb:.0f} MB, {few.peak_mb:.0f} MB) "
        f"| ≤ {MEMORY_BAR:g} × |"
    )
    yield f"| resume to the first call | {large.resumed_call_s:.2f} s | ≤ {RESUME_BAR_S:g} s |"
    yield f"| rows missing or wrong, requests repeated | {large.wrong_rows}, {large.repeats} | 0, 0 |"
    yield f"| database | {large.database_mb:,.0f} MB | |"
    yield ""
