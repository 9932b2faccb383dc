"""Feeds damaged and random input to `headway.providers.understand`: the long form of tests/hints/test_hardiness.py.

python tools/fuzz_hints.py [--count 1000000] [--seed 0] [--jobs N]

Every input must give plausible facts without an exception. Exits with 1 at the first that does not, and
prints how to reproduce it: its seed, and its place in that seed's sequence. `make fuzz` also records the run in
bench/RESULTS.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from pathlib import Path
from random import Random
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Inputs of one seed. A run has many such blocks, so that a failure is quick to reproduce.
BLOCK = 20_000


def block(seed: int, count: int) -> tuple[int, float, str]:
    """Run `count` inputs of one seed. Returns how many were good, the slowest in seconds, and the failure."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # The inputs are damaged cases of the tests.
    from tests.hints.mutate import damaged
    from tests.hints.sane import check

    from headway.providers.limits.hints import understand

    rng = Random(seed)
    slowest_s = 0.0
    for done in range(count):
        seen, profile, now_utc = damaged(rng)
        began = time.process_time()
        try:
            check(understand(seen, profile, now_utc=now_utc))
        except Exception as error:  # Any exception is a failure.
            return (
                done,
                slowest_s,
                f"seed {seed}, input {done}, {profile.name}: {error!r}\n{seen!r}\nnow_utc={now_utc!r}",
            )
        slowest_s = max(slowest_s, time.process_time() - began)
    return count, slowest_s, ""


class FuzzRun(NamedTuple):
    """How many inputs were good, the slowest in seconds of CPU, the time of all, and the first failure."""

    inputs: int
    slowest_s: float
    took_s: float
    failure: str


def run(count: int, seed: int, jobs: int | None = None) -> FuzzRun:
    """Run the blocks of so many inputs, on all cores; stop at the first failure."""
    sizes = [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
    seeds = range(seed, seed + len(sizes))
    total, slowest_s, began = 0, 0.0, time.monotonic()
    with ProcessPoolExecutor(jobs or cpu_count() or 1) as pool:
        for done, slow_s, failure in pool.map(block, seeds, sizes):
            total += done
            slowest_s = max(slowest_s, slow_s)
            if failure:
                pool.shutdown(cancel_futures=True)
                return FuzzRun(total, slowest_s, time.monotonic() - began, failure)
    return FuzzRun(total, slowest_s, time.monotonic() - began, "")


def main(arguments: list[str]) -> int:
    """Run the blocks and print the count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=None)
    options = parser.parse_args(arguments)
    fuzz = run(options.count, options.seed, options.jobs)
    if fuzz.failure:
        sys.stdout.write(f"{fuzz.failure}\n")
        return 1
    sys.stdout.write(
        f"{fuzz.inputs:,} inputs, no exception, all plausible; slowest {1e3 * fuzz.slowest_s:.1f} ms; {fuzz.took_s:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
