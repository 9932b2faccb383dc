"""CPU per request and start-up of `headway run`, beside the source of an earlier commit.

Both run in turns, in processes of their own, against one fake, with the same interpreter and the same libraries. The CPU
of a job with one request is subtracted from that of a job with many, so that start-up does not count twice.

    python -m bench.against [COMMIT]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.overhead import ACCOUNT, FEW, LONGEST_S, RUN, prepare, sound, unlimited_fake
from bench.processes import HEADWAY, ROOT, Ended, Watched, first_seen_utc
from headway.fake.process import FakeProcess

#: The commit before the code was restructured (issue 14): nothing may cost more than it did then.
COMMIT: Final = "b40cd84"
REQUESTS: Final = 6_000
TURNS: Final = int(os.environ.get("HEADWAY_BENCH_TURNS", "7"))
BAR: Final = 1.0


class Turn(msgspec.Struct, frozen=True):
    """One turn of one source: CPU per request, CPU of a job with one request, and seconds until its request arrives."""

    request_us: float
    start_cpu_s: float
    start_s: float


class Side(msgspec.Struct, frozen=True):
    """All turns of one source."""

    name: str
    source: Path
    turns: list[Turn]

    def median(self, what: str) -> float:
        """The median of one figure."""
        return float(median(getattr(turn, what) for turn in self.turns))


def unpack(commit: str, folder: Path) -> Path:
    """Write the source of a commit into a folder. Returns the path to import it from."""
    archive = ["git", "archive", "--format=tar", commit, "src"]
    packed = subprocess.run(archive, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as file:
        file.extractall(folder, filter="data")
    return folder / "src"


def _run(fake: FakeProcess, source: Path, folder: Path, requests: int) -> tuple[Ended, float]:
    """A job from its start to its exit, and the seconds until its first request."""
    prepare(folder, fake.url, requests, FEW)
    fake.reset()
    keys = {"KEY_X": "some-key-that-is-not-short"}
    ended = sound(Watched([*HEADWAY, *RUN], folder, LONGEST_S, keys, source=source).wait(), 0)
    stats = fake.stats()["accounts"][ACCOUNT]
    first_utc = first_seen_utc(fake, ACCOUNT)
    if stats["ok"] != requests or stats["repeats"] or first_utc is None:
        raise RuntimeError(f"{stats['ok']} of {requests} answered, {stats['repeats']} repeated")
    return ended, first_utc - ended.began_utc


def _turn(fake: FakeProcess, source: Path, folder: Path, requests: int) -> Turn:
    one, start_s = _run(fake, source, folder.with_suffix(".one"), 1)
    many, _ = _run(fake, source, folder.with_suffix(".many"), requests)
    return Turn((many.cpu_s - one.cpu_s) / (requests - 1) * 1e6, one.cpu_s, start_s)


def in_turns(commit: str = COMMIT, requests: int = REQUESTS, turns: int = TURNS) -> tuple[Side, Side]:
    """The earlier commit and the present source. Who goes first alternates."""
    with TemporaryDirectory() as name, unlimited_fake() as fake:
        folder = Path(name)
        before = Side(commit, unpack(commit, folder / "before"), [])
        now = Side("now", ROOT / "src", [])
        for side in (before, now):  # Compiles the modules, unmeasured.
            _turn(fake, side.source, folder / f"{side.name}-first", 100)
        for turn in range(turns):
            for side in (before, now) if turn % 2 else (now, before):
                side.turns.append(_turn(fake, side.source, folder / f"{side.name}-{turn}", requests))
    return before, now


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------

_FIGURES: Final = (
    ("request_us", "CPU per request", "{:.0f} µs"),
    ("start_cpu_s", "CPU of a job with one request", "{:.2f} s"),
    ("start_s", "start-up: one request, to its arrival", "{:.2f} s"),
)


def table(before: Side, now: Side, missed: list[str]) -> Iterator[str]:
    """The figures of both; what is worse than before is missed."""
    yield f"| | {before.name} | {now.name} | ratio | bar |"
    yield "|---|---|---|---|---|"
    for field, what, shown in _FIGURES:
        old, new = before.median(field), now.median(field)
        ratio = new / old
        cells = f"{shown.format(old)} | {shown.format(new)} | {ratio:.2f} ×"
        yield f"| {what} | {cells} | ≤ {BAR:g} × |"
        if round(ratio, 2) > BAR:
            missed.append(f"{what}: {ratio:.2f} × that of {before.name}")


def section(missed: list[str], commit: str = COMMIT) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print(f"against: {commit} …", flush=True)
    before, now = in_turns(commit)
    yield f"## `headway run` beside an earlier commit ({commit}, before the code was restructured)"
    yield ""
    yield (
        f"{REQUESTS:,} small requests, {FEW} in flight, no limits, no latency; a job with one request is subtracted. In turns; "
        f"the medians of {len(now.turns)}. CPU of all threads of the process."
    )
    yield ""
    yield from table(before, now, missed)
    yield ""


if __name__ == "__main__":
    _missed: list[str] = []
    for _line in section(_missed, *sys.argv[1:2]):
        print(_line)
    sys.exit(1 if _missed else 0)
