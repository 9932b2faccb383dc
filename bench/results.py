"""Reads and writes bench/RESULTS.md. Each section is one run, with its day, its commit, its machine and its missed bars.

A section whose commit differs from the present code in what it measures is marked as older than that code.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

import headway

HEADING: Final = """# What Headway reaches

Written by `make bench` (and `make crash`, `make soak`, `make fuzz`); do not edit. Lanes are measured in virtual time against their theoretical bound
(docs/reference/scenarios.md), so those figures are the same on every machine. Figures in real time and
the speed of the scheduler are not. Each section is one run of the commit that it names.
"""
_MARK: Final = re.compile(r"^<!-- section ([\w-]+) (\S+)(?: (\S+))? -->\n", re.MULTILINE)
_MACHINE: Final = "Measured on "
_MISSED: Final = "- missed: "
#: The order of the sections; others come last.
ORDER: Final = (
    "lanes", "short", "sweep", "speed", "real", "first", "cold-start", "servers", "against", "order", "sdk", "overhead", "million", "postgres",
    "machines", "scale", "ray", "plan", "workers", "agents", "flows", "evals", "reviews", "calls", "ask", "watching", "crash", "crash-postgres",
    "soak", "fuzz",
)  # fmt: skip
#: What a measurement depends on, besides the machine. The results themselves lie in the same folder.
_MEASURED: Final = ("src", "bench", "scenarios", ":!bench/RESULTS.md")
_VIRTUAL: Final = ("src/headway/core", "src/headway/sim", "scenarios")
#: What only one section measures, or none: no other run loads it.
_OF_ONE: Final[dict[str, tuple[str, ...]]] = {
    "agents": ("bench/agents",),
    "evals": ("src/headway/evals", "src/headway/cli/evals", "bench/evals"),
    "flows": ("src/headway/flows", "src/headway/cli/flows", "src/headway/display/flows", "bench/flows"),
    "plan": ("bench/planning",),
    "reviews": (
        "src/headway/reviews",
        "src/headway/cli/reviews",
        "src/headway/display/reviews",
        "src/headway/wiring/reviews",
        "bench/reviews",
    ),
    "scale": ("bench/scale",),
    "servers": ("bench/servers",),
    "watching": ("src/headway/dashboard", "bench/watching"),
}
#: Sections that depend on less, or on something else.
_MEASURED_BY: Final[dict[str, tuple[str, ...]]] = {
    "lanes": (*_VIRTUAL, "bench/lanes.py"),
    "short": (*_VIRTUAL, "bench/lanes.py", "bench/short.py"),
    "sweep": (*_VIRTUAL, "bench/sweep"),
    "speed": ("src/headway/core", "bench/speed.py"),
    "crash": ("src", "tests/crash"),
    "crash-postgres": ("src", "tests/crash", "tests/postgres/test_outages.py"),
    "soak": ("src", "tests/soak", "tests/crash/stage.py"),
    "fuzz": (
        "src/headway/providers/limits",
        "src/headway/core/model.py",
        "tests/hints",
        "tools/fuzz_hints.py",
    ),
}


class Part(msgspec.Struct, frozen=True):
    """One measured section."""

    day: str
    machine: str
    missed: list[str]
    lines: list[str]
    #: The commit that was measured, with a `+` if files had been changed since; empty: not recorded.
    commit: str = ""


def present_commit(root: Path) -> str:
    """The commit of a working copy, with a `+` if what is measured has been changed since; empty outside of git."""
    shown = _git(root, "rev-parse", "--short=8", "HEAD")
    if shown.returncode:
        return ""
    return shown.stdout.strip() + ("+" if _differs(root, "HEAD") else "")


def outdated(root: Path, commit: str, section: str = "") -> bool:
    """Whether the code that a section measures is not, or not known to be, that of this commit."""
    return not commit or commit.endswith("+") or _differs(root, commit, section)


def _differs(root: Path, commit: str, section: str = "") -> bool:
    return _git(root, "diff", "--quiet", commit, "--", *_measured_by(section)).returncode != 0


def _measured_by(section: str) -> tuple[str, ...]:
    if section in _MEASURED_BY:
        return _MEASURED_BY[section]
    elsewhere = (path for name, paths in _OF_ONE.items() if name != section for path in paths)
    return (*_MEASURED, *(f":!{path}" for path in elsewhere))


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)


def record(root: Path, path: Path, measured: Mapping[str, tuple[list[str], list[str]]]) -> None:
    """Replace these sections (lines and missed bars), and mark all that are older than the code that they measure."""
    parts, commit = read(path), present_commit(root)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    for name, (lines, missed) in measured.items():
        parts[name] = Part(day, machine(), missed, lines, commit)
    names = [*(name for name in ORDER if name in parts), *(name for name in parts if name not in ORDER)]
    older = [
        name for name in names if parts[name].commit != commit and outdated(root, parts[name].commit, name)
    ]
    write(path, {name: parts[name] for name in names}, older)


def machine() -> str:
    """Python, the versions that matter, and the processor."""
    parts = f"headway {headway.__version__}, msgspec {msgspec.__version__}"
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {parts}; {_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


def read(path: Path) -> dict[str, Part]:
    """The sections of a file."""
    if not path.exists():
        return {}
    _, *pieces = _MARK.split(path.read_text(encoding="utf-8"))
    quadruples = zip(*[iter(pieces)] * 4, strict=True)
    return {name: _part(day, commit or "", text) for name, day, commit, text in quadruples}


def _part(day: str, commit: str, text: str) -> Part:
    lines = text.strip().split("\n")
    machine = next((line for line in lines if line.startswith(_MACHINE)), "")
    missed = [line.removeprefix(_MISSED) for line in lines if line.startswith(_MISSED)]
    end = lines.index(machine) if machine else len(lines)
    measured = "\n".join(lines[:end]).strip().split("\n")
    return Part(day, machine.partition(": ")[2].rstrip("."), missed, measured, commit)


def write(path: Path, parts: Mapping[str, Part], older: Collection[str] = ()) -> None:
    """Write all sections, with a list of missed bars at the top. Those named in `older` are marked."""
    path.write_text("\n".join([HEADING, *_verdict(parts, older), *_sections(parts, older)]), encoding="utf-8")


def _verdict(parts: Mapping[str, Part], older: Collection[str]) -> Iterator[str]:
    missed = [f"- {name}: {line}" for name, part in parts.items() for line in part.missed]
    yield "**Missed:**\n" if missed else "Every bar is met."
    yield from missed
    yield ""
    if older:
        yield f"**Older than the code:** {', '.join(older)}. Some of the code that they measure has changed since."
        yield ""


def _sections(parts: Mapping[str, Part], older: Collection[str]) -> Iterator[str]:
    for name, part in parts.items():
        yield f"<!-- section {name} {part.day}{part.commit and ' '}{part.commit} -->"
        yield "\n".join(part.lines).strip()
        yield ""
        of_commit = f", commit {part.commit}" if part.commit else ", commit not recorded"
        mark = " (older than the code)" if name in older else ""
        yield f"{_MACHINE}{part.day}{of_commit}{mark}: {part.machine}."
        yield ""
        yield from (f"{_MISSED}{line}" for line in part.missed)
        if part.missed:
            yield ""
