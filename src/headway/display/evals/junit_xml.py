"""results.xml: JUnit's report, for the test views of Jenkins, GitLab, GitHub actions and others.

A column of the eval is a `testsuite`, a cell a `testcase`. Failed assertions are a `failure`; a cell without a verdict is an `error`, one that has not
ended is `skipped`. The counts of a suite stand before its cases, and cells come row by row: so the cases of each suite
are written to a temporary file first. Characters that XML cannot have, and control characters, are left out.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import IO, BinaryIO, Final
from xml.sax.saxutils import escape, quoteattr

from headway.display.evals.figures_text import column_name
from headway.display.evals.results_json import encoded
from headway.display.formatting import iso, short
from headway.evals.records import AssertionResult, CellResult, EvalView
from headway.reports.evals.eval_statistics import ColumnStatistics, statistics_of
from headway.reports.evals.eval_summary import reason_of
from headway.reports.evals.tally import CellCounts, EvalTally

#: Control characters, half surrogates and the two that no XML may contain, and marks that reverse the order of a text.
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
#: Of an answer in a failure, so many characters are shown.
MOST_CHARACTERS: Final = 4_000
_NAME: Final = 200
#: Of the cases of a suite, so many bytes stay in memory.
_IN_MEMORY: Final = 1 << 18


def write_junit(file: BinaryIO, view: EvalView) -> None:
    """Write all suites to an open file."""
    tally = EvalTally(view)
    with ExitStack() as stack:
        # Never under a name: answers may be private.
        cases: dict[int, IO[bytes]] = {
            column.prompt_index: stack.enter_context(SpooledTemporaryFile(_IN_MEMORY))
            for column in view.columns
        }
        for cell in view.cells():
            tally.add(cell)
            case = _case(cell, column_name(tally.columns[cell.prompt_index].column))
            cases[cell.prompt_index].write(case.encode())
        statistics = statistics_of(view, tally)
        time = sum(one.total_latency_ms for one in statistics.columns)
        head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={_attribute(view.description or view.job)} {_counts(statistics.counts, time)}>\n'
        file.write(head.encode())
        for one in statistics.columns:
            _write_suite(file, view, one, cases[one.column.prompt_index])
        file.write(b"</testsuites>\n")


def _write_suite(file: BinaryIO, view: EvalView, one: ColumnStatistics, cases: IO[bytes]) -> None:
    column = one.column
    counts = _counts(one.counts, one.total_latency_ms)
    started = iso(view.created_utc).partition(".")[0]
    lines = [
        f'  <testsuite name={_attribute(column_name(column))} {counts} timestamp="{started}">',
        "    <properties>",
        *(
            f"      <property name={_attribute(name)} value={_attribute(value)}/>"
            for name, value in _properties(view, one)
        ),
        "    </properties>\n",
    ]
    file.write("\n".join(lines).encode())
    cases.seek(0)
    shutil.copyfileobj(cases, file)
    file.write(b"  </testsuite>\n")


def _properties(view: EvalView, one: ColumnStatistics) -> Iterator[tuple[str, str]]:
    column = one.column
    yield "job", view.job
    yield "provider", column.provider
    if column.provider_label:
        yield "provider label", column.provider_label
    yield "prompt", column.prompt_label
    if one.pass_rate is not None:
        interval = one.pass_rate.interval
        yield "pass rate", f"{one.pass_rate.rate:.4f}"
        yield "pass rate, 95 % interval", f"{interval.low:.4f} to {interval.high:.4f}"
    if one.cost_usd is not None:
        yield "cost in USD", f"{one.cost_usd:.6f}"


def _counts(counts: CellCounts, time_ms: float) -> str:
    errors = counts.errors + counts.timeouts
    return (
        f'tests="{counts.total}" failures="{counts.failed}" errors="{errors}" '
        f'skipped="{counts.pending}" time="{time_ms / 1000:.3f}"'
    )


def _case(cell: CellResult, suite: str) -> str:
    title = f": {cell.description}" if cell.description else ""
    name = _attribute(f"row {cell.test_index + 1}{title}")
    time = (cell.latency_ms or 0.0) / 1000
    head = f'    <testcase classname={_attribute(suite)} name={name} time="{time:.3f}"'
    match cell.status:
        case "pass":
            return f"{head}/>\n"
        case "pending":
            return f"{head}>\n      <skipped/>\n    </testcase>\n"
    tag = "failure" if cell.status == "fail" else "error"
    kind = "assertion" if cell.status == "fail" else cell.status
    message = _attribute(reason_of(cell) or "no reason is given")
    body = escape(allowed("\n".join(_details(cell))))
    return f'{head}>\n      <{tag} message={message} type="{kind}">{body}</{tag}>\n    </testcase>\n'


def _details(cell: CellResult) -> Iterator[str]:
    yield f"score: {cell.score:.2f}"
    for result in cell.assertions:
        yield from _assertion_lines(result, "")
    if cell.output is not None:
        output = cell.output if isinstance(cell.output, str) else encoded(cell.output).decode()
        left_out = len(output) - MOST_CHARACTERS
        yield f"output: {output[:MOST_CHARACTERS]}" + (f"\n… and {left_out:,} more characters" if left_out > 0 else "")  # fmt: skip
    elif cell.error:
        yield f"error: {cell.error}"


def _assertion_lines(result: AssertionResult, indent: str) -> Iterator[str]:
    word = "error" if result.error else "passed" if result.passed else "failed"
    reason = short(result.error or result.reason, _NAME)
    yield f"{indent}{result.type}: {word}" + (f": {reason}" if reason else "")
    for part in result.parts:
        yield from _assertion_lines(part, indent + "  ")


def _attribute(text: str) -> str:
    """A quoted value of an attribute, in one line."""
    return quoteattr(short(allowed(text), _NAME))


def allowed(text: str) -> str:
    """The text without the characters that XML cannot have."""
    return _FORBIDDEN.sub("", text)
