"""A short run beside the commit before: it checks that both are measured, not that the machine is fast."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import against
from bench.against import Side, Turn
from bench.processes import ROOT


def test_both_sides_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "unpack", lambda commit, folder: ROOT / "src")
    before, now = against.in_turns("abc", requests=50, turns=2)
    assert (before.name, now.name) == ("abc", "now")
    for side in (before, now):
        assert len(side.turns) == 2
        assert 0.0 < side.median("start_cpu_s") < 60.0
        assert 0.0 < side.median("start_s") < 60.0


def test_what_costs_more_than_before_is_missed() -> None:
    before, now = Side("abc", Path(), [Turn(100.0, 0.2, 0.3)]), Side("now", Path(), [Turn(103.0, 0.2, 0.2)])
    missed: list[str] = []
    lines = list(against.table(before, now, missed))
    assert lines[2] == "| CPU per request | 100 µs | 103 µs | 1.03 × | ≤ 1 × |"
    assert missed == ["CPU per request: 1.03 × that of abc"]
