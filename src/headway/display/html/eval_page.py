"""The page of an eval: its matrix, figures of columns and providers, and every answer with its grades.

The page has rows in blocks of `BLOCK_ROWS`, which the browser parses when they come into view, and an index with one letter and three numbers for each
cell, which filters read. Texts are bounded: the limits are below, and the page says where it cut. Names of fields are left out, because there are as many of
them as cells: a row and a cell are lists, read by `eval.js` in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from math import isfinite
from typing import Any, BinaryIO, Final

import msgspec

from headway.display.html.page_shell import (
    DataBlock,
    HtmlPage,
    bounded_text,
    page_number,
    shortened,
    write_page,
)
from headway.evals.records import AssertionResult, CellResult, CellStatus, EvalView
from headway.reports.evals.eval_statistics import EvalStatistics

#: Rows that the browser parses at once: enough for a screen, little enough for a few milliseconds.
BLOCK_ROWS: Final = 32
#: The most characters of an answer, of a prompt, of all other texts, and of the configuration.
MOST_OUTPUT: Final = 20_000
MOST_PROMPT: Final = 20_000
MOST_TEXT: Final = 2_000
MOST_CONFIG: Final = 100_000

_PAGE_STYLES: Final = ("base.css", "eval.css", "run.css")
_PAGE_SCRIPTS: Final = (
    "base.js",
    "rows.js",
    "words.js",
    "eval_figures.js",
    "eval_answers.js",
    "eval_filters.js",
    "eval.js",
)
_LETTERS: Final[dict[CellStatus, str]] = {
    "pass": "p",
    "fail": "f",
    "error": "e",
    "timeout": "t",
    "pending": "w",
}
_NO_CELL: Final = "-"


class _CellIndex:
    """What filters read of every cell, as long lists: a letter for its status, its latency, its cost and its metrics."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._letters: list[str] = []
        self._rows: list[int] = []
        self._metrics: dict[str, dict[int, float]] = {}

    def add(self, row: list[CellResult | None], test_index: int) -> None:
        first = len(self._rows) * self._columns
        self._rows.append(test_index)
        for place, cell in enumerate(row, first):
            self._letters.append(_NO_CELL if cell is None else _LETTERS[cell.status])
            for name, score in {} if cell is None else cell.named_scores.items():
                if isfinite(score):
                    self._metrics.setdefault(name, {})[place] = round(score, 4)

    def value(self) -> dict[str, Any]:
        """The block of the page. A metric is two lists: the cells that have it, and their scores."""
        metrics = [
            [name, list(scores), list(scores.values())] for name, scores in sorted(self._metrics.items())
        ]
        return {"rows": self._rows, "letters": "".join(self._letters), "metrics": metrics}


def write_eval_page(file: BinaryIO, view: EvalView, statistics: EvalStatistics, run: str = "") -> None:
    """Write the page of an eval. Reads its cells once, and keeps none of their texts."""
    title = view.description or view.job
    page = HtmlPage(title, view.job, _PAGE_STYLES, _PAGE_SCRIPTS, run)
    write_page(file, page, _blocks(view, statistics, title))


def _blocks(view: EvalView, statistics: EvalStatistics, title: str) -> Iterator[DataBlock]:
    places = {column.prompt_index: place for place, column in enumerate(view.columns)}
    index = _CellIndex(len(places))
    rows: list[list[Any]] = []
    number = 0
    for test_index, cells in groupby(view.cells(), lambda cell: cell.test_index):
        row: list[CellResult | None] = [None] * len(places)
        for cell in cells:
            row[places[cell.prompt_index]] = cell
        index.add(row, test_index)
        rows.append(_row(row))
        if len(rows) == BLOCK_ROWS:
            yield DataBlock(f"rows-{number}", rows)
            number, rows = number + 1, []
    if rows:
        yield DataBlock(f"rows-{number}", rows)
    yield DataBlock("index", index.value())
    yield DataBlock("eval", _eval_value(view, statistics, title))


def _row(row: list[CellResult | None]) -> list[Any]:
    """A test: its description, its variables, its metadata, the prompts of its cells (each once), and its cells."""
    first = next(cell for cell in row if cell is not None)
    prompts = list(dict.fromkeys(cell.prompt for cell in row if cell is not None))
    return [
        bounded_text(first.description, MOST_TEXT),
        _pairs(first.vars),
        _pairs(first.metadata),
        first.repetition,
        [bounded_text(prompt, MOST_PROMPT) for prompt in prompts],
        [0 if cell is None else _cell(cell, prompts.index(cell.prompt)) for cell in row],
    ]


def _pairs(values: dict[str, Any]) -> list[list[str]]:
    return [
        [bounded_text(name, MOST_TEXT), bounded_text(value, MOST_TEXT)]
        for name, value in values.items()
        if name != "_conversation"
    ]


def _cell(cell: CellResult, prompt: int) -> list[Any]:
    """A cell without trailing empty values."""
    output = bounded_text(cell.output, MOST_OUTPUT)
    return shortened(
        [
            prompt,
            output,
            page_number(cell.score, 4),
            page_number(cell.latency_ms, 0),
            page_number(cell.cost_usd, 9),
            [cell.tokens.input, cell.tokens.output],
            [_assertion(result) for result in cell.assertions],
            "" if cell.status == "pass" else bounded_text(cell.reason, MOST_TEXT),
            bounded_text(cell.error, MOST_TEXT),
            int(cell.cached),
            cell.attempts,
            cell.unit,
        ]
    )


def _assertion(result: AssertionResult) -> list[Any]:
    letter = "e" if result.error else "p" if result.passed else "f"
    return shortened(
        [
            result.type,
            letter,
            page_number(result.score, 4),
            bounded_text(result.error or result.reason, MOST_TEXT),
            result.metric,
            bounded_text(result.value, MOST_TEXT, indent=None),
            [_assertion(part) for part in result.parts],
        ]
    )


def _eval_value(view: EvalView, statistics: EvalStatistics, title: str) -> dict[str, Any]:
    return {
        "title": title,
        "job": view.job,
        "state": view.state,
        "created": view.created_utc,
        "finished": view.finished_utc,
        "total": view.total,
        "blockRows": BLOCK_ROWS,
        "mostOutput": MOST_OUTPUT,
        "columns": [
            {
                "provider": one.provider_label or one.provider,
                "prompt": one.prompt_label,
                "template": bounded_text(one.prompt, MOST_PROMPT),
            }
            for one in view.columns
        ],
        "statistics": _finite(msgspec.to_builtins(statistics)),
        "config": bounded_text(view.config, MOST_CONFIG),
    }


def _finite(value: Any) -> Any:
    """The value with None for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {str(name): _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
