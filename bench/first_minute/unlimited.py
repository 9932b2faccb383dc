"""20,000 small requests on a lane that is known to have no limit (`rpm = 0`, `tpm = 0`), beside a bare loop with 100 in flight.

Nothing says how many may be in flight: the lane follows its throughput. Each job runs with the usual number of open files and with 256.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from bench import overhead
from bench.processes import HEADWAY, Watched
from headway.fake.process import fake_process

UNITS: Final = 20_000
FEW_FILES: Final = 256
CPU_BAR_S: Final = 0.20
MEMORY_BAR_MB: Final = 100.0
#: More bring nothing where answers come at once: the bare loop is as fast with a hundred. A lane tries twice of what it then keeps.
FILES_BAR: Final = 512
LONGEST_S: Final = 300.0


class Case(msgspec.Struct, frozen=True):
    """How long answers take, and how many files the process may open (0: as many as usual)."""

    latency_s: float
    files: int = 0

    @property
    def name(self) -> str:
        """The case in words."""
        answers = f"answers after {self.latency_s:g} s" if self.latency_s else "answers at once"
        return f"{answers}, `ulimit -n {self.files}`" if self.files else answers


CASES: Final = (Case(0.0), Case(0.0, FEW_FILES), Case(0.2), Case(0.2, FEW_FILES))


class Measured(msgspec.Struct, frozen=True):
    """One job."""

    case: Case
    units: int
    cpu_s: float
    peak_mb: float
    files: int
    per_s: float
    bare_per_s: float
    wrong: int
    repeats: int
    exit_code: int
    log: str

    @property
    def cpu_s_per_1000(self) -> float:
        """CPU seconds per 1000 requests."""
        return 1000.0 * self.cpu_s / self.units

    @property
    def errors(self) -> int:
        """Whether it says that it ran out of files, or that its breaker opened."""
        return sum(word in self.log for word in ("open files", "no new requests", "Traceback"))


def measure(case: Case, units: int = UNITS) -> Measured:
    """The bare loop, then `headway run`."""
    flags = ("--headers", "none", "--latency", f"{case.latency_s:g}s")
    with TemporaryDirectory() as name, fake_process(*flags) as fake:
        folder = Path(name)
        bare = overhead.bare_cost(fake, folder / "bare", units, overhead.FEW)
        overhead.prepare(folder / "run", fake.url, units, 0)
        fake.reset()
        ended = _start(folder / "run", case.files).wait()
        stats: dict[str, Any] = fake.stats()["accounts"][overhead.ACCOUNT]
        return Measured(
            case=case,
            units=units,
            cpu_s=ended.cpu_s,
            peak_mb=ended.peak_mb,
            files=ended.most_files,
            per_s=overhead.pace(fake),
            bare_per_s=bare.per_s,
            wrong=units - int(stats["ok"]),
            repeats=int(stats["repeats"]),
            exit_code=ended.code,
            log=ended.errors.decode(),
        )


def _start(folder: Path, files: int) -> Watched:
    command = [*HEADWAY, "run", "in.jsonl", "--out", "out.jsonl"]
    if files:
        command = ["bash", "-c", f'ulimit -n {files} && exec "$@"', "bash", *command]
    return Watched(command, folder, LONGEST_S, {"KEY_X": "some-key-that-is-not-short"}, count_files=True)


def misses(one: Measured) -> list[str]:
    """The missed bars."""
    what, missed = f"unlimited, {one.case.name}", []
    if one.cpu_s_per_1000 > CPU_BAR_S:
        missed.append(f"{what}: {one.cpu_s_per_1000:.2f} CPU s per 1000, the bar is {CPU_BAR_S:g}")
    if one.peak_mb > MEMORY_BAR_MB:
        missed.append(f"{what}: {one.peak_mb:.0f} MB, the bar is {MEMORY_BAR_MB:.0f}")
    if not one.case.latency_s and one.files > FILES_BAR:
        missed.append(f"{what}: {one.files:,} open files, the bar is {FILES_BAR}")
    if one.wrong or one.repeats or one.exit_code or one.errors:
        missed.append(
            f"{what}: {one.wrong} without an answer, {one.repeats} repeated, exit code {one.exit_code}, {one.errors} errors named"
        )
    return missed


def lines(missed: list[str]) -> Iterator[str]:
    """The table."""
    yield f"### {UNITS:,} requests on a lane without limits"
    yield ""
    yield "`rpm = 0`, `tpm = 0`, and no number in flight. *Open files*: the most at once, sockets and about 30 others. The bare loop has"
    yield f"{overhead.FEW} in flight. Bars: ≤ {CPU_BAR_S:g} CPU s per 1000, ≤ {MEMORY_BAR_MB:.0f} MB, no error; where answers come at once ≤ {FILES_BAR} open files."
    yield ""
    yield "| case | CPU s per 1000 | MB | open files | requests/s | bare loop | without an answer |"
    yield "|---|---|---|---|---|---|---|"
    for case in CASES:
        print(f"first minute: unlimited, {case.name} …", flush=True)
        try:
            one = measure(case)
        except RuntimeError as error:
            missed.append(f"unlimited, {case.name}: {error}")
            continue
        missed += misses(one)
        yield (
            f"| {case.name} | {one.cpu_s_per_1000:.2f} | {one.peak_mb:.0f} | {one.files:,} | {one.per_s:,.0f} "
            f"| {one.bare_per_s:,.0f} | {one.wrong} |"
        )
    yield ""
