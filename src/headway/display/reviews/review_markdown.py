"""Markdown: the report of a review, and the review of one file, `PATH.review.md`.

The report begins with what decides: how many findings of which severity, and which files were not reviewed. The findings follow, file by file, as they are read. What
does not count (refuted, ignored, not in the file) comes last in its file, folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from headway.display.formatting import count, duration, iso, money, tokens
from headway.display.reviews.change_summary import change_lines, change_title
from headway.display.reviews.markdown_text import fenced, in_cell, in_code, prose
from headway.display.reviews.severity_words import MARK_WORDS, mark_count, severity_counts, title_of
from headway.reviews.findings.counts import FindingCounts, counting, finding_counts
from headway.reviews.records import SEVERITIES, FileReview, Finding, ReviewView

#: Lines of a quote that are shown.
MOST_LINES: Final = 40
_SIGNS: Final = {"critical": "⛔", "high": "🔴", "medium": "🟠", "low": "🟡", "info": "🔵"}


def write_review_markdown(file: BinaryIO, view: ReviewView) -> None:
    """Write the report of a review to an open file."""
    for line in _report(view):
        file.write(f"{line}\n".encode(errors="replace"))


def file_markdown(review: FileReview, axes: tuple[str, ...] = ()) -> str:
    """The review of one file. `axes` gives the order of its axes."""
    lines = [
        *_heading(review.path),
        _state(review),
        "",
        *_axis_lines(review, axes),
        *_findings(review),
    ]
    if not counting(review):
        lines += [_nothing(review), ""]
    return "\n".join(lines).rstrip() + "\n"


def is_file_markdown(text: str, path: str) -> bool:
    """Whether a text begins like the review of this file."""
    return text.startswith("\n".join([*_heading(path), "**"]))


def _heading(path: str) -> list[str]:
    return [f"# {in_code(path)}", ""]


def _report(view: ReviewView) -> Iterator[str]:
    counts = finding_counts(view.files())
    sign = "✅" if counts.total == 0 and view.totals.failed == 0 and view.totals.skipped == 0 else "🔎"
    yield f"# {sign} Review {in_code(view.job)}"
    yield ""
    yield f"**{title_of(counts)}.** {_files_line(view)}"
    yield ""
    yield from _table(view, counts)
    yield from _not_reviewed(view)
    for review in view.files():
        if review.findings:
            yield f"## {in_code(review.path)}"
            yield ""
            yield from _findings(review)
    yield from _change(view)
    yield from _left_out(view)
    yield _about(view)


def _files_line(view: ReviewView) -> str:
    totals = view.totals
    parts = [f"{count(totals.files, 'file')}: {totals.reviewed:,} reviewed"]
    parts += [f"{number:,} {what}" for number, what in _rest(view) if number]
    return ", ".join(parts) + "."


def _rest(view: ReviewView) -> tuple[tuple[int, str], ...]:
    totals = view.totals
    return (
        (totals.cached, "unchanged since an earlier review"),
        (totals.failed, "not reviewed on all axes"),
        (totals.skipped, "not started"),
        (len(view.left_out), "left out"),
    )


def _table(view: ReviewView, counts: FindingCounts) -> Iterator[str]:
    if not counts.total:
        return
    yield f"| axis | {' | '.join(SEVERITIES)} |"
    yield f"|---|{'--:|' * len(SEVERITIES)}"
    names = [*view.axes, *sorted({axis for axis, _ in counts.axes} - set(view.axes))]
    for name in names:
        cells = [str(counts.axes.get((name, severity), "")) for severity in SEVERITIES]
        yield f"| {in_cell(name)} | {' | '.join(cells)} |"
    yield ""


def _not_reviewed(view: ReviewView) -> Iterator[str]:
    bad = (review for review in view.files() if review.status not in ("DONE", "CACHED"))
    first = True
    for review in bad:
        if first:
            yield "## Not reviewed on all axes"
            yield ""
            first = False
        yield f"- {in_code(review.path)}: {_failure(review)}"
    if not first:
        yield ""


def _failure(review: FileReview) -> str:
    word = review.status.lower().replace("_", " ")
    open_axes = [name for name, status in review.axes.items() if status not in ("DONE", "CACHED")]
    where = f" ({', '.join(in_code(name) for name in open_axes)})" if open_axes else ""
    return f"{word}{where}{': ' + prose(review.error) if review.error else ''}"


def _state(review: FileReview) -> str:
    parts = [f"**{review.status}**"]
    if review.updated_utc is not None:
        parts.append(iso(review.updated_utc))
    if review.tokens:
        parts.append(tokens(review.tokens))
    if review.cost_usd is not None:
        parts.append(money(review.cost_usd))
    return " · ".join(parts) + (f"\n\n{prose(review.error)}" if review.error else "")


def _axis_lines(review: FileReview, axes: tuple[str, ...]) -> Iterator[str]:
    names = [
        *(name for name in axes if name in review.axes),
        *(name for name in review.axes if name not in axes),
    ]
    found = counting(review)
    for name in names:
        own = [finding for finding in found if name in (finding.axis, *finding.axes)]
        yield f"- {in_code(name)}: {review.axes[name].lower()}, {severity_counts(own) or 'no findings'}"
    if names:
        yield ""


def _nothing(review: FileReview) -> str:
    if review.status in ("DONE", "CACHED"):
        return "No findings."
    return "No findings so far: the file was not reviewed on all axes."


def _findings(review: FileReview) -> Iterator[str]:
    for finding in sorted(counting(review), key=lambda one: SEVERITIES.index(one.severity)):
        yield from _finding(finding)
    marked = [finding for finding in review.findings if finding.mark]
    if marked:
        yield "<details>"
        yield f"<summary>{count(len(marked), 'finding')} not counted: {mark_count(marked)}</summary>"
        yield ""
        for finding in marked:
            yield from _finding(finding)
        yield "</details>"
        yield ""


def _finding(finding: Finding) -> Iterator[str]:
    lines = (
        f"line {finding.start_line}"
        if finding.start_line == finding.end_line
        else f"lines {finding.start_line}–{finding.end_line}"
    )
    yield f"### {_SIGNS[finding.severity]} {finding.severity}: {in_code(finding.rule)}, {lines}"
    yield ""
    if finding.mark:
        reason = f": {prose(finding.mark_reason)}" if finding.mark_reason else ""
        yield f"*{MARK_WORDS[finding.mark]}*{reason}"
        yield ""
    yield prose(finding.message)
    yield ""
    if finding.quote:
        yield from fenced(_bounded(finding.quote), finding.file)
        yield ""
    if finding.suggestion:
        yield from _suggestion(finding)
    names = ", ".join(in_code(name) for name in finding.axes or (finding.axis,))
    yield f"<sub>{names} · confidence {finding.confidence:.0%} · {in_code(finding.fingerprint[:12])}</sub>"
    yield ""


def _suggestion(finding: Finding) -> Iterator[str]:
    if "\n" in finding.suggestion:
        yield "Suggestion:"
        yield ""
        yield from fenced(_bounded(finding.suggestion), "")
    else:
        yield f"Suggestion: {prose(finding.suggestion)}"
    yield ""


def _bounded(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= MOST_LINES:
        return text
    return "\n".join([*lines[:MOST_LINES], f"… {len(lines) - MOST_LINES:,} more lines"])


def _change(view: ReviewView) -> Iterator[str]:
    lines = change_lines(view)
    if lines:
        yield f"## {prose(change_title(view))}"
        yield ""
        yield from (f"- {in_code(line)}" for line in lines)
        yield ""


def _left_out(view: ReviewView) -> Iterator[str]:
    if not view.left_out:
        return
    yield "<details>"
    yield f"<summary>{len(view.left_out):,} left out</summary>"
    yield ""
    for path, reason in view.left_out.items():
        yield f"- {in_code(path)}: {prose(reason)}"
    yield ""
    yield "</details>"
    yield ""


def _about(view: ReviewView) -> str:
    parts = [view.state, *filter(None, [in_code(view.model)]), iso(view.created_utc)]
    if view.finished_utc is not None:
        parts.append(duration(view.finished_utc - view.created_utc))
    if view.totals.tokens:
        parts.append(tokens(view.totals.tokens))
    if view.totals.cost_usd is not None:
        parts.append(money(view.totals.cost_usd))
    return f"<sub>{' · '.join(parts)}</sub>"
