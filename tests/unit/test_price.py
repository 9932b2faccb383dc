"""What tokens cost: caches, tiers, and the most that a request may come to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.model import Price, Usage

LONG = Price(4.0, 20.0, 0.4, 5.0)
TIERED = Price(2.0, 10.0, 0.2, 2.5, ((200_000.0, LONG), (500_000.0, Price(8.0, 40.0))))


@pytest.mark.parametrize(
    ("input_tokens", "rate"), [(1.0, 2.0), (200_000.0, 2.0), (200_001.0, 4.0), (500_000.0, 4.0), (500_001.0, 8.0)]
)  # fmt: skip
def test_a_tier_is_for_all_of_a_request(input_tokens: float, rate: float) -> None:
    assert TIERED.cost(Usage(input_tokens)) == pytest.approx(input_tokens * rate / 1e6)


def test_tokens_read_from_a_cache_and_written_to_it_are_part_of_the_input() -> None:
    usage = Usage(1_000_000.0, 100_000.0, 300_000.0, cache_write_tokens=200_000.0)
    assert LONG.cost(usage) == pytest.approx(0.5 * 4.0 + 0.3 * 0.4 + 0.2 * 5.0 + 0.1 * 20.0)
    assert Price(4.0, 20.0).cost(usage) == pytest.approx(4.0 + 2.0)


@pytest.mark.parametrize(("cached", "written"), [(1e6, 0.0), (0.0, 1e6), (8.0, 8.0)])
def test_more_cached_tokens_than_input_give_no_money_back(cached: float, written: float) -> None:
    usage = Usage(10.0, 5.0, cached, cache_write_tokens=written)
    assert Price(10.0, 10.0, 1.0, 2.0).cost(usage) >= 5.0 * 10.0 / 1e6
    assert Price(2.0, 2.0, 1.0, 1.0, ((1.0, Price(10.0, 10.0, 1.0, 2.0)),)).cost(usage) >= 5.0 * 10.0 / 1e6


def test_free_is_a_price() -> None:
    assert Price().cost(Usage(1e6, 1e6, 1e5, cache_write_tokens=1e5)) == 0.0


@given(
    price=st.sampled_from([TIERED, LONG, Price(1.0, 2.0, 3.0)]),
    tokens=st.integers(0, 900_000),
    cached=st.floats(0.0, 1.0),
    written=st.floats(0.0, 1.0),
    output=st.integers(0, 10_000),
)
def test_nothing_costs_more_than_the_most(
    price: Price, tokens: int, cached: float, written: float, output: int
) -> None:
    read = tokens * cached
    usage = Usage(float(tokens), float(output), read, cache_write_tokens=(tokens - read) * written)
    assert price.cost(usage) <= price.most(float(tokens), float(output)) + 1e-9
