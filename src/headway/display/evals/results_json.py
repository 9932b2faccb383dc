"""results.json: the shape of promptfoo's results, version 3, so that what reads promptfoo's files reads these.

A result is one line, so that two files can be compared line by line. It is written while the cells are read. What promptfoo's shape has no
place for is in `metadata`: the statistics with their intervals, and the state of the job. Cells that have not ended are left out.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO, Final

import msgspec

from headway import __version__
from headway.display.evals.figures_text import provider_name
from headway.display.formatting import iso
from headway.evals.records import AssertionResult, CellResult, Column, EvalView, TokenUse
from headway.reports.evals.eval_statistics import ColumnStatistics, EvalStatistics, statistics_of
from headway.reports.evals.eval_summary import reason_of
from headway.reports.evals.tally import EvalTally, flat, leaves, plus

VERSION: Final = 3
#: promptfoo's reasons of a failure.
_NO_FAILURE, _ASSERTION, _ERROR = 0, 1, 2
_encoder: Final = msgspec.json.Encoder(enc_hook=str)


def write_json(file: BinaryIO, view: EvalView) -> None:
    """Write all results to an open file."""
    tally = EvalTally(view)
    head = f'{{"evalId":{_text(view.job)},"results":{{"version":{VERSION},"timestamp":{_text(iso(view.created_utc))},"results":['
    file.write(head.encode())
    separator = b"\n"
    for cell in view.cells():
        tally.add(cell)
        if cell.status == "pending":
            continue
        file.write(separator + encoded(_row(cell, tally.columns[cell.prompt_index].column)))
        separator = b",\n"
    statistics = statistics_of(view, tally)
    prompts = [_prompt(one) for one in statistics.columns]
    file.write(b'],\n"prompts":' + encoded(prompts) + b',\n"stats":' + encoded(_stats(view, statistics)))
    file.write(b'},\n"config":' + encoded(view.config) + b',\n"shareableUrl":null,\n"metadata":')
    file.write(encoded(_metadata(view, statistics)) + b"}\n")


def encoded(value: Any) -> bytes:
    """JSON of plain data, whatever a program has put into it: dates as text, lone surrogates escaped."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=str, separators=(",", ":")).encode()


def _text(text: str) -> str:
    return encoded(text).decode()


def _row(cell: CellResult, column: Column) -> dict[str, Any]:
    tokens = _cell_tokens(cell)
    row = {
        "id": cell.unit or f"{cell.test_index}/{cell.prompt_index}",
        "promptIdx": cell.prompt_index,
        "testIdx": cell.test_index,
        "testCase": _test_case(cell),
        "promptId": column.prompt_id,
        "provider": {"id": column.provider, "label": column.provider_label},
        "prompt": {"raw": cell.prompt, "label": column.prompt_label},
        "vars": cell.vars,
        "response": _response(cell),
        "failureReason": _failure_reason(cell),
        "success": cell.status == "pass",
        "score": cell.score,
        "latencyMs": round(cell.latency_ms or 0.0),
        "gradingResult": _grading(cell),
        "namedScores": cell.named_scores,
        "cost": cell.cost_usd or 0,
        "tokenUsage": tokens,
        "metadata": cell.metadata,
    }
    if cell.description:
        row["description"] = cell.description
    if cell.status != "pass":
        row["error"] = reason_of(cell)
    return row


def _failure_reason(cell: CellResult) -> int:
    return {"pass": _NO_FAILURE, "fail": _ASSERTION}.get(cell.status, _ERROR)


def _test_case(cell: CellResult) -> dict[str, Any]:
    case = {
        "vars": cell.vars,
        "assert": [_assertion(one) for one in cell.assertions],
        "options": {},
        "metadata": cell.metadata,
    }
    return {"description": cell.description, **case} if cell.description else case


