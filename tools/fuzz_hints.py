"""Feeds damaged and random input to `headway.providers.understand` and counts: the long form of tests/hints/test_hardiness.py.

python tools/fuzz_hints.py [--count 1000000] [--seed 0] [--jobs N]

Every input must give facts that can be meant, without an exception. Ends with 1 at the first that does not, and
prints how to get it back: its seed, and its place in that seed's sequence.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from pathlib import Path
from random import Random

ROOT = Path(__file__).parents[1]
#: Inputs from one seed; a run is many such blocks, so that a failure is quick to reach again.
BLOCK = 20_000


def block(seed: int, count: int) -> tuple[int, float, str]:
    """Run `count` inputs of one seed: how many went well, the slowest in seconds, and what went wrong."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))  # The table of the tests is what gets damaged.
    from tests.hints.mutate import damaged
    from tests.hints.sane import check

    from headway.providers import understand

    chance = Random(seed)
    slowest_s = 0.0
    for done in range(count):
        seen, profile, now_utc = damaged(chance)
        began = time.process_time()
        try:
            check(understand(seen, profile, now_utc=now_utc))
        except Exception as error:  # Whatever it is, it is what we are looking for.
            return (
                done,
                slowest_s,
                f"seed {seed}, input {done}, {profile.name}: {error!r}\n{seen!r}\nnow_utc={now_utc!r}",
            )
        slowest_s = max(slowest_s, time.process_time() - began)
    return count, slowest_s, ""


def main(arguments: list[str]) -> int:
    """Run the blocks and print the count."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=cpu_count() or 1)
    asked = parser.parse_args(arguments)
    blocks = -(-asked.count // BLOCK)
    seeds = range(asked.seed, asked.seed + blocks)
    total, slowest_s, began = 0, 0.0, time.monotonic()
    with ProcessPoolExecutor(asked.jobs) as pool:
        for done, slow_s, wrong in pool.map(block, seeds, [BLOCK] * blocks):
            total += done
            slowest_s = max(slowest_s, slow_s)
            if wrong:
                sys.stdout.write(f"{wrong}\n")
                pool.shutdown(cancel_futures=True)
                return 1
    took_s = time.monotonic() - began
    sys.stdout.write(
        f"{total:,} inputs, no exception, no nonsense; slowest {1e3 * slowest_s:.1f} ms; {took_s:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
