"""The section "How it ran" of a report, as markup. All text of others is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headway.display.formatting import duration, money
from headway.display.html.run.lane_plots import SHOWN, busiest_first, job_plots, lane_plots
from headway.display.html.run.run_words import (
    change_words,
    faster_words,
    gain_words,
    summary_words,
    wait_words,
)
from headway.reports.run_analysis.cost_rows import CostRow
from headway.reports.run_analysis.run_analysis import RunAnalysis
from headway.safe_text import one_line

STYLES: Final = ("run.css",)


def run_section(analysis: RunAnalysis, costs: Sequence[CostRow]) -> str:
    """The markup; a page's script may move it."""
    parts = [
        f"<p>{_text(summary_words(analysis))}</p>",
        _plots(analysis),
        _waits(analysis),
        _faster(analysis),
        _costs(costs),
    ]
    return f'<section id="run" class="run wrap" aria-labelledby="run-title"><h2 id="run-title">How it ran</h2>{"".join(parts)}</section>\n'


def _plots(analysis: RunAnalysis) -> str:
    history = analysis.history
    names = busiest_first(history)
    whole = _card("The whole job", job_plots(history))
    shown = "".join(_card(name, lane_plots(history, name)) for name in names[:SHOWN])
    rest = "".join(_card(name, lane_plots(history, name)) for name in names[SHOWN:])
    more = f"{len(names) - SHOWN:,} more lanes" if len(names) > SHOWN + 1 else "1 more lane"
    folded = f'<details><summary>{more}</summary><div class="cards">{rest}</div></details>' if rest else ""
    return f'<div class="cards">{whole}{shown}</div>{folded}' if whole or shown else ""


def _card(title: str, plots: Sequence[str]) -> str:
    if not plots:
        return ""
    figures = "".join(plots)
    return f'<div class="panel card"><h3 class="foreign">{_text(title)}</h3><div class="plots">{figures}</div></div>'


def _waits(analysis: RunAnalysis) -> str:
    rows = [
        (one.lane, wait_words(one), duration(one.seconds), _share(one.seconds, analysis.worked_s))
        for one in analysis.waits
    ]
    held = [
        (lane, f"{hold.reason or 'a hold'}", duration(hold.held_s), f"{hold.holds:,}")
        for lane, hold in analysis.holds.items()
    ]
    text = "How long the next request of each lane waited, and what for. Lanes wait side by side, so the times do not add up to that of the run."
    parts = []
    if rows:
        parts += [
            f'<p class="soft small">{text}</p>',
            _table("Waits", ("Lane", "Waited for", "Time", "Of the run"), rows),
        ]
    if held:
        parts.append(_table("Holds", ("Lane", "Held for", "Time", "Holds"), held))
    if not parts:
        none = "No lane waited noticeably." if analysis.sampled else "No waits and no holds are on record."
        parts.append(f"<p>{none}</p>")
    return f"<h2>What bound the run</h2>{''.join(parts)}"


def _share(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.0%}" if whole > 0.0 else "–"


def _faster(analysis: RunAnalysis) -> str:
    report = analysis.faster
    words = "".join(
        f'<p class="{"" if n == 0 else "soft small"}">{_text(line)}</p>'
        for n, line in enumerate(faster_words(analysis))
    )
    rows = [
        (change_words(one.change), duration(one.seconds), gain_words(one.seconds, report, one.slowest))
        for one in report.changes
    ]
    table = (
        _table("Changes", ("With", "It would have taken", "Against as it was"), rows, numbers=(1,))
        if rows
        else ""
    )
    return f"<h2>What would have made it faster</h2>{words}{table}"


def _costs(costs: Sequence[CostRow]) -> str:
    rows = [
        (
            one.lane, one.kind, f"{one.attempts:,}", f"{one.input_tokens:,}", f"{one.output_tokens:,}",
            "–" if one.cost_usd is None else money(one.cost_usd), "–" if not one.repeated_usd else money(one.repeated_usd),
        )
        for one in costs
    ]  # fmt: skip
    if not rows:
        return ""
    names = ("Lane", "Kind", "Attempts", "Input tokens", "Output tokens", "Cost", "Paid without an answer")
    return f"<h2>Cost by lane and kind</h2>{_table('Costs', names, rows, numbers=(2, 3, 4, 5, 6))}"


def _table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (2, 3)
) -> str:
    head = "".join(
        f'<th scope="col"{_number(n in numbers)}>{_text(name)}</th>' for n, name in enumerate(names)
    )
    body = "".join(f"<tr>{''.join(_cells(row, numbers))}</tr>" for row in rows)
    label = f'tabindex="0" role="group" aria-label="{_text(title)}"'
    return f'<div class="panel scroll" {label}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(row: Sequence[str], numbers: Sequence[int]) -> Iterator[str]:
    for n, cell in enumerate(row):
        if n == 0:
            yield f'<th scope="row" class="foreign">{_text(cell)}</th>'
        else:
            yield f"<td{_number(n in numbers)}>{_text(cell)}</td>"


def _number(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def _text(text: str) -> str:
    return html.escape(one_line(text))
