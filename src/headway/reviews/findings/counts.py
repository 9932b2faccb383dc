"""How many findings a review has, by severity, axis and mark, and how many reach a severity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from headway.reviews.records import SEVERITIES, FileReview, Finding, ReviewView, Severity


class FindingCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that count, by severity and by axis, and the marks of the others."""

    severities: dict[str, int]
    #: (axis, severity) → findings. A finding of several axes counts for the one that it is reported under.
    axes: dict[tuple[str, str], int]
    marks: dict[str, int]
    #: Files with a finding that counts.
    files: int

    @property
    def total(self) -> int:
        return sum(self.severities.values())


def counting(review: FileReview) -> list[Finding]:
    """The findings of a file that count: those without a mark."""
    return [finding for finding in review.findings if not finding.mark]


def finding_counts(reviews: Iterable[FileReview]) -> FindingCounts:
    """Count the findings of files, reading each file once."""
    severities: Counter[str] = Counter(dict.fromkeys(SEVERITIES, 0))
    axes: Counter[tuple[str, str]] = Counter()
    marks: Counter[str] = Counter()
    files = 0
    for review in reviews:
        found = counting(review)
        files += bool(found)
        severities.update(finding.severity for finding in found)
        axes.update((finding.axis, finding.severity) for finding in found)
        marks.update(finding.mark for finding in review.findings if finding.mark)
    return FindingCounts(severities=dict(severities), axes=dict(axes), marks=dict(marks), files=files)


def reaching(view: ReviewView, severity: Severity) -> int:
    """How many findings that count are as grave as this, or graver: `--fail-on`."""
    grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return sum(finding.severity in grave for review in view.files() for finding in counting(review))
