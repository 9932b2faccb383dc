"""`--baseline`: what an earlier report or job has is not reported again. Counts and `--fail-on` follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs
from tests.reviews.display.review_views import finding, shop_files, shop_review, view_of

from headway.display.reviews.review_writers import write_report
from headway.errors import InputError
from headway.reviews.findings.counts import finding_counts, reaching
from headway.reviews.findings.known_findings import KnownFindings, known_of_report, known_of_view, only_new
from headway.reviews.records import FileReview, ReviewView, Severity


def with_a_new_finding() -> ReviewView:
    """The shop, with one more finding in its first file, and the others some lines below."""
    first, *rest = shop_files()
    moved = [
        structs.replace(each, start_line=each.start_line + 50, message="Other words.")
        for each in first.findings
    ]
    new = finding(rule="path-traversal", quote="open(name)", severity="low")
    files: list[FileReview] = [structs.replace(first, findings=(*moved, new)), *rest]
    return view_of(lambda: iter(files))


def rules(view: ReviewView) -> list[str]:
    return [each.rule for review in view.files() for each in review.findings]


def test_only_what_an_earlier_job_does_not_have_is_new() -> None:
    assert rules(only_new(with_a_new_finding(), known_of_view(shop_review()))) == ["path-traversal"]
    assert rules(only_new(shop_review(), known_of_view(shop_review()))) == []


def test_only_what_a_report_as_json_does_not_have_is_new(tmp_path: Path) -> None:
    [path] = write_report(tmp_path / "review.json", shop_review())
    known = known_of_report(path.read_bytes(), "review.json")
    assert known == known_of_view(shop_review())
    assert rules(only_new(with_a_new_finding(), known)) == ["path-traversal"]


def test_a_sarif_report_knows_what_counted(tmp_path: Path) -> None:
    [path] = write_report(tmp_path / "review.sarif", shop_review())
    known = known_of_report(path.read_bytes(), "review.sarif")
    counted = {each.fingerprint for review in shop_files() for each in review.findings if not each.mark}
    assert known == KnownFindings(frozenset(counted))


@pytest.mark.parametrize(
    "data",
    [
        b"no json",
        b"[1]",
        b'{"a": 1}',
        b'{"findings": [{"rule": "x"}]}',
        b'{"runs": [{"results": [{}]}]}',
        b'{"runs": 1}',
    ],
)
def test_another_file_is_an_error_that_names_it(data: bytes) -> None:
    with pytest.raises(InputError, match=r"--baseline old\.json"):
        known_of_report(data, "old.json")


def test_counts_leave_out_what_is_marked() -> None:
    counts = finding_counts(shop_files())
    assert counts.severities == {"critical": 1, "high": 1, "medium": 2, "low": 1, "info": 1}
    assert counts.marks == {"refuted": 1, "no_such_line": 1, "ignored": 1}
    assert (counts.total, counts.files) == (6, 2)


@pytest.mark.parametrize(
    ("severity", "expected"), [("critical", 1), ("high", 2), ("medium", 4), ("low", 5), ("info", 6)]
)
def test_findings_reach_a_severity(severity: Severity, expected: int) -> None:
    assert reaching(shop_review(), severity) == expected
