"""The check that every step of the tests runs notices what is wrong."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, entry_of, lane_spec, units

from headway.core.invariants import check
from headway.core.model import Estimate, LaneLimits, Settings


def test_the_invariants_notice_a_window_above_what_is_configured() -> None:
    run = Run(units(1), lane_spec(limits=LaneLimits(max_concurrency=4)))
    run.lane().window.size = 5
    with pytest.raises(AssertionError, match="window"):
        check(run.scheduler)


def test_the_invariants_notice_a_permit_that_leaked() -> None:
    run = Run(units(2))
    run.at(0.0)
    run.lane().in_flight += 1
    with pytest.raises(AssertionError, match="holds 3 permits for 2 attempts"):
        check(run.scheduler)


def test_the_invariants_notice_a_unit_in_two_places() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.lane().queue.push(entry_of(run.lane()))
    with pytest.raises(AssertionError, match="unit 0 is in two places"):
        check(run.scheduler)


def test_the_invariants_notice_a_reservation_without_an_attempt() -> None:
    run = Run(units(1, estimate=Estimate(cost_usd=1.0)), settings=Settings(max_cost_usd=9.0))
    run.at(0.0)
    run.scheduler.budget.reserve(Estimate(cost_usd=1.0))
    with pytest.raises(AssertionError, match=r"2\.0 reserved, 1\.0 in flight"):
        check(run.scheduler)
