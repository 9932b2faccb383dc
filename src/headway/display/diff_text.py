"""The text of `headway diff`: two columns of figures, counts, and the changed answers word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, Literal

from headway.display.formatting import count, money, short
from headway.reports.differences import DiffReport, SideReport
from headway.reports.models import ModelReport
from headway.stores.records import LatencyFigures

#: A part of a text: in both answers, only in the first, only in the second.
PartKind = Literal["same", "removed", "added"]
Part = tuple[PartKind, str]

_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")
#: Texts with more words are compared line by line: the comparison of words takes the square of their number.
MOST_WORDS: Final = 2_000
#: Of a long part that both answers have, so many characters are shown at each end.
KEPT: Final = 60
_LONGEST_CELL: Final = 48


def heading_rows(report: DiffReport) -> list[tuple[str, str, str]]:
    """Name, first, second: what the two sides are, and what they took."""
    first, second = report.first, report.second
    rows = [
        ("job", first.job, second.job),
        ("model", ", ".join(first.models), ", ".join(second.models)),
        ("succeeded", _succeeded(first.figures), _succeeded(second.figures)),
        ("tokens out", f"{first.figures.use.output_tokens:,}", f"{second.figures.use.output_tokens:,}"),
        ("cost", _cost(first.figures), _cost(second.figures)),
        ("latency", latency_text(first.figures.latency), latency_text(second.figures.latency)),
    ]
    for name in ("system", "prompt"):
        one, other = _cell(first, name), _cell(second, name)
        if one != other:
            rows.insert(2, (name, one, other))
    return [(name, short(one, _LONGEST_CELL), short(other, _LONGEST_CELL)) for name, one, other in rows]


def _cell(side: SideReport, name: str) -> str:
    text: str | None = getattr(side, name)
    return "–" if text is None else " ".join(text.split())


def _succeeded(figures: ModelReport) -> str:
    return f"{figures.succeeded:,} of {figures.units:,}"


def _cost(figures: ModelReport) -> str:
    usd = figures.use.cost_usd
    return "unknown" if usd is None or (not usd and figures.use.unpriced_attempts) else money(usd)


def latency_text(latency: LatencyFigures | None) -> str:
    """The median and the 95th percentile."""
    if latency is None:
        return "–"
    return f"{latency.median_s:.2f} s median, {latency.p95_s:.2f} s p95"


def model_line(name: str, figures: ModelReport) -> str:
    """A model of a job in the summary of a run."""
    use = figures.use
    parts = [
        f"{_succeeded(figures)} succeeded",
        f"{count(use.input_tokens, 'token')} in, {use.output_tokens:,} out",
    ]
    if use.cost_usd:
        parts.append(money(use.cost_usd))
    if figures.latency is not None:
        parts.append(f"latency {latency_text(figures.latency)}")
    return f"{name}: {'; '.join(parts)}"


def count_line(report: DiffReport) -> str:
    """How many rows are the same, and how many are not."""
    counts = report.counts
    parts = [f"{counts.same:,} the same", f"{counts.changed:,} changed"]
    for number, words in (
        (counts.failed, "failed on one side or both"),
        (counts.unfinished, "not finished yet"),
        (counts.only_first, "only in the first"),
        (counts.only_second, "only in the second"),
    ):
        if number:
            parts.append(f"{number:,} {words}")
    return ", ".join(parts)


def word_diff(first: str, second: str) -> Iterator[Part]:
    """The parts of two texts in order. Long parts that are the same are shortened in the middle."""
    ours, theirs = _WORDS.findall(first), _WORDS.findall(second)
    if len(ours) + len(theirs) > MOST_WORDS:
        ours, theirs = first.splitlines(keepends=True), second.splitlines(keepends=True)
    for what, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if what == "equal":
            yield "same", _shortened("".join(ours[a:b]))
            continue
        if b > a:
            yield "removed", "".join(ours[a:b])
        if d > c:
            yield "added", "".join(theirs[c:d])


def _shortened(text: str) -> str:
    return text if len(text) <= 2 * KEPT + 10 else f"{text[:KEPT]} … {text[-KEPT:]}"
