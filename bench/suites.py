"""Runs a long suite (`make crash`, `make soak`, `make fuzz`) and writes its figures to bench/RESULTS.md, as a section of its own.

The tests judge; here is only counted what they did. A suite with a failed test is recorded as missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.etree import ElementTree

import msgspec
from tools import fuzz_hints

from bench import results

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "bench" / "RESULTS.md"

#: The database of the tests: tests/conftest.py. Its figures are a section of their own.
STORE: Final = os.environ.get("HEADWAY_TEST_STORE", "")

Figures = Mapping[str, Mapping[str, float]]


class SuiteRun(msgspec.Struct, frozen=True):
    """A run of pytest: its tests, its time, and what the tests counted, added up by name."""

    tests: int
    failed: list[str]
    skipped: int
    took_s: float
    figures: dict[str, dict[str, float]]


class _Counted(msgspec.Struct):
    name: str
    figures: dict[str, float]


def run_pytest(arguments: Sequence[str], environ: Mapping[str, str] | None = None) -> SuiteRun:
    """Run pytest in a process of its own; what it prints is shown as usual."""
    with TemporaryDirectory() as name:
        counted, report = Path(name) / "figures.jsonl", Path(name) / "junit.xml"
        command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments]
        began = time.monotonic()
        env = {**os.environ, **(environ or {}), "HEADWAY_FIGURES": str(counted)}
        subprocess.run(command, cwd=ROOT, env=env, check=False)
        took_s = time.monotonic() - began
        if not report.exists():
            raise RuntimeError("pytest left no report: see its output above")
        return _read(report, counted, took_s)


def _read(report: Path, counted: Path, took_s: float) -> SuiteRun:
    cases = ElementTree.parse(report).getroot().findall(".//testcase")
    failed = [
        f"{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    sums: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    lines = counted.read_bytes().splitlines() if counted.exists() else []
    for line in map(msgspec.json.Decoder(_Counted).decode, lines):
        for what, value in line.figures.items():
            sums[line.name][what] += value
    return SuiteRun(
        len(cases), failed, skipped, took_s, {name: dict(values) for name, values in sums.items()}
    )


def misses(name: str, run: SuiteRun) -> list[str]:
    """Failed tests; and a suite that counted nothing has not run."""
    missed = [f"make {name}: {test} failed" for test in run.failed]
    return missed if run.figures else [*missed, f"make {name}: no figures were counted"]


def tests_line(run: SuiteRun) -> str:
    """How the suite ended."""
    skipped = f", {run.skipped} skipped" if run.skipped else ""
    return f"{run.tests} tests in {run.took_s:,.0f} s: {len(run.failed)} failed{skipped}."


def crash_lines(run: SuiteRun) -> Iterator[str]:
    """The section `crash`, or `crash-postgres`."""
    over = " over PostgreSQL: `make crash STORE=postgres`" if STORE == "postgres" else ": `make crash`"
    yield f"## The crash suite{over}"
    yield ""
    yield "After each kill the job is resumed. At the end nothing may be lost, nothing double, and no recorded answer sent again, by the counts of the"
    yield "provider."
    yield ""
    yield "| what | times | units |"
    yield "|---|---|---|"
    random, chosen = run.figures.get("random kills", {}), run.figures.get("chosen kills", {})
    yield f"| SIGKILL at a random moment, in {random.get('jobs', 0):,.0f} jobs | {random.get('kills', 0):,.0f} | {random.get('units', 0):,.0f} |"
    yield f"| SIGKILL at a chosen statement | {chosen.get('kills', 0):,.0f} | |"
    races, agents = run.figures.get("races", {}), run.figures.get("real agents", {})
    worktrees = run.figures.get("worktrees", {})
    yield f"| two processes at the same moment | {races.get('races', 0):,.0f} | {races.get('units', 0):,.0f} |"
    yield f"| agents in worktrees of one repository: SIGKILL of an agent or of the engine | {worktrees.get('kills', 0):,.0f} | {worktrees.get('units', 0):,.0f} |"
    if outages := run.figures.get("postgres outages", {}):
        yield f"| the server restarted or killed under load | {outages.get('outages', 0):,.0f} | {outages.get('units', 0):,.0f} |"
    yield f"| real Claude Code, {agents.get('agents', 0):,.0f} at once: refused by one used-up window | {agents.get('refused', 0):,.0f} | {agents.get('units', 0):,.0f} |"
    yield ""
    yield tests_line(run)
    yield ""


def soak_lines(run: SuiteRun) -> Iterator[str]:
    """The section `soak`."""
    yield "## The soak: `make soak`"
    yield ""
    yield "Five lanes: a faulty provider, workers that die, agents with sessions and a subscription's limit. One process runs undisturbed for half of the work; then"
    yield "it is stopped and killed, and so are its workers and agents, until all is done. Nothing may be lost, wrong or double, no process may be left, and nothing"
    yield "may grow."
    yield ""
    soak = run.figures.get("soak", {})
    yield (
        f"{soak.get('units', 0):,.0f} units: {soak.get('wrong', 0):,.0f} lost, wrong or double; {soak.get('processes', 0):,.0f} processes stopped or killed; "
        f"{soak.get('deaths', 0):,.0f} deaths of workers; {soak.get('kills', 0):,.0f} workers and agents killed. Agents: {soak.get('agent_runs', 0):,.0f} runs, "
        f"{soak.get('agent_strikes', 0):,.0f} limits, {soak.get('agent_refused', 0):,.0f} runs refused, {soak.get('agent_resumed', 0):,.0f} sessions resumed."
    )
    yield ""
    yield "| of one process | early | late |"
    yield "|---|---|---|"
    for what, shown in (
        ("memory_mb", "MB"),
        ("files", "open files"),
        ("sockets", "connections"),
        ("threads", "threads"),
    ):
        yield f"| {shown} | {soak.get(f'early_{what}', 0):,.0f} | {soak.get(f'late_{what}', 0):,.0f} |"
    yield ""
    yield tests_line(run)
    yield ""


def fuzz_lines(run: fuzz_hints.FuzzRun, seed: int) -> Iterator[str]:
    """The section `fuzz`."""
    yield "## Damaged and random answers of providers: `make fuzz`"
    yield ""
    verdict = (
        "no exception, and every fact is plausible" if not run.failure else "one of them failed, see below"
    )
    yield (
        f"{run.inputs:,} inputs from seed {seed}: {verdict}. The slowest took {1e3 * run.slowest_s:.1f} ms of CPU; {run.took_s:,.0f} s in all."
    )
    yield ""


def _record(name: str, lines: Iterator[str], missed: list[str]) -> int:
    results.record(ROOT, RESULTS, {name: (list(lines), missed)})
    print(f"wrote the section '{name}' of {RESULTS.relative_to(ROOT)}")
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


SUITES: Final[dict[str, tuple[tuple[str, ...], Callable[[SuiteRun], Iterator[str]]]]] = {
    "crash": (("tests/crash", "tests/agents_real"), crash_lines),
    "soak": (("tests/soak",), soak_lines),
}


#: Tests that only a suite over this database has.
OF_STORE: Final[dict[str, tuple[str, ...]]] = {"postgres": ("tests/postgres/test_outages.py",)}


def main(arguments: list[str]) -> int:
    """`python -m bench.suites crash|soak [PYTEST FLAGS]` or `fuzz COUNT SEED`."""
    name, *flags = arguments
    if name == "fuzz":
        count, seed = (int(flag) for flag in flags)
        fuzz = fuzz_hints.run(count, seed)
        print(fuzz.failure, end="\n" if fuzz.failure else "")
        missed = [f"make fuzz: {fuzz.failure.splitlines()[0]}"] if fuzz.failure else []
        return _record(name, fuzz_lines(fuzz, seed), missed)
    folders, lines = SUITES[name]
    suite = run_pytest([*flags, *folders, *OF_STORE.get(STORE, ())])
    section, command = (f"{name}-{STORE}", f"{name} STORE={STORE}") if STORE else (name, name)
    return _record(section, lines(suite), misses(command, suite))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
