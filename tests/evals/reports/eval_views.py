"""Evals as records, without a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headway.evals.records import CellResult, CellStatus, Column, EvalView

#: When these evals begin, in UTC.
T = 1_800_000_000.0


def column(index: int, provider: str = "", prompt: str = "Say {{x}}", label: str = "") -> Column:
    """A column; without a name its provider is `p0`, `p1`, …."""
    return Column(
        prompt_index=index,
        provider=provider or f"p{index}",
        provider_label=label,
        prompt=prompt,
        prompt_label=prompt,
        prompt_id=f"id-{prompt}",
    )


def cell(row: int, index: int, status: CellStatus = "pass", **fields: Any) -> CellResult:
    """A cell of a test that is its row, unless it says otherwise."""
    score = 1.0 if status == "pass" else 0.0
    output = fields.pop("output", "yes" if status in ("pass", "fail") else None)
    return CellResult(
        index=row,
        test_index=row,
        prompt_index=index,
        test=fields.pop("test", row),
        status=status,
        score=fields.pop("score", score),
        output=output,
        vars=fields.pop("vars", {"x": f"v{row}"}),
        **fields,
    )


def view(cells: Iterable[CellResult], columns: Sequence[Column] = (), **fields: Any) -> EvalView:
    """An eval of these cells. Without columns, it has those of the cells."""
    ordered = sorted(cells, key=lambda one: (one.test_index, one.prompt_index))
    found = columns or [column(index) for index in sorted({one.prompt_index for one in ordered})]
    return EvalView(
        job=fields.pop("job", "shop-1a2b3c"),
        state=fields.pop("state", "finished"),
        description=fields.pop("description", ""),
        config=fields.pop("config", {}),
        created_utc=T,
        finished_utc=T + 12.5,
        columns=tuple(found),
        rows=len({one.test_index for one in ordered}),
        total=len(ordered),
        cells=lambda: iter(ordered),
        **fields,
    )


def matrix(*outcomes: str) -> EvalView:
    """A text for each column, with a letter for each row: p(ass), f(ail), e(rror), t(imeout), "." (pending), " " (no cell)."""
    statuses: dict[str, CellStatus] = {
        "p": "pass",
        "f": "fail",
        "e": "error",
        "t": "timeout",
        ".": "pending",
    }
    return view(
        [
            cell(row, index, statuses[letter])
            for index, letters in enumerate(outcomes)
            for row, letter in enumerate(letters)
            if letter != " "
        ],
        [column(index) for index in range(len(outcomes))],
    )
