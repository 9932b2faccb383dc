"""SARIF 2.1.0: the findings of a review for code hosts and editors.

A code host shows at most 5,000 results of a run and takes 20 runs and 10 MB (compressed) in a file. So findings are ranked, the gravest first, and split: each run has
at most `MOST_RESULTS` of them and a category of its own, because runs of one category replace each other. What does not fit into a file goes into the next one.
Nothing is left out silently: findings with a mark are no results, and a notification names each or counts them.

Findings are read once for each severity, and no more than one run of them is kept in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final
from urllib.parse import quote

from headway import __version__
from headway.display.formatting import count, iso
from headway.reviews.findings.counts import counting
from headway.reviews.findings.known_findings import SARIF_KEY
from headway.reviews.findings.rubrics import RUBRICS
from headway.reviews.records import SEVERITIES, FileReview, Finding, ReviewView, Severity
from headway.safe_text import escape_lone_surrogates, one_line, visible

#: Results that GitHub keeps of a run.
MOST_RESULTS: Final = 5_000
#: Notifications of a run. More are counted in the last one.
MOST_NOTIFICATIONS: Final = 1_000
CATEGORY: Final = "headway-review"

_LINK: Final = re.compile(r"\[(?=[^\[\]\n]*\]\()")
_PLACEHOLDER: Final = re.compile(r"\{(\d+)\}")

_LEVELS: Final[dict[Severity, str]] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
#: What code hosts show as the severity of an alert about security, on the scale of CVSS.
_SECURITY: Final[dict[Severity, str]] = {
    "critical": "9.5",
    "high": "8.0",
    "medium": "5.5",
    "low": "3.0",
    "info": "1.0",
}
_MARKS: Final = {
    "no_such_line": "names a line that the file does not have",
    "no_such_quote": "quotes text that is not in the file",
    "refuted": "was refuted by a second model",
    "ignored": "is ignored by a comment in the file",
}


def ranked(view: ReviewView) -> Iterator[Finding]:
    """All findings that count, the gravest first, then by file and line."""
    for severity in SEVERITIES:
        for review in view.files():
            yield from (finding for finding in counting(review) if finding.severity == severity)


def sarif_runs(view: ReviewView, most: int = MOST_RESULTS) -> Iterator[dict[str, Any]]:
    """The runs of a review, each with at most `most` results. There is at least one."""
    findings = ranked(view)
    number = 1
    while (part := list(islice(findings, most))) or number == 1:
        yield _run(view, part, number)
        number += 1


def category(number: int) -> str:
    """The category of a run: runs of one category replace each other on a code host."""
    return CATEGORY if number == 1 else f"{CATEGORY}-{number}"


def _run(view: ReviewView, findings: list[Finding], number: int) -> dict[str, Any]:
    rules = _rules(findings)
    places = {rule["id"]: place for place, rule in enumerate(rules)}
    driver: dict[str, Any] = {
        "name": "Headway",
        "fullName": f"Headway {__version__}",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"{category(number)}/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The folder that was reviewed."}}},
        "invocations": [_invocation(view, with_notes=number == 1)],
        "properties": {"job": view.job, "model": view.model, "axes": list(view.axes)},
        "results": [_result(finding, places[finding.rule]) for finding in findings],
    }


def _rules(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The rules of these findings by name. The gravest finding of a rule comes first."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.rule, finding)
    return [_rule(first[name]) for name in sorted(first)]


def _rule(finding: Finding) -> dict[str, Any]:
    axis = RUBRICS.get(finding.axis)
    meaning = axis.rules.get(finding.rule, "") if axis else ""
    text = meaning or finding.rule.replace("-", " ")
    properties: dict[str, Any] = {"tags": [one_line(finding.axis)]}
    if finding.axis == "security":
        properties["security-severity"] = _SECURITY[finding.severity]
    sentence = f"{text[:1].upper()}{text[1:]}."
    return {
        "id": finding.rule,
        "name": "".join(word.capitalize() for word in finding.rule.split("-")),
        "shortDescription": {"text": sentence},
        "fullDescription": {"text": f"{sentence} Found by the axis '{one_line(finding.axis)}' of a review by a model."},
        "help": {"text": f"{sentence} To silence one place, write a comment: headway: ignore {finding.rule} and the reason."},
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
        "properties": properties,
    }  # fmt: skip


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    region = {
        "startLine": finding.start_line,
        "endLine": finding.end_line,
        "snippet": {"text": visible(finding.quote)},
    }
    location = {"physicalLocation": {"artifactLocation": _artifact(finding.file), "region": region}}
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": message_text(finding)},
        "rank": round(20 * (len(SEVERITIES) - 1 - SEVERITIES.index(finding.severity)) + 20 * finding.confidence, 1),
        "locations": [location],
        "partialFingerprints": {
            "primaryLocationLineHash": f"{finding.fingerprint[:16]}:1",
            SARIF_KEY: finding.fingerprint,
        },
        "properties": {
            "severity": finding.severity,
            "confidence": finding.confidence,
            "axes": list(finding.axes or (finding.axis,)),
            "suggestion": visible(finding.suggestion),
        },
    }  # fmt: skip


def message_text(finding: Finding) -> str:
    """What viewers show. In a message of SARIF `[text](target)` is a link and `{0}` a placeholder: both are escaped, and nothing else is, because viewers differ."""
    text = visible(finding.message)
    if finding.suggestion:
        text += f"\n\nSuggestion: {visible(finding.suggestion)}"
    return _PLACEHOLDER.sub(r"{{\1}}", _LINK.sub(r"\\[", text))


def _artifact(path: str) -> dict[str, str]:
    try:
        name = path.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        name = escape_lone_surrogates(path).encode()
    return {"uri": quote(name, safe="/"), "uriBaseId": "SRCROOT"}


def _invocation(view: ReviewView, *, with_notes: bool) -> dict[str, Any]:
    invocation: dict[str, Any] = {
        "executionSuccessful": view.totals.failed == 0 and view.totals.skipped == 0,
        "startTimeUtc": iso(view.created_utc),
    }
    if view.finished_utc is not None:
        invocation["endTimeUtc"] = iso(view.finished_utc)
    if with_notes:
        invocation["toolExecutionNotifications"] = _notifications(view)
    return invocation


def _notifications(view: ReviewView) -> list[dict[str, Any]]:
    """Files that were not reviewed, findings that do not count, and how many files were left out."""
    notes = list(islice(_notes(view), MOST_NOTIFICATIONS))
    if view.left_out:
        names = "file was" if len(view.left_out) == 1 else "files were"
        notes.append(_note("note", f"{len(view.left_out):,} {names} left out of the review by its settings."))
    more = sum(1 for _ in islice(_notes(view), MOST_NOTIFICATIONS, None))
    if more:
        notes.append(
            _note(
                "warning",
                f"{count(more, 'more notification')} would follow; the report as .json has all of them.",
            )
        )
    return notes  # fmt: skip


def _notes(view: ReviewView) -> Iterator[dict[str, Any]]:
    for review in view.files():
        if problem := _file_problem(review):
            yield _note("error", problem, review.path)
        for finding in review.findings:
            if finding.mark:
                reason = f" ({one_line(finding.mark_reason)})" if finding.mark_reason else ""
                text = f"The finding '{finding.rule}' {_MARKS[finding.mark]}{reason}, and is no result: {one_line(finding.message)}"
                yield _note("note", text, review.path)


def _file_problem(review: FileReview) -> str:
    if review.status in ("DONE", "CACHED"):
        return ""
    reason = f": {one_line(review.error)}" if review.error else ""
    return f"The file was not reviewed on all axes ({review.status}){reason}."


def _note(level: str, text: str, path: str = "") -> dict[str, Any]:
    note: dict[str, Any] = {"level": level, "message": {"text": visible(text)}}
    if path:
        note["locations"] = [{"physicalLocation": {"artifactLocation": _artifact(path)}}]
    return note
