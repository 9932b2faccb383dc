"""Recognises what a review has written, by its first lines: reports of all files, and reviews of single files.

A report in the tree is no source: to review it would cost requests, and find its findings once more. A later review may replace it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from headway.lazy_pattern import lazy_pattern

#: Lines that say what a file is, and characters of each that are read.
_HEAD: Final = 3
_MOST_CHARS: Final = 1_000
_FIRST_LINES: Final = {
    ".md": lazy_pattern(
        r"# (?:(?:✅|🔎) Review `.*`\n\n\*\*.*\.\*\* \d|`.*`\n\n\*\*(?:DONE|CACHED|ERROR|TIMEOUT|PENDING|IN_PROGRESS)\*\*)"
    ),
    ".json": lazy_pattern(r'\{"version":\d+,"headway":"[^"]*","job":"[^"]*","state":'),
    ".sarif": lazy_pattern(r'.*\n\{"tool":\{"driver":\{"name":"Headway",'),
    ".html": lazy_pattern(
        r'<!doctype html>\n.*<meta name="generator" content="headway report [^"]*"><title>Review '
    ),
}


def is_own_report(path: str, lines: Sequence[str]) -> bool:
    """Whether a file is a report of a review, by its name and its first lines."""
    pattern = _FIRST_LINES.get(Path(path).suffix.lower())
    return (
        pattern is not None
        and pattern.match("\n".join(line[:_MOST_CHARS] for line in lines[:_HEAD])) is not None
    )


def holds_own_report(path: Path) -> bool:
    """The same for a file that was not read yet. One that cannot be read is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return is_own_report(path.name, [line.rstrip("\n") for line in islice(file, _HEAD)])
    except OSError:
        return False
