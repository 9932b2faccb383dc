"""A short run of the SDK benchmark: what must be exact is exact; the time has bounds that only a broken lane misses."""

from __future__ import annotations

import pytest
from bench import sdk

CALLS = 60
RATE = 20.0
WIDE = 2.5


@pytest.mark.parametrize("streamed", [False, True])
def test_the_sdks_beside_the_oracle(streamed: bool) -> None:
    laps = sdk.measure(sdk.Case("headers", streamed), CALLS, RATE)
    assert [lap.kind for lap in laps] == ["openai", "anthropic"]
    for lap in laps:
        assert lap.came.ok == lap.calls == CALLS
        assert (lap.came.refused, lap.retried, lap.came.errors) == (0, 0, {})
        assert lap.ratio < WIDE
