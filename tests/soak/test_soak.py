"""A long mixed run: five lanes, a faulty provider, workers that die, agents with sessions and limits, an engine that is stopped and killed.

`make soak` takes half an hour, a test run eight seconds (HEADWAY_SOAK_S sets them). For half of the work one process runs
undisturbed, and must not use more memory, files or threads at its end than early on. Then it is stopped and killed
again and again, and so are its workers and agents. At the end every unit has its own answer, and no process is left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import HEADWAY, started, wait_for
from tests.figures import count

from headway.fake.process import FakeProcess, fake_process

SECONDS = float(os.environ.get("HEADWAY_SOAK_S", "8"))
#: Units per second of each lane, as its limit allows.
RATES = {"headers": 60, "silent": 30, "faulty": 30, "work": 30, "agents": 4}
#: Allowed growth over the early figures: growth that ends, such as pools that fill up.
MORE_MB = 12.0
MORE_FILES = 24
#: Connections follow the load: a slow moment of the machine opens more of them, which are kept for a while.
MORE_SOCKETS = 96
MORE_THREADS = 4
#: Workers and agents are killed this far apart: one unit must not be hit three times, which would quarantine it.
KILL_EVERY_S = min(2.0, SECONDS / 8.0)
AGENT = Path(__file__).with_name("scripted_agent.py")
AGENTS_AT_ONCE = 4
#: One in so many units of the workers' lane kills its worker at its first attempt.
DEADLY = 53

WORK = f"""
import os, pathlib

def work(payload):
    number = payload["n"]
    mark = pathlib.Path("died") / str(number)
    if number % {DEADLY} == 7 and not mark.exists():
        mark.touch()
        os._exit(3)
    return {{"echo": number}}
"""

FAULTS = (("5xx", 0.03), ("reset", 0.01), ("truncated", 0.01), ("html", 0.005), ("bad-headers", 0.03))


@dataclass(frozen=True)
class Usage:
    """Resources of a process."""

    memory_mb: float
    #: Open files without sockets.
    files: int
    sockets: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Its resources now."""
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        kinds = [_link(path) for path in Path(f"/proc/{pid}/fd").iterdir()]
        sockets = sum(kind.startswith("socket:") for kind in kinds)
        memory_mb = int(status["VmRSS"].split()[0]) / 1024.0
        return cls(memory_mb, len(kinds) - sockets, sockets, int(status["Threads"]))


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:  # It was closed meanwhile.
        return ""


