"""A field that can be set once is not given by the user if a node writes it: that is known before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.flows.flow_file import load_flow
from headway.flows.running.intake.flow_inputs import checked_inputs, inputs_of

FLOW = """
state: {schema: {x: {merge: set_once}, y: {merge: set_once}}}
graph:
  nodes:
  - {id: a, kind: human, reads: [y], writes: [x]}
"""


def test_a_field_that_a_node_sets_cannot_be_given(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW)
    spec = load_flow(path)
    with pytest.raises(UsageError, match="--arg x: 'x' can be set once, and a writes it"):
        inputs_of(spec, {"arg": ("x=7", "y=1")})
    with pytest.raises(UsageError, match="can be set once"):
        checked_inputs(spec, {"x": 7, "y": 1})
    assert inputs_of(spec, {"arg": ("y=1",)}) == {"y": 1}
