"""How providers count tokens, and what counts as a known limit."""

from __future__ import annotations

import pytest

from headway.core.model import Counting, Estimate, LaneLimits, Usage

ESTIMATE = Estimate(input_tokens=1000.0, output_tokens=200.0, max_output_tokens=500.0)
USAGE = Usage(input_tokens=900.0, output_tokens=150.0, cached_input_tokens=300.0)


def test_admission_reserves_the_input_and_the_most_output() -> None:
    assert Counting().reserved(ESTIMATE) == (1.0, 1500.0, 1000.0, 200.0)


def test_a_provider_that_counts_output_as_it_comes_reserves_what_is_expected() -> None:
    assert Counting(reserve_max_output=False).reserved(ESTIMATE) == (1.0, 1200.0, 1000.0, 200.0)


def test_without_a_most_the_expected_output_is_reserved() -> None:
    assert Counting().reserved(Estimate(input_tokens=10.0, output_tokens=5.0)) == (1.0, 15.0, 10.0, 5.0)


def test_a_reserved_most_stays_charged_where_the_provider_does_not_settle_it() -> None:
    assert Counting().settled(ESTIMATE, USAGE) == (1.0, 1400.0, 900.0, 150.0)


def test_the_real_output_replaces_the_most_where_the_provider_settles_it() -> None:
    assert Counting(settle_output=True).settled(ESTIMATE, USAGE) == (1.0, 1050.0, 900.0, 150.0)


def test_cached_input_is_given_back_where_it_is_free() -> None:
    counting = Counting(reserve_max_output=False, settle_output=True, cached_free=True)
    assert counting.settled(ESTIMATE, USAGE) == (1.0, 750.0, 600.0, 150.0)


def test_no_more_input_is_given_back_than_there_was() -> None:
    counting = Counting(cached_free=True, settle_output=True)
    assert counting.settled(ESTIMATE, Usage(10.0, 5.0, 300.0)) == (1.0, 5.0, 0.0, 5.0)


@pytest.mark.parametrize("limits", [LaneLimits(rpm=1.0), LaneLimits(tpd=0.0), LaneLimits(max_concurrency=4)])
def test_one_configured_limit_makes_the_lane_known(limits: LaneLimits) -> None:
    assert limits.known


@pytest.mark.parametrize("limits", [LaneLimits(), LaneLimits(min_gap_s=1.0), LaneLimits(burst_s=1.0)])
def test_a_gap_or_a_depth_alone_says_nothing_about_the_limit(limits: LaneLimits) -> None:
    assert not limits.known
