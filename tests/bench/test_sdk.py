"""A short run of the SDK benchmark: counts are exact; times have bounds that only a broken lane misses."""

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
        assert lap.outcome.ok == lap.calls == CALLS
        assert (lap.outcome.refused, lap.retried, lap.outcome.errors) == (0, 0, {})
        assert lap.ratio < WIDE
