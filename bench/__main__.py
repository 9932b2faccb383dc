"""`make bench`: measures everything that has a bar and writes bench/RESULTS.md. Exits 1 if a bar is missed.

`python -m bench SECTION` (or `make bench SECTION=…`) measures one section and replaces it in that file.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench import (
    against,
    asking,
    calls,
    cold_start,
    lanes,
    million,
    order,
    overhead,
    real_section,
    results,
    sdk,
    short,
    speed,
    workers,
)
from bench.agents import section as agents
from bench.evals import section as evals
from bench.first_minute import section as first_minute
from bench.flows import section as flows
from bench.machines import section as machines
from bench.planning import section as planning
from bench.postgres import section as postgres
from bench.reviews import section as reviews
from bench.scale import section as scale
from bench.servers import section as servers
from bench.sweep import section as sweep
from bench.watching import section as watching

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "bench" / "RESULTS.md"


def main(wanted: list[str]) -> int:
    """Measure, write the results, print the missed bars."""
    began = time.monotonic()
    unknown = [name for name in wanted if name not in SECTIONS]
    if unknown:
        print(f"unknown section '{unknown[0]}'; one of {', '.join(SECTIONS)}")
        return 2
    missed: list[str] = []
    # Real time is measured first, while the machine is idle. Virtual time does not depend on the machine.
    for name in wanted or list(reversed(SECTIONS)):
        missed += measure(name)
    print(f"wrote {RESULTS} in {time.monotonic() - began:.0f} s")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


def measure(name: str) -> list[str]:
    """Measure a section and write it at once: a run that is interrupted keeps what it has. Returns the missed bars."""
    missed: list[str] = []
    began = time.monotonic()
    try:
        lines = list(SECTIONS[name](missed))
    except Exception as error:  # The other sections are still measured; this one stays as it was.
        traceback.print_exc()
        return [*missed, f"{name}: not measured: {error!r}"]
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    results.record(ROOT, RESULTS, {name: (lines, missed)})
    return missed


SECTIONS: Final[dict[str, Callable[[list[str]], Iterator[str]]]] = {
    "lanes": lanes.section,
    "short": short.section,
    "sweep": sweep.section,
    "speed": speed.section,
    "real": real_section.section,
    "first": first_minute.section,
    "cold-start": cold_start.section,
    "servers": servers.section,
    "order": order.section,
    "sdk": sdk.section,
    "overhead": overhead.section,
    "against": against.section,
    "million": million.section,
    "postgres": postgres.section,
    "scale": scale.section,
    "machines": machines.section,
    "plan": planning.section,
    "workers": workers.section,
    "agents": agents.section,
    "flows": flows.section,
    "evals": evals.section,
    "reviews": reviews.section,
    "calls": calls.section,
    "ask": asking.section,
    "watching": watching.section,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
