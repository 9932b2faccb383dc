"""The measurement of a cold start: a job over slow TLS ends with every unit answered, also after SIGKILL. 429s depend on the machine."""

from __future__ import annotations

import pytest
from bench import cold_start
from bench.slow_tls import has_openssl


@pytest.mark.skipif(not has_openssl(), reason="openssl makes the certificate")
@pytest.mark.parametrize("name", [cold_start.COLD, cold_start.RESUMED])
def test_a_job_behind_slow_tls_ends(name: str) -> None:
    one = cold_start.measure(name, units=150, opening_s=0.05)
    assert one.exit_code == 0
    assert 0 < one.connections < 4 * one.units


def test_every_kind_of_missed_bar_is_reported() -> None:
    bad = cold_start.ColdStart(cold_start.COLD, 800, 9, 0, 8.0, 170, 1)
    assert cold_start.misses(bad) == [
        "cold start: 9 429s in 800 units, the bar is 8",
        "cold start: exit code 1",
    ]
    resumed = cold_start.ColdStart(cold_start.RESUMED, 800, 16, 8, 8.0, 170, 0)
    assert cold_start.misses(resumed) == []
