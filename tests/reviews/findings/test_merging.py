"""Findings that say the same become one, in any order of the answers."""

from __future__ import annotations

from itertools import permutations
from time import perf_counter

from tests.reviews.display.review_views import finding

from headway.reviews.findings.merging import merged


def test_one_rule_at_one_place_from_two_axes_is_one_finding() -> None:
    first = finding(axis="security", axes=("security",), severity="medium", confidence=0.4)
    second = finding(
        axis="correctness", axes=("correctness",), severity="high", confidence=0.3, suggestion=""
    )
    [both] = merged([first, second], ("correctness", "security"))
    assert (both.severity, both.axis, both.axes) == ("high", "correctness", ("correctness", "security"))
    assert (both.confidence, both.suggestion) == (0.4, first.suggestion)


def test_other_rules_with_the_same_words_are_merged_where_lines_overlap() -> None:
    message = "The owner from the request becomes part of the query text without escaping."
    first = finding(message=message)
    second = finding(
        rule="injection",
        axis="correctness",
        quote="query = f",
        start_line=41,
        end_line=41,
        message=f"{message} Anyone can do it.",
    )
    assert len(merged([first, second])) == 1
    apart = finding(
        rule="injection", axis="correctness", quote="query = f", start_line=60, end_line=60, message=message
    )
    assert len(merged([first, apart])) == 2


def test_different_faults_of_the_same_lines_stay() -> None:
    other = finding(
        rule="query-in-loop",
        axis="performance",
        message="Loads each cart again for every item that is shown.",
        quote="return db.execute(query)",
    )
    assert len(merged([finding(), other])) == 2


def test_a_finding_that_holds_wins_over_its_marked_double() -> None:
    marked = finding(severity="critical", mark="no_such_line")
    [kept] = merged([marked, finding()])
    assert (kept.mark, kept.severity) == ("", "high")


def test_the_order_of_answers_does_not_matter() -> None:
    findings = [
        finding(),
        finding(axis="correctness", severity="medium"),
        finding(axis="readability", severity="info", message="Something else about naming things here."),
        finding(
            rule="race",
            start_line=3,
            end_line=90,
            quote="x",
            message="Two visitors at the same time lose a cart.",
        ),
    ]
    results = {merged(order, ("correctness", "security")) for order in permutations(findings)}
    assert len(results) == 1
    [result] = results
    assert [each.start_line for each in result] == [3, 41]


def test_many_findings_of_one_place_are_merged_quickly() -> None:
    words = [f"word{chr(97 + n // 26 % 26)}{chr(97 + n % 26)}{chr(97 + n // 676)}" for n in range(5_000)]
    findings = [
        finding(
            rule=f"rule-{n}",
            quote=f"q{n}",
            start_line=1,
            end_line=1_000,
            message=" ".join(words[4 * n : 4 * n + 4]),
        )
        for n in range(1_000)
    ]
    began = perf_counter()
    assert len(merged(findings)) == 1_000
    assert perf_counter() - began < 20
