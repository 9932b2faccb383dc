"""results.md: a comment for a pull request. A table of the columns, what is better than what, and what did not pass, folded.

Answers of models, and everything else that comes from outside, is only ever inside `<code>` with its special characters written as numbers, or in a
fenced block that it cannot close. So nothing in it is markup, a link, or the mention of a user. GitHub takes 65,536 characters; this
stays below, and says how much it left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Final

from headway.display.evals.figures_text import (
    cost_text,
    counts_text,
    interval_text,
    median_and_p95,
    pair_lines,
    rate_text,
    short_names,
)
from headway.display.evals.results_json import encoded
from headway.display.formatting import short
from headway.evals.records import EvalView
from headway.reports.evals.eval_statistics import ColumnStatistics, EvalStatistics
from headway.reports.evals.eval_summary import CellFailure, EvalSummary, eval_summary
from headway.safe_text import visible

#: Of the whole file.
MOST_CHARACTERS: Final = 60_000
#: Columns beyond these are left out of the table.
MOST_COLUMNS: Final = 50
MOST_FAILURES: Final = 200
#: Of the answer of one cell, and of a name.
_ANSWER: Final = 1_000
_NAME: Final = 80
#: Room for the last line and the end of a folded part.
_RESERVE: Final = 200
#: In a name, everything else is written as a number.
_MARKUP: Final = re.compile(r"[^\w \-]|_")
_FENCE: Final = re.compile("`{3,}")


def write_markdown(file: BinaryIO, view: EvalView) -> None:
    """Write the comment to an open file."""
    file.write(markdown(eval_summary(view, MOST_FAILURES)).encode("utf-8", errors="replace"))


def markdown(summary: EvalSummary) -> str:
    """The comment."""
    head = "\n".join(_head(summary.statistics)) + "\n"
    return head + _failures(summary, MOST_CHARACTERS - len(head))


def _head(statistics: EvalStatistics) -> Iterator[str]:
    mark = "✅" if statistics.counts.passed == statistics.counts.total else "❌"
    yield f"## {mark} Eval {code(statistics.description or statistics.job)}"
    yield ""
    cost = cost_text(statistics.cost_usd, sum(one.unpriced for one in statistics.columns))
    money = f"; {cost}" if statistics.cost_usd is not None else ""
    yield f"**{counts_text(statistics.counts)}**{money}"
    yield ""
    yield "| | passed | pass rate | 95 % interval | errors | score | cost | latency p50 | p95 |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
    names = _names(statistics)
    for one in statistics.columns[:MOST_COLUMNS]:
        yield _row(one, names[one.column.prompt_index])
    if (more := len(statistics.columns) - MOST_COLUMNS) > 0:
        yield ""
        yield f"{more:,} more columns are left out."
    if statistics.comparisons:
        yield ""
        for line in pair_lines(statistics, names):
            yield f"- {line}"


def _names(statistics: EvalStatistics) -> dict[int, str]:
    columns = tuple(one.column for one in statistics.columns)
    return {index: code(name) for index, name in short_names(columns).items()}


def _row(one: ColumnStatistics, name: str) -> str:
    cells = (
        name,
        f"{one.counts.passed:,} of {one.counts.judged:,}",
        rate_text(one.pass_rate),
        interval_text(one.pass_rate),
        f"{one.counts.errors + one.counts.timeouts:,}",
        "–" if one.mean_score is None else f"{one.mean_score:.2f}",
        cost_text(one.cost_usd, one.unpriced),
        *median_and_p95(one.latency_ms),
    )
    return f"| {' | '.join(cells)} |"


def _failures(summary: EvalSummary, room: int) -> str:
    """What did not pass, folded, as much as there is room for."""
    bad = len(summary.failures) + summary.more
    if not bad:
        return ""
    parts = ["", "<details>", f"<summary>{bad:,} did not pass</summary>", ""]
    names = _names(summary.statistics)
    left = room - _RESERVE - sum(len(part) + 1 for part in parts)
    shown = 0
    for failure in summary.failures:
        text = "\n".join(_failure(failure, names[failure.column.prompt_index]))
        left -= len(text) + 1
        if left < 0:
            break
        parts.append(text)
        shown += 1
    if shown < bad:
        parts += [f"{bad - shown:,} more are left out.", ""]
    return "\n".join([*parts, "</details>", ""])


def _failure(failure: CellFailure, name: str) -> Iterator[str]:
    word = {"fail": "failed", "timeout": "timed out"}.get(failure.status, failure.status)
    title = f" {code(failure.description)}" if failure.description else ""
    yield f"**Row {failure.row + 1}{title}, {name}: {word}**"
    yield ""
    yield from _fenced(failure.reason or "no reason is given")
    if failure.output is not None:
        output = failure.output if isinstance(failure.output, str) else encoded(failure.output).decode()
        yield "Answer:"
        yield ""
        yield from _fenced(output)


def _fenced(text: str) -> Iterator[str]:
    """A block that ends where we end it: its fence is longer than any in the text."""
    shown = visible(text if len(text) <= _ANSWER else text[:_ANSWER] + " …")
    longest = max((len(run) for run in _FENCE.findall(shown)), default=2)
    fence = "`" * (longest + 1)
    yield f"{fence}text"
    yield shown
    yield fence
    yield ""


def code(text: str) -> str:
    """A text in one line, in which nothing is markup. Mentions and links are not made inside `<code>`."""
    line = short(visible(text), _NAME)
    return f"<code>{_MARKUP.sub(lambda match: f'&#{ord(match[0])};', line)}</code>"
