"""Overhead of `headway run`: CPU per request, memory, ingest, start-up, resume.

Everything is measured from outside: the CPU of a process by the kernel when it ends, its phases by the job's
record, its first call by the fake that receives it. Headway and the bare loop (bench/bare.py) run in turns,
because the speed of the machine varies.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.processes import HEADWAY, Ended, Watched, first_seen_utc, run
from headway.fake.process import FakeProcess, fake_process

REQUESTS: Final = 20_000
FEW: Final = 100
MANY: Final = 1_000
TURNS: Final = 3
SMALL: Final = 10_000
LARGE: Final = 1_000_000
#: A million answers would take minutes: a large run is fully ingested and then interrupted after so many answers.
ENOUGH: Final = 20_000

CPU_BAR: Final = 2.0
CPU_AIM: Final = 1.5
THROUGHPUT_BAR: Final = 0.6
IN_FLIGHT_BAR: Final = 1.1
MEMORY_BAR: Final = 1.5
INGEST_BAR: Final = 50_000.0
RESUME_BAR_S: Final = 5.0
STATUS_BAR_S: Final = 0.5
START_UP_BAR_S: Final = 0.4

LONGEST_S: Final = 300.0
ACCOUNT: Final = "default"
RUN: Final = ("run", "in.jsonl", "--out", "out.jsonl", "--quiet")


@contextmanager
def unlimited_fake() -> Iterator[FakeProcess]:
    """No limits, no latency, no headers."""
    with fake_process("--headers", "none") as fake:
        yield fake


def prepare(folder: Path, url: str, rows: int, in_flight: int) -> None:
    """Make a folder with so many small requests and a provider that is known to have no rate limit (`in_flight` 0: and no other)."""
    folder.mkdir()
    cap = f"max_concurrency = {in_flight}" if in_flight else "tpm = 0"
    (folder / "headway.toml").write_text(
        f'[providers.x]\nkind = "openai"\nbase_url = "{url}"\napi_key_env = "KEY_X"\n'
        f"[providers.x.limits]\nrpm = 0\n{cap}\n",
        encoding="utf-8",
    )
    with (folder / "in.jsonl").open("wb") as file:
        file.writelines(_row(number) for number in range(rows))


def _row(number: int) -> bytes:
    return (
        b'{"custom_id":"unit-%07d","method":"POST","url":"/v1/chat/completions","body":{"model":"x/model",'
        b'"messages":[{"role":"user","content":"Say what number %d is."}],"max_tokens":32}}\n'
    ) % (number, number)


def start(folder: Path, *arguments: str, longest_s: float = LONGEST_S) -> Watched:
    """Start a command in a folder."""
    return Watched([*HEADWAY, *arguments], folder, longest_s, {"KEY_X": "some-key-that-is-not-short"})


def sound(ended: Ended, *codes: int) -> Ended:
    """A process that has ended with one of these exit codes; another one is an error."""
    if ended.code not in codes:
        text = (ended.errors or ended.out).decode()[-2000:]
        raise RuntimeError(f"exit code {ended.code}: {text}")
    return ended


# -- CPU ----------------------------------------------------------------------------------------------------------


class Cost(msgspec.Struct, frozen=True):
    """CPU of a process for so many requests, and requests per second between the first and the last."""

    requests: int
    cpu_s: float
    per_s: float
    #: CPU seconds to create the job, to ingest it, to run it, and after it.
    split: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def cpu_us(self) -> float:
        """CPU per request."""
        return self.cpu_s / self.requests * 1e6


def pace(fake: FakeProcess) -> float:
    """Requests per second between the first and the last."""
    stats = fake.stats()["accounts"][ACCOUNT]
    return float((stats["admitted"] - 1) / max(1e-9, stats["last_admission_s"] - stats["first_admission_s"]))


def headway_cost(fake: FakeProcess, folder: Path, requests: int, in_flight: int) -> Cost:
    """`headway run`, from an empty folder to its exit."""
    prepare(folder, fake.url, requests, in_flight)
    fake.reset()
    ended = sound(start(folder, *RUN).wait(), 0)
    stats = fake.stats()["accounts"][ACCOUNT]
    if stats["ok"] != requests or stats["repeats"]:
        raise RuntimeError(f"{stats['ok']} of {requests} answered, {stats['repeats']} repeated")
    created, started, finished = _times(folder)
    points = [0.0, *(ended.cpu_at(utc) for utc in (created, started, finished)), ended.cpu_s]
    a, b, c, d = (after - before for before, after in pairwise(points))
    return Cost(requests, ended.cpu_s, pace(fake), (a, b, c, d))


def _times(folder: Path) -> tuple[float, float, float]:
    """When the job was created, started and finished."""
    with sqlite3.connect(folder / ".headway" / "headway.db") as db:
        created, started, finished = db.execute(
            "SELECT created_utc, started_utc, finished_utc FROM jobs"
        ).fetchone()
    return float(created), float(started), float(finished)


def bare_cost(fake: FakeProcess, folder: Path, requests: int, in_flight: int) -> Cost:
    """The bare loop with the same rows."""
    prepare(folder, fake.url, requests, in_flight)
    fake.reset()
    command = [sys.executable, "-m", "bench.bare", fake.url, "in.jsonl", str(in_flight)]
    ended = sound(run(command, folder, LONGEST_S), 0)
    if int(ended.out) != requests:
        raise RuntimeError(f"the bare loop got {ended.out.decode().strip()} of {requests}")
    return Cost(requests, ended.cpu_s, pace(fake))


class Costs(msgspec.Struct, frozen=True):
    """Headway and the bare loop, in turns."""

    in_flight: int
    headway: list[Cost]
    bare: list[Cost]

    @property
    def cpu_ratio(self) -> float:
        """CPU of Headway ÷ CPU of the bare loop: the ratio of the medians."""
        return self.cpu_us("headway") / self.cpu_us("bare")

    @property
    def throughput_ratio(self) -> float:
        """Ratio of the medians."""
        return median(cost.per_s for cost in self.headway) / median(cost.per_s for cost in self.bare)

    def cpu_us(self, who: str) -> float:
        """CPU per request, the median of the turns."""
        return median(cost.cpu_us for cost in (self.headway if who == "headway" else self.bare))

    @property
    def split(self) -> list[float]:
        """CPU seconds by phase, the median of the turns."""
        return [median(cost.split[n] for cost in self.headway) for n in range(4)]


def costs(
    in_flight: tuple[int, ...] = (FEW, MANY), requests: int = REQUESTS, turns: int = TURNS
) -> list[Costs]:
    """Headway and the bare loop at each number in flight, all in turns."""
    measured: list[Costs] = [Costs(n, [], []) for n in in_flight]
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        folder = Path(name)
        for turn in range(turns):
            for each in measured:
                place = folder / f"{each.in_flight}-{turn}"
                each.bare.append(bare_cost(fake, place.with_suffix(".bare"), requests, each.in_flight))
                each.headway.append(headway_cost(fake, place.with_suffix(".run"), requests, each.in_flight))
    return measured


# -- a million ----------------------------------------------------------------------------------------------------


class Size(msgspec.Struct, frozen=True):
    """A job of so many units."""

    units: int
    peak_mb: float
    #: From the process's start to its first call: on a new job, and on the same job again.
    first_call_s: float
    resumed_call_s: float = 0.0
    status_s: float = 0.0
    database_mb: float = 0.0


def _first_call(fake: FakeProcess, folder: Path, answers: int, *arguments: str) -> tuple[float, Ended]:
    """Start, wait for so many answers, interrupt. Returns the seconds until the first call."""
    fake.reset()
    running = start(folder, *arguments)
    running.wait_for(lambda: fake.stats()["accounts"][ACCOUNT]["ok"] >= answers, every_s=0.05)
    seen_utc = first_seen_utc(fake, ACCOUNT)
    running.interrupt()
    ended = sound(running.wait(), 0, 130)
    if seen_utc is None:
        raise RuntimeError("no call was made")
    return seen_utc - ended.began_utc, ended


def large(units: int = LARGE, answers: int = ENOUGH) -> Size:
    """A large job: ingested, run for a while, interrupted, `status`, resumed."""
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        folder = Path(name) / "job"
        prepare(folder, fake.url, units, FEW)
        first_call_s, ended = _first_call(fake, folder, answers, *RUN)
        status_s = median(sound(start(folder, "status").wait(), 0).wall_s for _ in range(3))
        resumed_s, again = _first_call(fake, folder, 1, "resume", "--quiet")
        database_mb = (folder / ".headway" / "headway.db").stat().st_size / 1e6
        peak_mb = max(ended.peak_mb, again.peak_mb)
        return Size(units, peak_mb, first_call_s, resumed_s, status_s, database_mb)


def small(units: int = SMALL) -> Size:
    """A small job, run to its end."""
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        folder = Path(name) / "job"
        prepare(folder, fake.url, units, FEW)
        first_call_s, ended = _first_call(fake, folder, 2 * units, *RUN)
        return Size(units, ended.peak_mb, first_call_s)


def start_up(times: int = 5) -> list[float]:
    """Seconds from the start of `headway run` of ten rows to its first call."""
    seconds = []
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        for turn in range(times):
            folder = Path(name) / str(turn)
            prepare(folder, fake.url, 10, FEW)
            seconds.append(_first_call(fake, folder, 11, *RUN)[0])
    return seconds


# -- verdicts -----------------------------------------------------------------------------------------------------


def cost_misses(few: Costs, many: Costs) -> list[str]:
    """The missed bars of CPU and throughput."""
    missed = []
    if few.cpu_ratio > CPU_BAR:
        missed.append(f"CPU per request: {few.cpu_ratio:.2f} × the bare loop's, the bar is {CPU_BAR:g}")
    if few.throughput_ratio < THROUGHPUT_BAR:
        missed.append(
            f"throughput: {few.throughput_ratio:.0%} of the bare loop's, the bar is {THROUGHPUT_BAR:.0%}"
        )
    growth = many.cpu_us("headway") / few.cpu_us("headway")
    if growth > IN_FLIGHT_BAR:
        bare = many.cpu_us("bare") / few.cpu_us("bare")
        missed.append(
            f"CPU per request at {many.in_flight:,} in flight: {growth:.2f} × that at {few.in_flight}, "
            f"the bar is {IN_FLIGHT_BAR:g} (the bare loop: {bare:.2f} ×)"
        )
    return missed


class Figure(msgspec.Struct, frozen=True):
    """One figure with its bar, as text."""

    what: str
    shown: str
    bar: str
    met: bool


def figures(small: Size, large: Size, start_up_s: float) -> list[Figure]:
    """The figures of a large job."""
    growth = large.peak_mb / small.peak_mb
    per_s = large.units / (large.first_call_s - start_up_s)
    shown = f"{growth:.2f} × ({large.peak_mb:.0f} MB, {small.peak_mb:.0f} MB)"
    return [
        Figure(f"memory against {small.units:,}", shown, f"≤ {MEMORY_BAR:g} ×", growth <= MEMORY_BAR),
        Figure(
            "rows per second, from the start to the first call",
            f"{per_s:,.0f}",
            f"≥ {INGEST_BAR:,.0f}",
            per_s >= INGEST_BAR,
        ),
        _seconds("resume to the first call", large.resumed_call_s, RESUME_BAR_S),
        _seconds("`headway status`", large.status_s, STATUS_BAR_S),
        _seconds("start-up: ten rows to the first call, the median of five", start_up_s, START_UP_BAR_S),
    ]


def _seconds(what: str, reached_s: float, bar_s: float) -> Figure:
    return Figure(what, f"{reached_s:.2f} s", f"≤ {bar_s:g} s", reached_s <= bar_s)


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


# -- overhead -----------------------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"## Overhead: {REQUESTS:,} small requests, no latency, durability included"
    yield ""
    yield f"Compared with a bare loop of the same HTTP client, in turns; bars: CPU ≤ {CPU_BAR:g} × (aim {CPU_AIM:g} ×), throughput"
    yield f"≥ {THROUGHPUT_BAR:.0%}, and {MANY:,} in flight ≤ {IN_FLIGHT_BAR:g} × the CPU of {FEW}."
    yield ""
    yield "| in flight | Headway, µs CPU per request | bare loop | CPU ÷ | Headway, requests/s | bare loop | throughput ÷ |"
    yield "|---|---|---|---|---|---|---|"
    print("overhead: CPU …", flush=True)
    few, many = costs()
    for one in (few, many):
        mine, bare = (median(cost.per_s for cost in costs) for costs in (one.headway, one.bare))
        yield (
            f"| {one.in_flight:,} | {one.cpu_us('headway'):.0f} | {one.cpu_us('bare'):.0f} | {one.cpu_ratio:.2f} "
            f"| {mine:,.0f} | {bare:,.0f} | {one.throughput_ratio:.2f} |"
        )
    missed += cost_misses(few, many)
    started, ingested, ran, ended = few.split
    yield ""
    yield (
        f"Of Headway's CPU at {few.in_flight} in flight: {started:.2f} s to create the job, {ingested:.2f} s to ingest it, "
        f"{ran:.2f} s to run it, {ended:.2f} s after it."
    )
    yield ""
    yield from _sizes(missed)


def _sizes(missed: list[str]) -> Iterator[str]:
    print("overhead: start-up …", flush=True)
    start_up_s = median(start_up())
    print(f"overhead: {SMALL:,} units …", flush=True)
    few = small()
    print(f"overhead: {LARGE:,} units …", flush=True)
    reached = figures(few, large(), start_up_s)
    yield f"### {LARGE:,} units"
    yield ""
    yield "| what | reached | bar |"
    yield "|---|---|---|"
    for figure in reached:
        yield f"| {figure.what} | {figure.shown} | {figure.bar} |"
        if not figure.met:
            missed.append(f"{figure.what}: {figure.shown}, the bar is {figure.bar}")
    yield ""
