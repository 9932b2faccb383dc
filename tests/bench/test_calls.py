"""A quick sample of what `make bench SECTION=calls` measures: every way gives every result."""

from __future__ import annotations

import pytest
from bench import calls


@pytest.mark.parametrize("way", calls.WAYS)
def test_every_way_gives_every_result(way: str) -> None:
    spent = calls.measure(way, 500)
    assert spent.cpu_us > 0
    assert spent.per_s > 0
