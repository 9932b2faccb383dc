"""A short run of `make bench SECTION=calls`: every way returns all results."""

from __future__ import annotations

import pytest
from bench import calls


@pytest.mark.parametrize("way", calls.WAYS)
def test_every_way_returns_all_results(way: str) -> None:
    spent = calls.measure(way, 500)
    assert spent.cpu_us > 0
    assert spent.per_s > 0
