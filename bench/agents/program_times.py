"""The time of many short programs: bare, under `headway run`, and in `headway.map`. Each way runs in its own process, in turns."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

import headway
from bench.agents.bare_programs import PROGRAM, PROMPT
from bench.processes import HEADWAY, run

#: Ways without Headway, and with it.
BARE: Final = ("plain", "pipes")
WAYS: Final = ("headway run", "headway.map", "headway.map with a store")
_LONGEST_S: Final = 300.0
_HERE: Final = Path(__file__).parent


class ProgramTime(msgspec.Struct, frozen=True):
    """One way: microseconds per program, and how many times those of the bare ways in the same turn."""

    us: float
    beside_plain: float = 1.0
    beside_pipes: float = 1.0


def in_turns(programs: int, at_once: int, turns: int) -> dict[str, ProgramTime]:
    """The medians of each way. Ratios are made within a turn, because the speed of the machine varies."""
    rounds = [{way: _seconds(way, programs, at_once) for way in (*BARE, *WAYS)} for _ in range(turns)]
    return {
        way: ProgramTime(
            median(one[way] for one in rounds) / programs * 1e6,
            median(one[way] / one["plain"] for one in rounds),
            median(one[way] / one["pipes"] for one in rounds),
        )
        for way in (*BARE, *WAYS)
    }


def _seconds(way: str, programs: int, at_once: int) -> float:
    with TemporaryDirectory() as name:
        folder = Path(name)
        if way == "headway run":
            return _job(folder, programs, at_once)
        script = [str(_HERE / "bare_programs.py")] if way in BARE else ["-m", "bench.agents.program_times"]
        command = [sys.executable, *script, str(programs), str(at_once), way]
        ended = run(command, folder, _LONGEST_S)
        if ended.code:
            raise RuntimeError(f"{way}: {ended.errors.decode()[-2000:]}")
        return float(ended.out)


def _job(folder: Path, programs: int, at_once: int) -> float:
    """`headway run`: from the start of the first program to the end of the last, by its records."""
    (folder / "headway.toml").write_text(
        f'[providers.x]\nkind = "command"\ncommand = ["{PROGRAM}"]\nworkers = {at_once}\npreflight = "none"\n',
        encoding="utf-8",
    )
    rows = (json.dumps({"id": f"u{number}", "prompt": PROMPT.decode()}) + "\n" for number in range(programs))
    (folder / "in.jsonl").write_text("".join(rows), encoding="utf-8")
    ended = run([*HEADWAY, "run", "in.jsonl", "--out", "out.jsonl", "--quiet"], folder, _LONGEST_S)
    written = len((folder / "out.jsonl").read_text(encoding="utf-8").splitlines())
    with closing(sqlite3.connect(folder / ".headway" / "headway.db")) as db:
        times = (
            "SELECT min(started_utc), max(finished_utc), count(*) FROM attempts WHERE outcome = 'succeeded'"
        )
        first, last, count = db.execute(times).fetchone()
    if ended.code or not written == count == programs:
        raise RuntimeError(f"{count} of {programs} programs, exit code {ended.code}: {ended.errors.decode()}")
    return float(last - first)


def _map(programs: int, at_once: int, *, with_store: bool) -> float:
    """`headway.map` in this process."""
    worker = headway.AgentWorker("command", command=[PROGRAM])
    headway.map(worker, ["x"])  # Lazy imports are not measured.
    prompts = [f"{PROMPT.decode()} {number}" for number in range(programs)]
    limits = headway.Limits(rpm=0, max_concurrency=at_once)
    began = time.perf_counter()
    if with_store:
        results = headway.map(worker, prompts, limits=limits, db="map.db", key=str, name="programs")
    else:
        results = headway.map(worker, prompts, limits=limits)
    took_s = time.perf_counter() - began
    if results != [""] * programs:
        raise RuntimeError("wrong results")
    return took_s


if __name__ == "__main__":
    print(_map(int(sys.argv[1]), int(sys.argv[2]), with_store=sys.argv[3] == WAYS[2]))
