"""What is reserved for a unit: a text has at most one token per byte, and the size of a file is a guess."""

from __future__ import annotations

import pytest

from headway.core.model import Price
from headway.engine.run_spec import UnitRoute
from headway.engine.units.unit_cursors import unit_of
from headway.stores.records import PendingUnit

PRICE = Price(10.0, 20.0)
ROUTE = UnitRoute("lane", PRICE, frozenset({2}))


@pytest.mark.parametrize(
    ("chars", "size", "tokens"),
    [
        (2_200, 6_700, 6_700),  # Chinese: three bytes a character
        (2_200, 2_290, 2_290),  # English
        (2, 90, 24),  # a short one, with what stands around it
        (4_010, 1_300_000, 16_056),  # an image in the request, where its family does not say so
        (4_010, 150, 2_005),  # a file that is only named
        (1_000, 0, 500),  # of an older record
    ],
)
def test_a_text_may_have_as_many_tokens_as_bytes(chars: int, size: int, tokens: int) -> None:
    unit = unit_of(PendingUnit(0, chars, 100, 0, 1, family=1, size=size), ROUTE)
    assert unit.estimate.cost_usd == pytest.approx((10.0 * tokens + 20.0 * 100) / 1e6)
    assert (unit.input_most, unit.open_input, unit.output_usd) == (tokens, False, 0.0)
    assert unit.input_usd == pytest.approx(10.0 / 1e6)
    assert unit.chars == chars, "pacing goes by its characters"


def test_files_and_images_reserve_a_usual_size_marked_as_a_guess() -> None:
    unit = unit_of(PendingUnit(0, 4_010, 0, 0, 1, family=2, size=1_300_000), ROUTE)
    assert (unit.input_most, unit.open_input) == (2_005, True)
    assert unit.output_usd == pytest.approx(20.0 / 1e6)


def test_an_embedding_has_no_output_and_a_text_without_a_price_no_cost() -> None:
    unit = unit_of(PendingUnit(0, 400, -1, 0, 1, size=450), ROUTE)
    assert unit.estimate.cost_usd == pytest.approx(10.0 * 450 / 1e6)
    assert (unit.estimate.input_tokens, unit.output_usd, unit.input_most) == (100.0, 0.0, 450.0)
    free = unit_of(PendingUnit(0, 400, 5, 0, 1, size=450), UnitRoute("lane"))
    assert (free.estimate.cost_usd, free.input_usd, free.input_most) == (0.0, 0.0, 0.0)
