"""A tree of 20,000 files, with the real command: how long planning takes, and how memory grows with the tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.overhead import sound, start
from bench.processes import Ended
from bench.reviews.trees import write_settings, write_tree
from headway.fake.process import FakeProcess, fake_process

FILES: Final = 20_000
FEW: Final = 200
PLAN_BAR_S: Final = 5.0
#: Of a run, for each file more: its record in the plan and in the job, and its state in progress.json, which is written as a whole.
MEMORY_BAR_KB: Final = 4.0
AXES: Final = 6
LONGEST_S: Final = 400.0


class Measured(msgspec.Struct, frozen=True):
    """One tree: `headway review --dry-run`, `--estimate` on six axes, and a review on one axis."""

    files: int
    plan_s: float
    plan_mb: float
    estimate_s: float
    estimate_mb: float
    run_s: float
    run_mb: float


def measure(files: int) -> Measured:
    """Plan, estimate and review a tree of so many files."""
    with TemporaryDirectory() as name, _fake(Path(name) / "fake.json") as fake:
        root = Path(name)
        write_tree(root, files)
        write_settings(root, fake.url)
        plan, estimate = _review(root, "--dry-run", "--json"), _review(root, "--estimate", "--json")
        if (planned := len(msgspec.json.decode(plan.out)["files"])) != files:
            raise RuntimeError(f"{planned} of {files} files were planned")
        ran = _review(root, "--axis", "tests", "--concurrency", "auto", "--quiet")
        answered = fake.stats()["total"]["ok"]
    if answered != files:
        raise RuntimeError(f"{answered} of {files} files were reviewed")
    return Measured(
        files, plan.wall_s, plan.peak_mb, estimate.wall_s, estimate.peak_mb, ran.wall_s, ran.peak_mb
    )


def _fake(config: Path) -> AbstractContextManager[FakeProcess]:
    """No limits, no latency, no findings."""
    config.write_bytes(msgspec.json.encode({"answers": [{"turns": [{"findings": []}]}]}))  # JSON is YAML.
    return fake_process("--headers", "none", "--config", str(config))


def _review(root: Path, *flags: str) -> Ended:
    return sound(start(root, "review", "src", *flags, longest_s=LONGEST_S).wait(), 0)


def growth_kb(few: Measured, many: Measured) -> float:
    """Memory of a run for each file more."""
    return 1024.0 * (many.run_mb - few.run_mb) / (many.files - few.files)


def misses(few: Measured, many: Measured) -> list[str]:
    """The missed bars."""
    missed = []
    if many.plan_s > PLAN_BAR_S:
        missed.append(
            f"reviews: {many.files:,} files are planned in {many.plan_s:.1f} s, the bar is {PLAN_BAR_S:g} s"
        )
    if growth_kb(few, many) > MEMORY_BAR_KB:
        missed.append(
            f"reviews: a run takes {growth_kb(few, many):.1f} kB for each file, the bar is {MEMORY_BAR_KB:g} kB"
        )
    return missed


def lines(missed: list[str]) -> Iterator[str]:
    """The part of the section."""
    print(f"reviews: {FILES:,} files …", flush=True)
    few, many = measure(FEW), measure(FILES)
    missed += misses(few, many)
    yield "### A large tree"
    yield ""
    yield f"`--dry-run`; `--estimate` on {AXES} axes; a review on one axis, answered at once. Bars: {FILES:,} files planned in {PLAN_BAR_S:g} s; a run takes at most {MEMORY_BAR_KB:g} kB"
    yield f"more for each file (measured: {growth_kb(few, many):.1f} kB)."
    yield ""
    yield "| files | `--dry-run` | `--estimate` | review |"
    yield "|---|---|---|---|"
    for one in (few, many):
        yield (
            f"| {one.files:,} | {one.plan_s:.1f} s, {one.plan_mb:.0f} MB | {one.estimate_s:.1f} s, {one.estimate_mb:.0f} MB "
            f"| {one.run_s:.1f} s, {one.run_mb:.0f} MB |"
        )
    yield ""
