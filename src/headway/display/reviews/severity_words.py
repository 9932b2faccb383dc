"""The words of reports for findings: how many, of which severity, and why some do not count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from headway.display.formatting import count
from headway.reviews.findings.counts import FindingCounts
from headway.reviews.records import SEVERITIES, Finding

MARK_WORDS: Final = {
    "no_such_line": "the file has no such line",
    "no_such_quote": "the quote is not in the file",
    "refuted": "refuted by a second model",
    "ignored": "ignored by a comment in the file",
}
_SHORT_MARKS: Final = {
    "no_such_line": "at a line that does not exist",
    "no_such_quote": "with a quote that does not exist",
    "refuted": "refuted",
    "ignored": "ignored",
}


def title_of(counts: FindingCounts) -> str:
    """ "12 findings in 3 files: 1 critical, 4 high, 7 low"."""
    if not counts.total:
        return "No findings" + _uncounted(counts.marks)
    parts = [f"{counts.severities[name]:,} {name}" for name in SEVERITIES if counts.severities[name]]
    head = f"{count(counts.total, 'finding')} in {count(counts.files, 'file')}: {', '.join(parts)}"
    return head + _uncounted(counts.marks)


def _uncounted(marks: dict[str, int]) -> str:
    parts = [f"{marks[name]:,} {word}" for name, word in _SHORT_MARKS.items() if marks.get(name)]
    return f" (not counted: {', '.join(parts)})" if parts else ""


def severity_counts(findings: Iterable[Finding]) -> str:
    """ "1 high, 2 low"; "" without findings."""
    numbers = Counter(finding.severity for finding in findings)
    return ", ".join(f"{numbers[name]:,} {name}" for name in SEVERITIES if numbers[name])


def mark_count(findings: Iterable[Finding]) -> str:
    """ "2 refuted, 1 ignored"."""
    numbers: Counter[str] = Counter(finding.mark for finding in findings)
    return ", ".join(f"{numbers[name]:,} {word}" for name, word in _SHORT_MARKS.items() if numbers[name])
