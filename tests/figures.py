"""Figures of a long suite (`make crash`, `make soak`), for bench/RESULTS.md.

A test counts what it did; `bench.suites` names a file in HEADWAY_FIGURES and adds up the lines of all test processes. Without
the variable nothing is written.
"""

from __future__ import annotations

import json
import os


def count(name: str, **figures: float) -> None:
    """Add figures under a name."""
    path = os.environ.get("HEADWAY_FIGURES")
    if path:
        line = json.dumps({"name": name, "figures": figures}) + "\n"
        with open(
            path, "a", encoding="utf-8"
        ) as file:  # One short write: lines of several processes do not mix.
            file.write(line)
