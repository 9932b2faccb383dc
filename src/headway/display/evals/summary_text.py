"""The summary of an eval on the terminal: a line of totals, a row for each column, pairs of columns compared, and what did not pass.

From 100 columns of the terminal on, the table is complete. Down to 64, the mean score and the 95th percentile are left out, and below that
each column of the eval has a few lines of its own.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headway.display.evals.figures_text import (
    NONE,
    cost_text,
    counts_text,
    interval_text,
    median_and_p95,
    pair_lines,
    percent,
    rate_text,
    row_title,
    short_names,
)
from headway.display.formatting import short
from headway.reports.evals.eval_statistics import ColumnStatistics, EvalStatistics
from headway.reports.evals.eval_summary import CellFailure, EvalSummary
from headway.safe_text import one_line

WIDE: Final = 100
TABLE: Final = 64
#: Of a name in the text, of a name in the table's first column.
_NAME: Final = 60
_REASON: Final = 200
#: What only a wide terminal has.
_ONLY_WIDE: Final = frozenset({"score", "p95"})


def summary_text(summary: EvalSummary, width: int) -> str:
    """All of it, in lines of at most `width` characters."""
    statistics = summary.statistics
    lines = [*_wrapped(_totals(statistics), width), ""]
    lines += _table_lines(statistics, width) if width >= TABLE else list(_narrow(statistics, width))
    if statistics.comparisons:
        names = {index: _name(name) for index, name in _names(statistics).items()}
        lines.append("")
        for line in pair_lines(statistics, names):
            lines += _wrapped(line, width)
    if summary.failures:
        lines.append("")
        lines += _failure_lines(summary, width)
    return "\n".join(line.rstrip() for line in lines)


def _names(statistics: EvalStatistics) -> dict[int, str]:
    return short_names(tuple(one.column for one in statistics.columns))


def _name(name: str) -> str:
    return short(one_line(name), _NAME)


def _totals(statistics: EvalStatistics) -> str:
    parts = [counts_text(statistics.counts)]
    if statistics.repetitions > 1:
        parts.append(f"{statistics.tests:,} tests, repeated up to {statistics.repetitions:,} times")
    if statistics.cost_usd is not None:
        parts.append(cost_text(statistics.cost_usd, sum(one.unpriced for one in statistics.columns)))
    return "; ".join(parts)


def _cells(one: ColumnStatistics) -> dict[str, str]:
    median, p95 = median_and_p95(one.latency_ms)
    bad = one.counts.errors + one.counts.timeouts
    cells = {
        "passed": f"{one.counts.passed:,} of {one.counts.judged:,}",
        "rate": rate_text(one.pass_rate),
        "95 % interval": interval_text(one.pass_rate),
        "errors": f"{bad:,}" if bad else "",
        "score": NONE if one.mean_score is None else f"{one.mean_score:.2f}",
        "cost": cost_text(one.cost_usd, one.unpriced),
        "p50": median,
        "p95": p95,
    }
    if one.consistency is not None:
        cells["steady"] = f"{one.consistency.always + one.consistency.never:,}"
    return cells


def _table_lines(statistics: EvalStatistics, width: int) -> list[str]:
    rows = [_cells(one) for one in statistics.columns]
    shown = [
        name
        for name in (rows[0] if rows else {})
        if (width >= WIDE or name not in _ONLY_WIDE) and any(row[name] for row in rows)
    ]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", overflow="fold", min_width=12)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    names = _names(statistics)
    for one, row in zip(statistics.columns, rows, strict=True):
        table.add_row(Text(_name(names[one.column.prompt_index])), *(Text(row[name]) for name in shown))
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None, highlight=False).print(table)
    return [line for line in stream.getvalue().splitlines() if line.strip()]


def _narrow(statistics: EvalStatistics, width: int) -> Iterator[str]:
    names = _names(statistics)
    for one in statistics.columns:
        yield from _wrapped(_name(names[one.column.prompt_index]), width)
        for name, text in _cells(one).items():
            if text and text != NONE:
                yield from _wrapped(f"  {name}: {text}", width)


def _failure_lines(summary: EvalSummary, width: int) -> Iterator[str]:
    names = _names(summary.statistics)
    for failure in summary.failures:
        yield from _wrapped(_failure(failure, names), width)
    if summary.more:
        yield f"… and {summary.more:,} more"


def _failure(failure: CellFailure, names: dict[int, str]) -> str:
    word = {"fail": "failed", "timeout": "timed out"}.get(failure.status, failure.status)
    column = _name(names[failure.column.prompt_index])
    reason = short(one_line(" ".join(failure.reason.split())), _REASON) or "no reason is given"
    return f"{word}: {row_title(failure.row, _name(failure.description))}, {column}: {reason}"


def _wrapped(text: str, width: int) -> list[str]:
    """Lines that fit, by the width of characters on a terminal; all but the first are indented."""
    indent = " " * (len(text) - len(text.lstrip()))
    lines = Text(text.strip()).wrap(Console(width=width), max(8, width - 2 - len(indent)), overflow="fold")
    return [
        f"{indent}{'  ' if number else ''}{line.plain.rstrip()}" for number, line in enumerate(lines)
    ] or [""]


def below_text(statistics: EvalStatistics, share: float) -> str:
    """Why an eval ends with exit code 5."""
    return f"{percent(statistics.passed_share)} passed, below --fail-under {percent(share)}"
