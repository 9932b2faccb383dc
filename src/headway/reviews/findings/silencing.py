"""Comments that silence a finding at one place: `headway: ignore RULE reason`.

A comment after code means its own line. A comment alone on its line means the next line with code. RULE is the name of a rule or of an axis. The comment must give a
reason: without one it silences nothing, and the report says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import structs

from headway.reviews.findings.source_text import SourceText
from headway.reviews.records import Finding

_COMMENT: Final = re.compile(r"(?:#|//|--|/\*|<!--|;|%|\*)\s*headway:\s*ignore\b(.*)$")
_ENDS: Final = ("*/", "-->")


class IgnoreComment(msgspec.Struct, frozen=True):
    """A comment in line `line` that silences a rule in line `target`. Without a target there is no code after it."""

    line: int
    target: int | None
    rule: str
    reason: str

    @property
    def problem(self) -> str:
        """Why it silences nothing; "" if it does."""
        if not self.rule:
            return f"line {self.line}: 'headway: ignore' names no rule; write 'headway: ignore RULE reason'"
        if not self.reason:
            return (
                f"line {self.line}: 'headway: ignore {self.rule}' gives no reason; write one after the rule"
            )
        return "" if self.target else f"line {self.line}: no code follows 'headway: ignore {self.rule}'"


def ignore_comments(source: SourceText) -> Iterator[IgnoreComment]:
    """All such comments of a file."""
    for number, line in enumerate(source.lines, source.first_line):
        if "headway:" not in line or (match := _COMMENT.search(line)) is None:
            continue
        text = match[1].strip()
        for end in _ENDS:
            text = text.removesuffix(end).strip()
        rule, _, reason = text.partition(" ")
        alone = not line[: match.start()].strip()
        yield IgnoreComment(
            number, _next_code(source, number) if alone else number, rule.lower(), reason.strip()
        )


def silenced(findings: Iterable[Finding], source: SourceText) -> tuple[Finding, ...]:
    """The findings, with the mark "ignored" and the comment's reason where a comment silences one."""
    comments = [comment for comment in ignore_comments(source) if not comment.problem]
    return tuple(_silenced(finding, comments) for finding in findings)


def _silenced(finding: Finding, comments: list[IgnoreComment]) -> Finding:
    if finding.mark:
        return finding
    names = {finding.rule, finding.axis, *finding.axes}
    for comment in comments:
        inside = comment.target is not None and finding.start_line <= comment.target <= finding.end_line
        if inside and comment.rule in names:
            return structs.replace(finding, mark="ignored", mark_reason=comment.reason)
    return finding


def _next_code(source: SourceText, number: int) -> int | None:
    """The first line after `number` that is neither blank nor such a comment itself."""
    for following, line in enumerate(source.between(number + 1, source.last_line), number + 1):
        if line.strip() and not _COMMENT.search(line):
            return following
    return None