def _assertion(result: AssertionResult) -> dict[str, Any]:
    assertion: dict[str, Any] = {"type": result.type}
    if result.value is not None:
        assertion["value"] = result.value
    if result.weight != 1.0:
        assertion["weight"] = result.weight
    if result.metric:
        assertion["metric"] = result.metric
    if result.parts:
        assertion["assert"] = [_assertion(part) for part in result.parts]
    return assertion


def _response(cell: CellResult) -> dict[str, Any]:
    if cell.output is None:
        return {"error": cell.error} if cell.error else {}
    return {
        "output": cell.output,
        "tokenUsage": _tokens(cell.tokens),
        "cached": cell.cached,
        "cost": cell.cost_usd or 0,
    }


def _grading(cell: CellResult) -> dict[str, Any] | None:
    """The verdict; None where there was nothing to judge."""
    if not cell.assertions and cell.status not in ("pass", "fail"):
        return None
    return {
        "pass": cell.status == "pass",
        "score": cell.score,
        "reason": cell.reason or reason_of(cell),
        "namedScores": cell.named_scores,
        "tokensUsed": _tokens(_grader_tokens(cell)),
        "componentResults": [_component(one) for one in flat(cell.assertions)],
    }


def _component(result: AssertionResult) -> dict[str, Any]:
    component: dict[str, Any] = {
        "pass": result.passed,
        "score": result.score,
        "reason": result.error or result.reason,
        "namedScores": result.named_scores,
        "tokensUsed": _tokens(result.tokens),
        "assertion": _assertion(result),
    }
    if result.error:
        component["error"] = result.error
    return component


def _grader_tokens(cell: CellResult) -> TokenUse:
    total = TokenUse()
    for result in leaves(cell.assertions):
        total = plus(total, result.tokens)
    return total


def _cell_tokens(cell: CellResult) -> dict[str, Any]:
    return {**_tokens(cell.tokens), "assertions": _tokens(_grader_tokens(cell))}


def _tokens(use: TokenUse) -> dict[str, int]:
    return {
        "total": use.total,
        "prompt": use.input,
        "completion": use.output,
        "cached": use.cached,
        "numRequests": use.requests,
    }


def _prompt(one: ColumnStatistics) -> dict[str, Any]:
    column, metrics = one.column, one.metrics
    return {
        "raw": column.prompt,
        "label": column.prompt_label,
        "id": column.prompt_id,
        "provider": provider_name(column),
        "metrics": {
            "score": one.score_sum,
            "testPassCount": one.counts.passed,
            "testFailCount": one.counts.failed,
            "testErrorCount": one.counts.errors + one.counts.timeouts,
            "assertPassCount": one.passed_assertions,
            "assertFailCount": one.failed_assertions,
            "totalLatencyMs": round(one.total_latency_ms),
            "tokenUsage": {**_tokens(one.tokens), "assertions": _tokens(one.grading_tokens)},
            "namedScores": {
                **{name: metric.sum for name, metric in metrics.items()},
                **one.derived_metrics,
            },
            "namedScoresCount": {name: metric.count for name, metric in metrics.items()},
            "cost": one.cost_usd or 0,
        },
    }


def _stats(view: EvalView, statistics: EvalStatistics) -> dict[str, Any]:
    tokens = grading = TokenUse()
    for one in statistics.columns:
        tokens, grading = plus(tokens, one.tokens), plus(grading, one.grading_tokens)
    counts = statistics.counts
    stats: dict[str, Any] = {
        "successes": counts.passed,
        "failures": counts.failed,
        "errors": counts.errors + counts.timeouts,
        "tokenUsage": {**_tokens(tokens), "assertions": _tokens(grading)},
    }
    if view.finished_utc is not None:
        stats["durationMs"] = round(1000 * (view.finished_utc - view.created_utc))
    return stats


def _metadata(view: EvalView, statistics: EvalStatistics) -> dict[str, Any]:
    ended = view.finished_utc
    return {
        "headwayVersion": __version__,
        "evaluationCreatedAt": iso(view.created_utc),
        "exportedAt": iso(view.created_utc if ended is None else ended),
        "state": view.state,
        "statistics": msgspec.to_builtins(statistics),
    }
