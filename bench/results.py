"""Reads and writes bench/RESULTS.md. Each section is one run, with its day, its machine and its missed bars."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

HEADING: Final = """# What Headway reaches

Written by `make bench`; do not edit. Lanes are measured in virtual time against their theoretical bound
(docs/reference/scenarios.md), so those figures are the same on every machine. Figures in real time and
the speed of the scheduler are not. Each section is one run.
"""
_MARK: Final = re.compile(r"^<!-- section (\w+) (\S+) -->\n", re.MULTILINE)
_MACHINE: Final = "Measured on "
_MISSED: Final = "- missed: "


class Part(msgspec.Struct, frozen=True):
    """One measured section."""

    day: str
    machine: str
    missed: list[str]
    lines: list[str]


def read(path: Path) -> dict[str, Part]:
    """The sections of a file."""
    if not path.exists():
        return {}
    _, *pieces = _MARK.split(path.read_text(encoding="utf-8"))
    return {name: _part(day, text) for name, day, text in zip(*[iter(pieces)] * 3, strict=True)}


def _part(day: str, text: str) -> Part:
    lines = text.strip().split("\n")
    machine = next((line for line in lines if line.startswith(_MACHINE)), "")
    missed = [line.removeprefix(_MISSED) for line in lines if line.startswith(_MISSED)]
    end = lines.index(machine) if machine else len(lines)
    return Part(
        day, machine.partition(": ")[2].rstrip("."), missed, "\n".join(lines[:end]).strip().split("\n")
    )


def write(path: Path, parts: Mapping[str, Part]) -> None:
    """Write all sections, with a list of missed bars at the top."""
    path.write_text("\n".join([HEADING, *_verdict(parts), *_sections(parts)]), encoding="utf-8")


def _verdict(parts: Mapping[str, Part]) -> Iterator[str]:
    missed = [f"- {name}: {line}" for name, part in parts.items() for line in part.missed]
    yield "**Missed:**\n" if missed else "Every bar is met."
    yield from missed
    yield ""


def _sections(parts: Mapping[str, Part]) -> Iterator[str]:
    for name, part in parts.items():
        yield f"<!-- section {name} {part.day} -->"
        yield "\n".join(part.lines).strip()
        yield ""
        yield f"{_MACHINE}{part.day}: {part.machine}."
        yield ""
        yield from (f"{_MISSED}{line}" for line in part.missed)
        if part.missed:
            yield ""
