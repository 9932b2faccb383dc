"""The example flows are valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.flows.flow_file import check_flow

EXAMPLES = Path(__file__).parents[2] / "examples" / "flows"


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("review", ("read_diff", "review", "synthesise")),
        ("triage", ("issues", "label", "count")),
        ("improve", ("polish", "save")),
        ("translate", ("chapters", "book_pages", "bind")),
    ],
)
def test_an_example_is_valid_and_needs_no_input(name: str, order: tuple[str, ...]) -> None:
    checked = check_flow(EXAMPLES / name / "flow.yaml")
    assert checked.problems == ()
    assert checked.flow is not None
    assert checked.flow.step_order == order
    assert checked.flow.inputs == ()
