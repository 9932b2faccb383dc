"""The cap on money: spent and set aside never exceed it."""

from __future__ import annotations

import pytest

from headway.core.budget import Budget
from headway.core.model import Estimate, Usage

CENT = Estimate(cost_usd=0.01)


def ended(budget: Budget, estimate: Estimate, usage: Usage | None) -> None:
    """An attempt that the provider worked on has ended."""
    budget.release(estimate)
    budget.spend(estimate, usage)


def test_no_cap_admits_everything() -> None:
    budget = Budget()
    assert not budget.capped
    assert budget.fits(Estimate(1e9, 1e9, 1e9, 1e9))


def test_reservations_count_against_the_cap() -> None:
    budget = Budget(max_cost_usd=1.0)
    budget.reserve(Estimate(cost_usd=0.7))
    assert budget.fits(Estimate(cost_usd=0.3))
    assert not budget.fits(Estimate(cost_usd=0.31))


def test_spent_money_counts_against_the_cap_and_the_rest_of_the_reservation_is_released() -> None:
    budget = Budget(max_cost_usd=1.0)
    budget.reserve(Estimate(cost_usd=0.7))
    ended(budget, Estimate(cost_usd=0.7), Usage(cost_usd=0.2))
    assert budget.spent_usd == pytest.approx(0.2)
    assert budget.reserved_usd == pytest.approx(0.0)
    assert budget.fits(Estimate(cost_usd=0.8))
    assert not budget.fits(Estimate(cost_usd=0.81))


def test_an_attempt_dearer_than_estimated_ends_the_starts() -> None:
    budget = Budget(max_cost_usd=1.0)
    budget.reserve(Estimate(cost_usd=0.5))
    ended(budget, Estimate(cost_usd=0.5), Usage(cost_usd=3.0))
    assert not budget.fits(CENT)


def test_a_hundred_cents_are_a_dollar_in_spite_of_rounding() -> None:
    budget = Budget(max_cost_usd=1.0)
    for _ in range(100):
        assert budget.fits(CENT)
        budget.reserve(CENT)
    assert not budget.fits(CENT)


def test_an_attempt_that_was_refused_before_any_work_spends_nothing() -> None:
    budget = Budget(max_cost_usd=1.0)
    budget.reserve(Estimate(cost_usd=1.0))
    budget.release(Estimate(cost_usd=1.0))
    assert budget.spent_usd == 0.0
    assert budget.fits(Estimate(cost_usd=1.0))


def test_work_without_usage_costs_its_estimate() -> None:
    budget = Budget(max_cost_usd=1.0)
    estimate = Estimate(input_tokens=300.0, max_output_tokens=500.0, cost_usd=0.4)
    budget.reserve(estimate)
    ended(budget, estimate, None)
    assert budget.spent_usd == pytest.approx(0.4)
