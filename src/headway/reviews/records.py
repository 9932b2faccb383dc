"""What is known of the files of a review and of what was found in them: plain records, for reports, files and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

Severity = Literal["critical", "high", "medium", "low", "info"]
#: The gravest first.
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low", "info")

#: The state of a file, and of each of its axes. CACHED: answered without a call, from an earlier review.
FileStatus = Literal["PENDING", "IN_PROGRESS", "DONE", "TIMEOUT", "ERROR", "CACHED"]

#: Why a finding does not count: the file has no such line, or not this quote; a second model refuted it; a comment in the file ignores it.
FindingMark = Literal["", "no_such_line", "no_such_quote", "refuted", "ignored"]


class SourcePart(msgspec.Struct, frozen=True):
    """Lines of a file that are reviewed together. Lines are counted from 1; `number` from 0."""

    number: int
    first_line: int
    last_line: int


class ReviewedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that is reviewed. `path` is relative to the root, with slashes; `hash` is that of its content."""

    path: str
    size: int
    hash: str
    parts: tuple[SourcePart, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One remark about lines of a file. `axes`: all axes that reported it, if findings were merged."""

    file: str
    axis: str
    rule: str
    severity: Severity
    confidence: float
    start_line: int
    end_line: int
    quote: str
    message: str
    suggestion: str = ""
    #: From rule, path and normalised quote; never from message or line.
    fingerprint: str = ""
    mark: FindingMark = ""
    #: What the second model or the comment says.
    mark_reason: str = ""
    axes: tuple[str, ...] = ()


class FileReview(msgspec.Struct, frozen=True, kw_only=True):
    """A file with its state and its findings, merged across axes and parts."""

    path: str
    hash: str
    status: FileStatus
    updated_utc: float | None = None
    #: Why it was not reviewed, or not on all axes.
    error: str = ""
    axes: dict[str, FileStatus] = {}
    findings: tuple[Finding, ...] = ()
    #: None: the price is not known.
    cost_usd: float | None = None
    tokens: int = 0


class ReviewTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Files by how they ended. `skipped` were never started."""

    files: int = 0
    reviewed: int = 0
    cached: int = 0
    failed: int = 0
    skipped: int = 0
    left_out: int = 0
    cost_usd: float | None = None
    tokens: int = 0


class ReviewView(msgspec.Struct, frozen=True, kw_only=True):
    """A review with its results. `files` reads them in order of their paths, as often as it is called, and never all at once."""

    job: str
    state: str
    root: str
    created_utc: float
    finished_utc: float | None
    axes: tuple[str, ...]
    model: str
    files: Callable[[], Iterator[FileReview]]
    #: Path → reason.
    left_out: Mapping[str, str]
    totals: ReviewTotals
    #: Settings of the review that reports may show.
    settings: dict[str, Any] = {}
