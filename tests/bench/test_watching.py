"""A short run of what the section `watching` measures: it checks that it measures, not that the machine is quiet."""

from __future__ import annotations

import pytest
from bench.watching import watched_run
from bench.watching.watched_run import WatchedCosts


def test_a_watched_run_is_scraped_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_run, "SCRAPE_S", 0.2)
    costs = watched_run.measure(units=6_000, turns=1)
    assert costs.scrapes > 0
    assert costs.alone[0] > 0
    assert costs.growth(costs.scraped) > 0


def test_a_missed_bar_is_named() -> None:
    assert watched_run.misses(WatchedCosts([100.0], [110.0], [])) == [
        "watching: CPU per unit 1.100 × that of a run alone, the bar is 1.03"
    ]
    assert watched_run.misses(WatchedCosts([100.0], [110.0], [102.0])) == []
