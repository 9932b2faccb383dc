"""The section `agents` of `make bench`, on a small scale."""

from __future__ import annotations

import pytest
from bench.agents import section as agents
from bench.agents.program_times import BARE, WAYS, ProgramTime, in_turns


def test_every_way_runs_every_program() -> None:
    times = in_turns(programs=8, at_once=2, turns=1)
    assert list(times) == [*BARE, *WAYS]
    assert all(one.us > 0 for one in times.values())
    assert times["plain"].beside_plain == times["pipes"].beside_pipes == 1.0


def test_a_missed_bar_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = ProgramTime(900.0, 1.5, 1.2)
    monkeypatch.setattr(agents, "in_turns", lambda *_: {"plain": slow, "headway run": slow})
    missed: list[str] = []
    lines = list(agents.section(missed))
    assert missed == ["headway run: 1.50 × a bare loop, the bar is 1.3"]
    assert any("| headway run | 900 | 1.50 | 1.20 |" in line for line in lines)
