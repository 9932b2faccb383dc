"""A review on the terminal: totals, a table of the axes, the gravest findings, and the files that were not reviewed.

Each finding begins with `path:line`, so that terminals and editors can open the place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from headway.display.formatting import count, money, short
from headway.display.reviews.change_summary import change_lines, change_title
from headway.display.reviews.severity_words import title_of
from headway.reviews.findings.counts import FindingCounts, counting, finding_counts
from headway.reviews.records import SEVERITIES, FileReview, Finding, ReviewView, Severity
from headway.safe_text import one_line

#: Findings and files that are printed. Reports have all of them.
MOST_FINDINGS: Final = 30
MOST_FILES: Final = 20
LEAST_WIDTH: Final = 40
#: Of an error, of a message.
_LONGEST: Final = 300


def review_text(view: ReviewView, width: int) -> str:
    """All of it, in lines of at most `width` characters."""
    width = max(LEAST_WIDTH, width)
    counts = finding_counts(view.files())
    lines = [*_wrapped(title_of(counts), width), *_wrapped(files_text(view), width)]
    if counts.total and len(view.axes) > 1:
        lines += ["", *_axis_table(view, counts, width)]
    found = _gravest(view)
    if found:
        lines += ["", *(line for finding in found for line in _finding_lines(finding, width))]
    if counts.total > len(found):
        lines.append(f"… and {counts.total - len(found):,} more")
    bad = list(_failures(view, width))
    if bad:
        lines += ["", *bad]
    lines += _change(view, width)
    return "\n".join(lines)


def files_text(view: ReviewView) -> str:
    """ "12 files: 9 reviewed, 2 cached, 1 failed, 3 left out; $0.41"."""
    totals = view.totals
    parts = [f"{totals.reviewed:,} reviewed"]
    rest = (
        (totals.cached, "cached"),
        (totals.failed, "failed"),
        (totals.skipped, "skipped"),
        (len(view.left_out), "left out"),
    )
    parts += [f"{number:,} {what}" for number, what in rest if number]
    cost = "" if totals.cost_usd is None else f"; {money(totals.cost_usd)}"
    return f"{count(totals.files, 'file')}: {', '.join(parts)}{cost}"


def gate_text(number: int, severity: Severity) -> str:
    """Why a review ends with exit code 5."""
    graver = "" if severity == "critical" else " or graver"
    return f"{count(number, 'finding')} {'is' if number == 1 else 'are'} {severity}{graver}: --fail-on {severity}"


def _axis_table(view: ReviewView, counts: FindingCounts, width: int) -> Iterator[str]:
    """A row for each axis, with the number of its findings by severity."""
    shown = [severity for severity in SEVERITIES if counts.severities[severity]]
    names = [*view.axes, *sorted({axis for axis, _ in counts.axes} - set(view.axes))]
    first = min(max(map(len, names)), 24)
    yield _fitted(" " * first + "".join(f"{severity:>10}" for severity in shown), width)
    for name in names:
        numbers = (counts.axes.get((name, severity), 0) for severity in shown)
        cells = "".join(f"{number or '-':>10}" for number in numbers)
        yield _fitted(f"{short(one_line(name), first):<{first}}{cells}", width)


def _gravest(view: ReviewView) -> list[Finding]:
    """The first findings by severity, confidence and place, without a list of all."""
    found = (finding for review in view.files() for finding in counting(review))
    return heapq.nsmallest(MOST_FINDINGS, found, key=_rank)


def _rank(finding: Finding) -> tuple[object, ...]:
    return (SEVERITIES.index(finding.severity), -finding.confidence, finding.file, finding.start_line)


def _finding_lines(finding: Finding, width: int) -> Iterator[str]:
    yield _fitted(f"{one_line(finding.file)}:{finding.start_line}: {finding.severity}: {finding.rule}", width)
    message = short(one_line(" ".join(finding.message.split())), _LONGEST)
    yield from (f"    {line}" for line in _wrapped(message, width - 4))


def _change(view: ReviewView, width: int) -> list[str]:
    lines = change_lines(view)
    if not lines:
        return []
    shown = [_fitted(f"    {one_line(line)}", width) for line in lines[:MOST_FILES]]
    more = [f"    … and {len(lines) - MOST_FILES:,} more"] if len(lines) > MOST_FILES else []
    return ["", *_wrapped(one_line(change_title(view)), width), *shown, *more]


def _failures(view: ReviewView, width: int) -> Iterator[str]:
    number = 0
    for review in view.files():
        if review.status not in ("DONE", "CACHED"):
            number += 1
            if number <= MOST_FILES:
                yield _fitted(_failure(review), width)
    if number > MOST_FILES:
        yield f"… and {number - MOST_FILES:,} more files"


def _failure(review: FileReview) -> str:
    reason = f": {short(one_line(review.error), _LONGEST)}" if review.error else ""
    return f"{one_line(review.path)}: {review.status.lower().replace('_', ' ')}{reason}"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines that fit, by the width of characters on a terminal."""
    lines = Text(text).wrap(Console(width=width), width, overflow="fold")
    return [line.plain.rstrip() for line in lines]


def _fitted(line: str, width: int) -> str:
    """The line, cut to the width of the terminal."""
    return line if cell_len(line) <= width else set_cell_size(line, width - 1).rstrip() + "…"
