"""Confidence intervals of pass rates and of their differences. Pure arithmetic.

**One rate.** The score interval of Wilson (1927). Unlike the usual p ± 1.96·SE it never leaves 0 to 1, and it has a width even where all
tests pass: 10 of 10 passed says at least 72 %, not exactly 100 %.

**Repeated tests.** Ten repetitions of one test say less than ten tests: they tend to end alike. So an interval is computed from an
*effective* number of tests (Rao and Scott 1992, Korn and Graubard 1998): the variance between tests, divided into the variance
of independent cells. It lies between the number of tests (all repetitions agree) and the number of cells (they are as
independent as tests are). Without repetitions it is the number of tests, and the interval is Wilson's own.

**A difference of two rates on the same tests.** Method 10 of Newcombe (1998, paired): the Wilson limits of both rates, joined with the
correlation between them. Tests that are hard for both columns cancel out, so the interval is narrower than one of independent
samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Final

import msgspec

#: Of every interval in reports.
CONFIDENCE: Final = 0.95
_Z: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


class Interval(msgspec.Struct, frozen=True):
    """A confidence interval of 95 %."""

    low: float
    high: float


class PassRate(msgspec.Struct, frozen=True):
    """A share of passes with its interval. `effective` is the number of independent tests that it is worth."""

    rate: float
    interval: Interval
    effective: float


def wilson(rate: float, number: float) -> Interval:
    """The score interval of a rate that was observed in a number of independent trials."""
    square = _Z * _Z / number
    middle = (rate + square / 2) / (1 + square)
    half = _Z / (1 + square) * sqrt(rate * (1 - rate) / number + square / (4 * number))
    # At both ends the formula gives the rate itself, but for rounding.
    low = 0.0 if rate == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if rate == 1 else min(1.0, middle + half))


def pass_rate(passes: Sequence[int], trials: Sequence[int]) -> PassRate | None:
    """The rate of all repetitions of all tests; None without any. The sequences have the passes and the repetitions of each test."""
    number = sum(trials)
    if not number:
        return None
    tests = sum(1 for count in trials if count)
    rate = sum(passes) / number
    residuals = sum((passed - rate * count) ** 2 for passed, count in zip(passes, trials, strict=True))
    effective = _effective(rate, residuals / number**2, tests, number)
    return PassRate(rate, wilson(rate, effective), effective)


def mean_share_rate(shares: Sequence[float], cells: int) -> PassRate:
    """The mean of the shares of passes of tests, each of which counts the same."""
    tests = len(shares)
    rate = sum(shares) / tests
    squares = sum((share - rate) ** 2 for share in shares)
    effective = _effective(rate, squares / tests**2, tests, cells)
    return PassRate(rate, wilson(rate, effective), effective)


def _effective(rate: float, variance: float, tests: int, cells: int) -> float:
    """How many independent trials have this variance. At a rate of 0 or 1 nothing varies: then it is the number of tests."""
    if tests < 2 or not 0.0 < rate < 1.0:
        return float(tests)
    between = variance * tests / (tests - 1)
    worth = rate * (1 - rate) / between if between > 0.0 else cells
    return max(float(tests), min(float(cells), worth))


def paired_difference(first: PassRate, second: PassRate, correlation: float) -> Interval:
    """The interval of `first − second`, two rates on the same tests."""
    p, q = first.rate, second.rate
    down, up = p - first.interval.low, first.interval.high - p
    other_down, other_up = q - second.interval.low, second.interval.high - q
    below = _joined(down, other_up, correlation)
    above = _joined(up, other_down, correlation)
    return Interval(max(-1.0, p - q - below), min(1.0, p - q + above))


def _joined(one: float, other: float, correlation: float) -> float:
    return sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def pair_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """The correlation of two columns over tests. A positive one is made smaller by half a test, as method 10 does; 0 if a column is constant."""
    mean, other_mean = sum(first) / len(first), sum(second) / len(second)
    product = squares = other_squares = 0.0
    for one, other in zip(first, second, strict=True):
        product += (one - mean) * (other - other_mean)
        squares += (one - mean) ** 2
        other_squares += (other - other_mean) ** 2
    if squares <= 0.0 or other_squares <= 0.0:
        return 0.0
    if product > 0.0:
        product = max(0.0, product - 0.5)
    return max(-1.0, min(1.0, product / sqrt(squares * other_squares)))
