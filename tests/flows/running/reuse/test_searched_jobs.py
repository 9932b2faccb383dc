"""Which earlier jobs of a flow are searched for answers: as many as are needed to find everything that was finished."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headway.flows.running.reuse.answer_reuse import FEW_PREDECESSORS, MOST_PREDECESSORS, searched


@pytest.mark.parametrize(
    ("states", "n"),
    [
        (["complete"], 1),
        (["complete"] * 9, FEW_PREDECESSORS),
        (["interrupted"] * 8 + ["complete", "complete"], 9),
        (["failed"] * 2, 2),
        (["interrupted"] * 500, MOST_PREDECESSORS),
    ],
)
def test_the_search_goes_on_to_the_newest_complete_job(states: list[str], n: int) -> None:
    jobs: list[Any] = [SimpleNamespace(state=state) for state in states]
    assert searched(jobs) == jobs[:n]
