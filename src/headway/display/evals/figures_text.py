"""The figures of an eval in words, for the terminal and for Markdown."""

from __future__ import annotations

from typing import Final

from headway.display.formatting import count, duration, money
from headway.evals.records import Column
from headway.reports.evals.comparisons import PairComparison
from headway.reports.evals.eval_statistics import EvalStatistics
from headway.reports.evals.intervals import Interval, PassRate
from headway.reports.evals.percentiles import Percentiles
from headway.reports.evals.tally import CellCounts

#: For a figure that is not known.
NONE: Final = "–"
#: At most so many pairs that differ have a line. Of so few pairs in all, each has one.
MOST_PAIRS: Final = 6
FEW_PAIRS: Final = 3


def percent(share: float) -> str:
    """ "87.5 %", "100 %". Only a whole is 100 %, and only nothing is 0 %."""
    shown = 100 * share
    if 0 < share < 1:
        shown = min(99.9, max(0.1, shown))
    return f"{shown:.1f}".removesuffix(".0") + " %"


def rate_text(rate: PassRate | None) -> str:
    """ "80 %"."""
    return NONE if rate is None else percent(rate.rate)


def interval_text(rate: PassRate | None) -> str:
    """ "49–94.3 %"."""
    if rate is None:
        return NONE
    low, high = percent(rate.interval.low), percent(rate.interval.high)
    return f"{low.removesuffix(' %')}–{high}"


def points(share: float) -> str:
    """A difference of rates: "+12.5", "−3", "0"."""
    text = f"{abs(100 * share):.1f}".removesuffix(".0")
    return text if text == "0" else f"{'+' if share > 0 else '−'}{text}"


def points_interval(interval: Interval) -> str:
    """ "−3 to +20.1"."""
    return f"{points(interval.low)} to {points(interval.high)}"


def p_text(p_value: float) -> str:
    """ "p = 0.031", "p < 0.001"."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def cost_text(usd: float | None, unknown: int = 0) -> str:
    """Dollars. With answers of unknown price it is a lower bound."""
    if usd is None:
        return NONE
    return f"at least {money(usd)}" if unknown else money(usd)


def latency_text(milliseconds: float) -> str:
    """ "0.4 s", "320 ms"."""
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else duration(milliseconds / 1000)


def median_and_p95(latency: Percentiles | None) -> tuple[str, str]:
    """Both as text."""
    return (NONE, NONE) if latency is None else (latency_text(latency.p50), latency_text(latency.p95))


def provider_name(column: Column) -> str:
    return column.provider_label or column.provider


def column_name(column: Column) -> str:
    """ "[provider] prompt", as promptfoo writes it."""
    return f"[{provider_name(column)}] {column.prompt_label}"


def counts_text(counts: CellCounts) -> str:
    """ "37 of 40 passed, 2 failed, 1 error"."""
    parts = [f"{counts.passed:,} of {counts.total:,} passed"]
    for number, one, many in (
        (counts.failed, "failed", "failed"),
        (counts.errors, "error", "errors"),
        (counts.timeouts, "timed out", "timed out"),
        (counts.pending, "not finished yet", "not finished yet"),
    ):
        if number:
            parts.append(f"{number:,} {one if number == 1 else many}")
    return ", ".join(parts)


def pair_lines(statistics: EvalStatistics, names: dict[int, str]) -> list[str]:
    """The pairs of columns that differ by more than noise, the clearest first; the others too if they are few."""
    ordered = sorted(statistics.comparisons, key=lambda pair: (pair.corrected_p, -abs(pair.difference)))
    if len(ordered) <= FEW_PAIRS:
        return [pair_line(pair, names) for pair in ordered]
    clear = [pair for pair in ordered if pair.winner is not None]
    lines = [pair_line(pair, names) for pair in clear[:MOST_PAIRS]]
    if (more := len(clear) - len(lines)) > 0:
        lines.append(f"… and {count(more, 'more pair')}")
    if noise := len(ordered) - len(clear):
        other = "other " if clear else ""
        lines.append(f"{count(noise, f'{other}pair')} of columns: the differences may be noise")
    return lines


def pair_line(pair: PairComparison, names: dict[int, str]) -> str:
    """Which of two columns is better, and whether that may be noise."""
    first, second = pair.first, pair.second
    difference, interval = pair.difference, pair.interval
    if difference < 0:
        first, second = second, first
        difference, interval = -difference, Interval(-interval.high, -interval.low)
    figures = f"{points(difference)} points ({points_interval(interval)}) on {count(pair.tests, 'test')}, {p_text(pair.corrected_p)}"
    if pair.winner is None:
        return f"{names[first]} and {names[second]}: {figures}; this may be noise"
    return f"{names[first]} is better than {names[second]}: {figures}"


def short_names(columns: tuple[Column, ...]) -> dict[int, str]:
    """The name of each column: the provider alone where there is one prompt, the prompt alone where there is one provider."""
    one_provider = len({provider_name(column) for column in columns}) == 1
    one_prompt = len({column.prompt_label for column in columns}) == 1
    if one_prompt:
        return {column.prompt_index: provider_name(column) for column in columns}
    if one_provider:
        return {column.prompt_index: column.prompt_label for column in columns}
    return {column.prompt_index: column_name(column) for column in columns}


def row_title(row: int, description: str) -> str:
    """ "row 3 (greeting)". Rows count from 1, as in the names of tests without one: `Row #3`."""
    name = f"row {row + 1}"
    return name if description in ("", f"Row #{row + 1}") else f"{name} ({description})"
