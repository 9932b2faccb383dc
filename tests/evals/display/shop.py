"""An eval with a bit of everything: two providers, two prompts, all verdicts, hostile answers."""

from __future__ import annotations

from tests.evals.reports.eval_views import T, cell, column, view

from headway.evals.records import AssertionResult, CellResult, EvalView, TokenUse

#: Everything that could break out of a file or a terminal.
HOSTILE = (
    "</failure>]]> <script>alert(1)</script> | @octocat #12 ``` ```` \x1b[31mred\x1b[0m \x00 \u202eevil "
    "\r\n</details> [x](http://evil.example) =cmd()"
)
COLUMNS = [
    column(0, "openai:gpt-x", "Sell {{item}}", label="gpt"),
    column(1, "openai:gpt-x", "Praise {{item}}", label="gpt"),
    column(2, "exec:./shop.sh", "Sell {{item}}"),
    column(3, "exec:./shop.sh", "Praise {{item}}"),
]
ITEMS = ("a pen", "=SUM(A1)", 'a <b>book</b>, "signed"', HOSTILE, "ein Füller ✓", "the last one")


def shop() -> EvalView:
    """Six tests in four columns."""
    return view(
        [_cell(row, index) for row in range(len(ITEMS)) for index in range(4) if (row, index) != (4, 3)],
        COLUMNS,
        description="Shop assistant",
        config={"description": "Shop assistant", "prompts": ["Sell {{item}}", "Praise {{item}}"]},
        derived_metrics={"tone per cell": "tone / __count"},
    )


def _cell(row: int, index: int) -> CellResult:
    fields = {
        "test": row,
        "vars": {"item": ITEMS[row], "count": row},
        "description": f"sells {ITEMS[row]}" if row < 2 else "",
        "prompt": f"Sell {ITEMS[row]}",
        "cost_usd": 0.0001 * (row + 1) if index < 2 else None,
        "latency_ms": 120.0 * (row + 1) * (1 + index // 2),
        "tokens": TokenUse(20 + row, 10, 0, 1),
        "unit": f"{row}/{index}",
        "finished_utc": T + row,
    }
    if (row, index) == (5, 2):
        return cell(row, index, "timeout", error="timed out after 3.0 s", **{**fields, "cost_usd": None})
    if (row, index) == (5, 3):
        return cell(row, index, "pending", test=row, vars=fields["vars"])
    if (row, index) == (2, 3):
        return cell(row, index, "error", error="exit code 1: \x1b[31mno such item", **fields)
    return _judged(row, index, fields)


def _judged(row: int, index: int, fields: dict[str, object]) -> CellResult:
    good = (row + index) % 3 != 0
    contains = AssertionResult(
        number=0,
        type="icontains",
        passed=good,
        score=float(good),
        value="pen",
        reason="contains 'pen'" if good else f"the answer does not contain 'pen': {ITEMS[row]}",
    )
    rubric = AssertionResult(
        number=1,
        type="llm-rubric",
        passed=True,
        score=0.75,
        weight=2.0,
        metric="tone",
        value="is polite",
        reason="It is polite.",
        cost_usd=0.001,
        tokens=TokenUse(100, 20, 0, 1),
    )
    together = AssertionResult(number=2, type="assert-set", passed=True, score=1.0, parts=(contains,))
    return cell(
        row,
        index,
        "pass" if good else "fail",
        score=(float(good) + 1.5) / 3,
        reason="All assertions passed" if good else contains.reason,
        output={"offer": ITEMS[row]} if (row, index) == (1, 1) else f"A fine offer: {ITEMS[row]}",
        assertions=(contains, rubric, *([together] if index == 0 else [])),
        named_scores={"tone": 0.75},
        **fields,
    )
