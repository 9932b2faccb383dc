"""Compares findings with the file. What is not there is sent back once, in the same conversation, and then marked.

A quote decides over line numbers: models count lines badly and copy them well. So a finding whose lines exist and whose quote is elsewhere moves to its
quote. A finding with a line that the file does not have, or with a quote that is nowhere, is doubtful, and the model is asked about it. The correction is asked for
the doubtful findings alone: those that hold are kept as they are, and a doubtful one that the correction leaves out is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import structs

from headway.reviews.findings.answer_schema import AnsweredFinding, Unreadable, answered_findings
from headway.reviews.findings.fingerprint import fingerprint
from headway.reviews.findings.source_text import SourceText
from headway.reviews.records import Finding, FindingMark

#: Of a quote, in the question about it.
_QUOTED: Final = 400


class AxisAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer of one axis means. `correction` is the question to send back; "" if there is nothing to ask."""

    findings: tuple[Finding, ...] = ()
    #: Findings that are not in the file, each with its mark.
    doubtful: tuple[Finding, ...] = ()
    #: What is wrong with findings that cannot be read.
    problems: tuple[str, ...] = ()
    #: Why the answer cannot be read at all; "" if it can.
    unreadable: str = ""
    correction: str = ""

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings that hold and, with their marks, the doubtful ones."""
        return self.findings + self.doubtful


def read_answer(text: str, source: SourceText, axis: str) -> AxisAnswer:
    """Read the first answer of an axis."""
    read = _read(text, source, axis)
    return structs.replace(read, correction="\n".join(_correction(read, source)))


def read_correction(first: AxisAnswer, text: str, source: SourceText, axis: str) -> AxisAnswer:
    """What the first answer and its correction mean together. Nothing more is asked: what is still doubtful stays marked.

    `unreadable` is set only if neither answer could be read. `problems` are what could not be read in the end.
    """
    second = _read(text, source, axis)
    if second.unreadable and first.unreadable:
        return second
    if second.unreadable:
        return structs.replace(first, correction="")
    known = {finding.fingerprint for finding in first.findings}
    new = tuple(finding for finding in second.findings if finding.fingerprint not in known)
    return structs.replace(second, findings=first.findings + new)


def _read(text: str, source: SourceText, axis: str) -> AxisAnswer:
    try:
        answered, problems = answered_findings(text)
    except Unreadable as problem:
        return AxisAnswer(unreadable=str(problem))
    if problems and not answered:
        return AxisAnswer(unreadable=" ".join(problems).removesuffix("."))
    checked = [checked_finding(each, source, axis) for each in answered]
    return AxisAnswer(
        findings=tuple(each for each in checked if not each.mark),
        doubtful=tuple(each for each in checked if each.mark),
        problems=tuple(problems),
    )


def checked_finding(answered: AnsweredFinding, source: SourceText, axis: str) -> Finding:
    """A finding at its place in the file, or with the mark that says why it has none."""
    place = source.find(answered.quote, answered.start_line)
    mark: FindingMark = ""
    if not source.has_lines(answered.start_line, answered.end_line):
        mark = "no_such_line"
    elif place is None:
        mark = "no_such_quote"
    quote, start, end, occurrence = answered.quote, answered.start_line, answered.end_line, 1
    if place is not None and not mark:
        quote, occurrence = source.widened(quote, place), source.occurrence(place)
        if not start <= place.start_line <= place.end_line <= end:
            start, end = place.start_line, place.end_line
    return Finding(
        file=source.path,
        axis=axis,
        rule=answered.rule,
        severity=answered.severity,
        confidence=answered.confidence,
        start_line=start,
        end_line=end,
        quote=quote,
        message=answered.message,
        suggestion=answered.suggestion,
        fingerprint=fingerprint(answered.rule, source.path, quote, occurrence),
        mark=mark,
        axes=(axis,),
    )


def _correction(read: AxisAnswer, source: SourceText) -> Iterator[str]:
    if read.unreadable:
        yield f"Your answer cannot be read: {read.unreadable}."
        yield 'Reply again with one JSON object and nothing else: {"findings": [...]}, with the fields that were asked for. An empty list means that there is no fault.'
        return
    if not read.doubtful and not read.problems:
        return
    yield "These findings of your answer do not fit the file:"
    for problem in read.problems:
        yield f"- {problem}"
    for finding in read.doubtful:
        yield f"- {_doubt(finding, source)}"
    yield (
        'Reply with one JSON object of the same form, {"findings": [...]}, that has these findings alone, corrected: lines by the numbers before the lines, and a quote '
        "copied exactly. Leave out those that you withdraw. Your other findings are kept; do not repeat them."
    )


def _doubt(finding: Finding, source: SourceText) -> str:
    name = f"The finding '{finding.rule}' at lines {finding.start_line} to {finding.end_line}"
    if finding.mark == "no_such_line":
        return f"{name}: you were given lines {source.first_line} to {source.last_line}."
    quote = finding.quote[:_QUOTED] or "(no quote)"
    return f"{name}: the file does not have the quote {quote!r}."
