"""`--order` and `[run] order`: which unit starts next. The output stays in input order."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

ROWS = 40


def long_at_the_end(stage: Stage) -> None:
    """Forty rows of one prompt; the last two may be answered at length."""
    rows = [stage.row(index, max_tokens=900 if index >= ROWS - 2 else 4) for index in range(ROWS)]
    stage.write_input(rows)


def starts(stage: Stage, job: int) -> list[int]:
    """The units of a job in the order in which they started."""
    query = f"SELECT uid & 4294967295 FROM units WHERE job = {job} ORDER BY started_utc, uid"
    return [index for (index,) in stage.query(query)]


def test_the_longest_go_first_if_asked_for_and_the_output_keeps_its_order(
    stage: Stage, headway: Headway
) -> None:
    long_at_the_end(stage)
    assert headway("run", "in.jsonl", "--order", "longest", "--concurrency", "1", "-q").code == 0
    assert starts(stage, 1) == [ROWS - 2, ROWS - 1, *range(ROWS - 2)]
    assert [row["headway"]["index"] for row in stage.rows()] == list(range(ROWS))


def test_input_order_in_the_settings(stage: Stage, headway: Headway) -> None:
    long_at_the_end(stage)
    stage.configure(more='[run]\norder = "input"\nconcurrency = 1')
    assert headway("run", "in.jsonl", "-q").code == 0
    assert starts(stage, 1) == list(range(ROWS))


def test_auto_orders_once_enough_units_have_ended(stage: Stage, headway: Headway) -> None:
    long_at_the_end(stage)
    assert headway("run", "in.jsonl", "--concurrency", "1", "-q").code == 0
    first = starts(stage, 1)
    assert first[:2] == [0, 1]
    assert first.index(ROWS - 1) < 30


@pytest.mark.parametrize("order", ["auto", "longest"])
def test_serial_ignores_the_order(stage: Stage, headway: Headway, order: str) -> None:
    long_at_the_end(stage)
    assert headway("run", "in.jsonl", "--order", order, "--serial", "-q").code == 0
    assert starts(stage, 1) == list(range(ROWS))


def test_an_order_that_does_not_exist_is_an_error(stage: Stage, headway: Headway) -> None:
    stage.configure(more='[run]\norder = "shortest"')
    failed = headway("run", "in.jsonl")
    assert failed.code == 2
    assert '"auto" or "input" or "longest"' in failed.err
