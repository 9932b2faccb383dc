"""Steps per second that do nothing and are durable, on one core: Headway's flow, DBOS, and a bare loop with a commit a step.

All of them run on core 0 (`taskset -c 0`), on the same disk, with `synchronous = FULL`, in turns. Headway's steps are functions in a worker process
and carry retries, limits and the order of a graph; those of DBOS and of the bare loop are functions of the same process.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from bench.flows import graphs
from bench.overhead import sound
from bench.processes import HEADWAY, ROOT, Ended, Watched
from bench.servers.installed import NAMESPACE, namespaces

STEPS: Final = 2_000
TURNS: Final = 3
LONGEST_S: Final = 600.0
ONE_CORE: Final = ("taskset", "-c", "0")
#: The Python of DBOS: `make dbos` installs it.
DBOS: Final = ROOT / ".cache" / "dbos" / "bin" / "python"
_FOLDER: Final = Path(__file__).parent
#: Runs in an empty folder, and returns steps per second by what was measured.
Program = Callable[[Path], dict[str, float]]


class Pace(msgspec.Struct, frozen=True):
    """The steps per second of one program, in each turn."""

    name: str
    turns: list[float]

    @property
    def per_s(self) -> float:
        """The median."""
        return median(self.turns)


def missing_dbos() -> str:
    """Why DBOS cannot be measured; empty if it can."""
    if not DBOS.exists():
        return "DBOS is not installed: make dbos"
    return "" if namespaces() else "no network namespaces here: DBOS must not reach the network"


def programs(steps: int) -> dict[str, Program]:
    """The programs by name."""

    def bare(folder: Path) -> dict[str, float]:
        ended = _run([sys.executable, str(_FOLDER / "bare_steps.py"), "steps.sqlite", str(steps)], folder)
        return {"": float(ended.out)}

    def dbos(journal: str) -> Program:
        def measured(folder: Path) -> dict[str, float]:
            script = [
                str(DBOS),
                str(_FOLDER / "dbos_steps.py"),
                str(folder / "dbos.sqlite"),
                journal,
                str(steps),
            ]
            found = msgspec.json.decode(_run([*NAMESPACE, *script], folder).out.splitlines()[-1])
            if found["recorded"] < 2 * steps:
                raise RuntimeError(f"DBOS has recorded {found['recorded']} of {2 * steps} steps")
            return {", a chain": found["chain"], ", 100 at a time": found["fan_out"]}

        return measured

    found: dict[str, Program] = {
        "Headway": lambda folder: headway(folder, steps),
        "`asyncio` and one commit a step": bare,
    }
    if not missing_dbos():
        found["DBOS on SQLite, as it comes"] = dbos("delete")
        found["DBOS on SQLite with a write-ahead log"] = dbos("wal")
    return found


def _run(command: list[str], folder: Path) -> Ended:
    return sound(Watched([*ONE_CORE, *command], folder, LONGEST_S).wait(), 0)


def headway(folder: Path, steps: int) -> dict[str, float]:
    """A chain of nodes, and a `for_each`, between the first start and the last end of a unit."""
    graphs.chain(folder / "chain", steps)
    graphs.fan_out(folder / "fan-out", steps)
    paces = {}
    for name, shown in (("chain", ", a chain"), ("fan-out", ", a for_each (concurrency: auto)")):
        place = folder / name
        _run([*HEADWAY, "run", "flow.yaml", "--quiet"], place)
        with sqlite3.connect(place / ".headway" / "headway.db") as database:
            first, last, count = database.execute(
                "SELECT min(started_utc), max(finished_utc), count(*) FROM units WHERE status = 'succeeded'"
            ).fetchone()
        if count != steps:
            raise RuntimeError(f"{count} of {steps} steps have succeeded")
        paces[shown] = steps / (last - first)
    return paces


def measure(steps: int = STEPS, turns: int = TURNS) -> list[Pace]:
    """Every program in turns."""
    paces: dict[str, list[float]] = {}
    with TemporaryDirectory() as name:
        for turn in range(turns):
            for number, (program, measured) in enumerate(programs(steps).items()):
                folder = Path(name) / f"{turn}-{number}"
                folder.mkdir()
                for what, pace in measured(folder).items():
                    paces.setdefault(program + what, []).append(pace)
    return [Pace(name, turns) for name, turns in paces.items()]


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    print(f"flows: {STEPS:,} durable steps, {TURNS} turns …", flush=True)
    paces = measure()
    yield "### Durable steps per second on one core"
    yield ""
    yield f"{STEPS:,} steps that do nothing, all processes on core 0 of {os.cpu_count()} (`taskset -c 0`), synced commits (`synchronous = FULL`), in turns. A step of Headway"
    yield "runs in a worker process; a step of DBOS or of the bare loop is a call in its own process. No bar."
    yield ""
    yield "| what | steps per second: median | turns |"
    yield "|---|---|---|"
    for pace in paces:
        yield f"| {pace.name} | {pace.per_s:,.0f} | {', '.join(f'{one:,.0f}' for one in pace.turns)} |"
    if why := missing_dbos():
        yield f"| DBOS | not measured: {why} | |"
        missed.append(f"durable steps: DBOS was not measured: {why}")
    yield ""
