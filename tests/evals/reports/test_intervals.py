"""Intervals of rates and differences, checked against published examples."""

from __future__ import annotations

import math

import pytest

from headway.reports.evals.intervals import (
    mean_share_rate,
    pair_correlation,
    paired_difference,
    pass_rate,
    wilson,
)


@pytest.mark.parametrize(
    ("passes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson(passes: int, trials: int, low: float, high: float) -> None:
    """Newcombe, Statistics in Medicine 17 (1998), 857–872, table I, method 3."""
    interval = wilson(passes / trials, trials)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


def test_wilson_has_a_width_where_all_pass() -> None:
    interval = wilson(1.0, 10)
    assert interval.high == 1.0
    assert interval.low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-6)


def shares(a: int, b: int, c: int, d: int) -> tuple[list[float], list[float]]:
    """The columns of a fourfold table: both pass, only the first, only the second, neither."""
    return [1.0] * (a + b) + [0.0] * (c + d), [1.0] * a + [0.0] * b + [1.0] * c + [0.0] * d


def newcombe_10(a: int, b: int, c: int, d: int) -> tuple[float, float]:
    """Method 10 by the formula of the article, written with the counts of the table and the quadratic of Wilson's limits."""
    n, z = a + b + c + d, 1.959963984540054
    limits = []
    for passes in (a + b, a + c):
        root = z * math.sqrt(z * z + 4 * passes * (1 - passes / n))
        limits.append(
            ((2 * passes + z * z - root) / (2 * (n + z * z)), (2 * passes + z * z + root) / (2 * (n + z * z)))
        )
    product = (a + b) * (c + d) * (a + c) * (b + d)
    cross = a * d - b * c
    if cross > 0:
        cross = max(0, cross - n / 2)  # type: ignore[assignment]
    phi = cross / math.sqrt(product) if product else 0.0
    p, q = (a + b) / n, (a + c) / n
    (low, high), (other_low, other_high) = limits
    down = (p - low) ** 2 - 2 * phi * (p - low) * (other_high - q) + (other_high - q) ** 2
    up = (high - p) ** 2 - 2 * phi * (high - p) * (q - other_low) + (q - other_low) ** 2
    return p - q - math.sqrt(down), p - q + math.sqrt(up)


@pytest.mark.parametrize(
    "table",
    [(36, 12, 2, 0), (14, 5, 0, 22), (20, 12, 2, 16), (1, 97, 1, 1), (0, 5, 5, 0), (30, 0, 0, 0), (29, 1, 0, 0), (7, 0, 9, 4)],
)  # fmt: skip
def test_a_paired_difference_is_method_10(table: tuple[int, int, int, int]) -> None:
    first, second = shares(*table)
    n = len(first)
    interval = paired_difference(
        mean_share_rate(first, n), mean_share_rate(second, n), pair_correlation(first, second)
    )
    low, high = newcombe_10(*table)
    assert interval.low == pytest.approx(low, abs=1e-9)
    assert interval.high == pytest.approx(high, abs=1e-9)


def test_agreement_narrows_the_interval() -> None:
    """40 tests, of which both columns pass the same 20: an interval of independent samples would be far wider."""
    first, second = shares(20, 2, 0, 18)
    paired = paired_difference(
        mean_share_rate(first, 40), mean_share_rate(second, 40), pair_correlation(first, second)
    )
    alone = paired_difference(mean_share_rate(first, 40), mean_share_rate(second, 40), 0.0)
    assert paired.high - paired.low < 0.5 * (alone.high - alone.low)


def test_without_repetitions_it_is_wilson() -> None:
    rate = pass_rate([1, 0, 1, 1, 0, 1], [1] * 6)
    assert rate is not None
    assert rate.effective == 6
    assert rate.interval == wilson(4 / 6, 6)


def test_repetitions_that_always_agree_say_nothing_new() -> None:
    once = pass_rate([1, 0, 1, 1, 0, 1, 0, 0], [1] * 8)
    five_times = pass_rate([5, 0, 5, 5, 0, 5, 0, 0], [5] * 8)
    assert once is not None
    assert five_times is not None
    assert five_times.interval == once.interval
    assert five_times.effective == 8


def test_repetitions_that_differ_as_tests_do_count_in_full() -> None:
    """Each test passes half of its repetitions: between tests nothing varies, so each repetition is news."""
    rate = pass_rate([2] * 10, [4] * 10)
    assert rate is not None
    assert rate.effective == 40
    assert rate.interval == wilson(0.5, 40)


def test_repetitions_between_the_two() -> None:
    """By hand: rate 9/16, residuals 1.75², 0.75², −0.25², −2.25² = 8.75; variance 8.75/256·4/3; 63/256 ÷ it = 5.4."""
    rate = pass_rate([4, 3, 2, 0], [4] * 4)
    assert rate is not None
    assert rate.rate == 9 / 16
    assert rate.effective == pytest.approx(5.4)


def test_all_repetitions_pass() -> None:
    """They may always pass: then they are worth as many trials as there are tests."""
    rate = pass_rate([10, 10, 10], [10, 10, 10])
    assert rate is not None
    assert rate.effective == 3
    assert rate.interval.low == pytest.approx(3 / (3 + 1.959964**2), abs=1e-6)


def test_tests_without_a_verdict_do_not_count() -> None:
    assert pass_rate([0, 1, 0], [0, 1, 0]) == pass_rate([1], [1])
    assert pass_rate([0], [0]) is None
