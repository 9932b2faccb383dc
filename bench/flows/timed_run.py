"""`headway` with clocks around its pure parts: the CPU of the scheduler and of the growth of flows goes to a file at the end.

python -m bench.flows.timed_run FILE run flow.yaml …
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headway.core.scheduler import Scheduler
from headway.flows.running.growth import FlowGrowth


class Clock:
    """The CPU of a function in whatever thread calls it, and how often it was called."""

    def __init__(self, owner: type, name: str) -> None:
        self.cpu_s, self.calls = 0.0, 0
        self._call: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **named: Any) -> Any:
            """A function, so that it becomes a method of the owner."""
            return self._timed(*args, **named)

        setattr(owner, name, timed)

    def _timed(self, *args: Any, **named: Any) -> Any:
        began = time.thread_time()
        try:
            return self._call(*args, **named)
        finally:
            self.cpu_s += time.thread_time() - began
            self.calls += 1


def main() -> int:
    """Run the command."""
    from headway.cli import main as headway

    clocks = {"scheduler": Clock(Scheduler, "handle"), "growth": Clock(FlowGrowth, "__call__")}
    try:
        return headway(sys.argv[2:])
    finally:
        figures = {name: {"cpu_s": one.cpu_s, "calls": one.calls} for name, one in clocks.items()}
        Path(sys.argv[1]).write_bytes(msgspec.json.encode(figures))


if __name__ == "__main__":
    sys.exit(main())
