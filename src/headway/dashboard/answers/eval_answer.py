"""An eval as its report shows it: columns, figures, and a page of its rows with every answer and its grades."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.dashboard.answers.query import Page, cursor_number
from headway.dashboard.records.job_reading import JobReading, RecordPlace
from headway.dashboard.records.slow_values import name_of
from headway.display.html.page_shell import bounded_text
from headway.errors import UsageError
from headway.evals.records import AssertionResult, CellResult
from headway.evals.running.view import cell_rows, eval_view
from headway.reports.evals.eval_statistics import eval_statistics
from headway.reports.evals.eval_summary import reason_of
from headway.stores.records import Job
from headway.stores.store import Store

#: Rows of a page where none is asked for, and at most: each has a text for every column.
ROWS: Final = 25
_MOST: Final = 100
#: The most characters of an answer or a prompt, and of another text. The unit's own page has all of it.
_LONG: Final = 4_000
_SHORT: Final = 1_000


def eval_answer(place: RecordPlace, store: Store, reading: JobReading, page: Page) -> dict[str, Any]:
    """A page of rows. The cursor is the last unit of the page before. The figures come with the first page; None while the
    cells of a large eval are being counted.
    """
    job = reading.job
    if job.kind != "eval":
        raise UsageError(f"job {job.name} is no eval", hint=f"'headway status {job.name}' shows it")
    view = eval_view(store, job)
    places = {column.prompt_index: number for number, column in enumerate(view.columns)}
    after = -1 if page.after is None else cursor_number(page.after)
    limit = min(page.limit, _MOST)
    read = list(cell_rows(store, job, after, limit))
    answer: dict[str, Any] = {
        "description": view.description,
        "columns": [
            {"provider": one.provider_label or one.provider, "prompt": one.prompt_label, "template": bounded_text(one.prompt, _LONG)}
            for one in view.columns
        ],
        "total_rows": view.rows,
        "rows": [_row(cells, places) for _, cells in read],
        "next": str(read[-1][0]) if len(read) == limit else None,
    }  # fmt: skip
    if page.after is None:
        state = (job.ended, job.attempts, reading.state)
        answer["totals"] = place.slow.get(name_of("eval", job), state, lambda own: _figures(own, job), None)
    return answer


def _figures(store: Store, job: Job) -> dict[str, Any] | None:
    """All figures. They take a reading of every cell."""
    fields: dict[str, Any] = msgspec.to_builtins(eval_statistics(eval_view(store, job)), str_keys=True)
    return fields


def _row(cells: list[CellResult], places: dict[int, int]) -> dict[str, Any]:
    first = cells[0]
    row: list[dict[str, Any] | None] = [None] * len(places)
    for cell in cells:
        row[places[cell.prompt_index]] = _cell(cell)
    return {
        "test": first.test_index,
        "description": bounded_text(first.description, _SHORT),
        "vars": {
            name: bounded_text(value, _SHORT) for name, value in first.vars.items() if name != "_conversation"
        },
        "repetition": first.repetition,
        "cells": row,
    }


def _cell(cell: CellResult) -> dict[str, Any]:
    return {
        "status": cell.status,
        "output": bounded_text(cell.output, _LONG),
        "prompt": bounded_text(cell.prompt, _LONG),
        "score": cell.score,
        "reason": "" if cell.status == "pass" else bounded_text(reason_of(cell), _SHORT),
        "error": bounded_text(cell.error, _SHORT),
        "latency_ms": cell.latency_ms,
        "cost_usd": cell.cost_usd,
        "tokens": cell.tokens.total,
        "cached": cell.cached,
        "attempts": cell.attempts,
        "unit": cell.unit,
        "asserts": [_assertion(result) for result in cell.assertions],
    }


def _assertion(result: AssertionResult) -> dict[str, Any]:
    return {
        "type": result.type,
        "passed": result.passed and not result.error,
        "score": result.score,
        "reason": bounded_text(result.error or result.reason, _SHORT),
        "error": bool(result.error),
        "metric": result.metric,
        "value": bounded_text(result.value, _SHORT, indent=None),
        "parts": [_assertion(part) for part in result.parts],
    }