class SoakFolder:
    """A directory with a job of five lanes."""

    def __init__(self, root: Path, fake: FakeProcess) -> None:
        self.root = root
        self.fake = fake
        #: Workers and agents that were killed.
        self.kills = 0
        self.units = {lane: int(rate * SECONDS) for lane, rate in RATES.items()}
        (root / "died").mkdir()
        (root / "sessions").mkdir()
        (root / "deeds.py").write_text(WORK, encoding="utf-8")
        (root / "headway.toml").write_text(self._config(), encoding="utf-8")
        (root / "in.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in self._rows()), encoding="utf-8"
        )

    def _config(self) -> str:
        providers = ""
        for lane in ("headers", "silent", "faulty"):
            providers += (
                f'[providers.{lane}]\nkind = "openai"\nbase_url = "{self.fake.url}/v1"\n'
                f'api_key_env = "KEY_{lane.upper()}"\n[providers.{lane}.retry]\nbase = "50ms"\ncap = "1s"\n'
            )
        return (
            "[run]\nmax_attempts = 9\n"
            + providers
            + (
                '[providers.work]\nkind = "python"\ntarget = "deeds:work"\nworkers = 2\nrecycle_after = 100\n'
                f'[providers.work.limits]\nrpm = {RATES["work"] * 60}\nburst = "1s"\n'
                f'[providers.agents]\nkind = "claude"\ncommand = ["{sys.executable}", "-I", "-S", "{AGENT}"]\n'
                f"workers = {AGENTS_AT_ONCE}\n[providers.agents.limits]\nrpm = {RATES['agents'] * 60}\n"
                '[providers.agents.retry]\nhold_margin = "0s"\nbase = "50ms"\n'
            )
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        for number in range(max(self.units.values())):
            for lane, units in self.units.items():
                if number < units:
                    request: dict[str, Any] = {"prompt": f"say {lane} {number}"}
                    if lane == "work":
                        request = {"payload": {"n": number}}
                    yield {"id": f"{lane}-{number}", "model": f"{lane}/m", **request}

    @contextmanager
    def process(self) -> Iterator[subprocess.Popen[str]]:
        """Run `headway run`; its stderr goes to a file."""
        keys = {f"KEY_{lane.upper()}": lane for lane in RATES}
        env = {
            **os.environ,
            **keys,
            "PYTHONWARNINGS": "error",
            "SOAK_STRIKE_EVERY": "37" if SECONDS > 60 else "11",
        }
        with (self.root / "stderr.log").open("ab") as log:
            options = {"cwd": self.root, "env": env, "stdout": subprocess.DEVNULL, "stderr": log}
            with started(
                *HEADWAY, "run", "in.jsonl", "--shared-directory", "--progress", "plain", **options
            ) as process:
                yield process

    def done(self) -> int:
        """How many units have succeeded, by the store."""
        try:
            db = sqlite3.connect(f"file:{self.root}/.headway/headway.db?mode=ro", uri=True)
            try:
                return int(db.execute("SELECT coalesce(sum(succeeded), 0) FROM jobs").fetchone()[0])
            finally:
                db.close()
        except sqlite3.OperationalError:  # There are no tables yet.
            return 0

    def lines(self, name: str) -> int:
        """How many lines the agents have written into a file."""
        path = self.root / name
        return path.stat().st_size if path.exists() else 0

    def victims(self, engine: int) -> list[int]:
        """Workers, agents and what they started: every process of the run but the engine and its guardian."""
        return [
            pid for pid in self.workers() if pid != engine and b"headway-guardian" not in _command_line(pid)
        ]

    def workers(self) -> list[int]:
        """The processes with this working directory."""
        pids = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if os.readlink(entry / "cwd") == str(self.root):
                        pids.append(int(entry.name))
                except OSError:
                    continue
        return pids

    def wrong(self) -> dict[str, Any]:
        """Wrong, missing and double rows of the output; empty if there are none."""
        rows = [json.loads(line) for line in (self.root / "in.results.jsonl").read_text().splitlines()]
        counts = Counter(row["custom_id"] for row in rows)
        wrong = {row["custom_id"]: row for row in rows if not _correct(row)}
        missing = {row["id"]: "missing" for row in self._rows() if row["id"] not in counts}
        double = {name: count for name, count in counts.items() if count > 1}
        return {**wrong, **missing, **double}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _correct(row: dict[str, Any]) -> bool:
    """Whether a unit succeeded with its own answer."""
    lane, _, number = row["custom_id"].rpartition("-")
    body = row["response"]["body"] if row["response"] else None
    if row["headway"]["status"] != "succeeded" or body is None:
        return False
    if lane == "work":
        return bool(body == {"echo": int(number)})
    if lane == "agents":
        return bool(body["content"][0]["text"] == f"did say {lane} {number}")
    return bool(body["choices"][0]["message"]["content"] == f"echo: say {lane} {number}")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[SoakFolder]:
    """Three accounts: one with headers, one without, one with all kinds of transient faults."""
    latency = {"min": 0.02, "max": 0.2}
    accounts: dict[str, Any] = {
        lane: {"rpm": RATES[lane] * 60, "burst": 1, "latency": latency}
        for lane in ("headers", "silent", "faulty")
    }
    accounts["silent"]["headers"] = "none"
    accounts["faulty"]["faults"] = [{"kind": kind, "chance": chance} for kind, chance in FAULTS]
    fake_config = tmp_path / "fake.json"
    fake_config.write_text(json.dumps({"strict": True, "accounts": accounts}), encoding="utf-8")
    root = tmp_path / "run"
    root.mkdir()
    with fake_process("--config", str(fake_config)) as fake:
        yield SoakFolder(root, fake)


def work_undisturbed(folder: SoakFolder) -> tuple[Usage, Usage]:
    """Run one process for half of the work, then SIGTERM; returns its resources early on and at the end."""
    total = sum(folder.units.values())
    with folder.process() as process:
        patience_s = 60.0 + 2.0 * SECONDS

        def reached(share: float) -> Usage:
            def enough() -> bool:
                assert process.poll() is None, (folder.root / "stderr.log").read_text()[-2000:]
                return folder.done() >= share * total

            wait_for(f"{share:.0%} of the units", enough, patience_s)
            return Usage.of(process.pid)

        early, late = reached(0.15), reached(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130, (folder.root / "stderr.log").read_text()[-2000:]
    return early, late


def await_progress(folder: SoakFolder, process: subprocess.Popen[str]) -> None:
    """Wait until a unit has succeeded or the process has ended. Without it a slow machine would make no progress."""
    before = folder.done()
    wait_for("progress", lambda: process.poll() is not None or folder.done() > before, 60.0)


def kill_workers(
    folder: SoakFolder, process: subprocess.Popen[str], rng: random.Random, seconds: float
) -> bool:
    """Kill a worker or an agent now and then, for so long; returns whether the process has ended meanwhile."""
    until = time.monotonic() + seconds
    while True:
        pause_s = rng.uniform(0.2, 2.0 * KILL_EVERY_S)
        try:
            process.wait(min(max(0.01, until - time.monotonic()), pause_s))
            return True
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                return False
        if victims := folder.victims(process.pid):
            with suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
            folder.kills += 1


def kill_until_done(folder: SoakFolder, rng: random.Random) -> int:
    """Do the rest in processes that are stopped or killed after a while; returns how many there were."""
    ended = 0
    give_up_at = time.monotonic() + 120.0 + 4.0 * SECONDS
    while True:
        assert time.monotonic() < give_up_at, (
            f"{folder.done()} of {sum(folder.units.values())} after {ended} processes"
        )
        with folder.process() as process:
            await_progress(folder, process)
            if not kill_workers(folder, process, rng, rng.uniform(0.1, 1.5 + SECONDS / 20.0)):
                process.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
            code = process.wait(60)
        ended += 1
        if code == 0:
            return ended
        # SIGTERM during the exit simply ends the process.
        assert code in (-signal.SIGKILL, -signal.SIGTERM, 130), (folder.root / "stderr.log").read_text()[
            -2000:
        ]


def _count(folder: SoakFolder, early: Usage, late: Usage, processes: int, wrong: int) -> None:
    """The figures for bench/RESULTS.md."""
    used = {
        f"{when}_{name}": value
        for when, usage in (("early", early), ("late", late))
        for name, value in asdict(usage).items()
    }
    deaths = len(list((folder.root / "died").iterdir()))
    agents = {f"agent_{name}": folder.lines(name) for name in ("runs", "strikes", "refused", "resumed")}
    count(
        "soak",
        units=sum(folder.units.values()),
        processes=processes,
        deaths=deaths,
        kills=folder.kills,
        wrong=wrong,
        **agents,
        **used,
    )


@pytest.mark.timeout(300 + 8 * SECONDS)
def test_nothing_grows_and_nothing_is_lost(folder: SoakFolder) -> None:
    early, late = work_undisturbed(folder)
    processes = kill_until_done(folder, random.Random(4))
    wrong = folder.wrong()
    _count(folder, early, late, processes, len(wrong))
    agents = {name: folder.lines(name) for name in ("runs", "strikes", "refused", "resumed")}
    print(f"{sum(folder.units.values())} units, {early} → {late}, {processes} more processes, ", end="")  # noqa: T201
    print(f"{folder.kills} kills, agents: {agents}")  # noqa: T201
    assert late.memory_mb <= early.memory_mb * 1.1 + MORE_MB
    assert late.files <= early.files + MORE_FILES
    assert late.sockets <= early.sockets + MORE_SOCKETS
    assert late.threads <= early.threads + MORE_THREADS
    assert wrong == {}
    assert len(list((folder.root / "died").iterdir())) == len(range(7, folder.units["work"], DEADLY))
    assert folder.lines("strikes") > 0
    # At a strike those that run at that moment are refused, and after the death of an engine those that the next one starts.
    assert folder.lines("refused") <= AGENTS_AT_ONCE * (folder.lines("strikes") + processes)
    wait_for("the end of every process", lambda: not folder.workers(), 5.0)
