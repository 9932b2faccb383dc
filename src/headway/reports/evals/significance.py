"""Is a difference between two columns more than noise? Exact tests, and a correction for many of them. Pure arithmetic, no chance.

The question is asked test by test: what if the labels of the two columns had been swapped at random in each test? The share of all swaps
that give a difference at least as large as the observed one is the p-value (Fisher's randomization test for pairs, 1935). Tests
on which both columns do equally well say nothing and drop out.

* Without repetitions each test is won by one column, and the randomization test is McNemar's exact test: a binomial one.
* With repetitions a test is won by more or less. All sums are counted exactly with integers, as coefficients of a polynomial.
* Too many of them are not counted: there the normal approximation of the same distribution is as good.

With several columns there are many pairs, and one in twenty would differ "significantly" by chance. Holm's correction (1979) keeps the
chance of even one false finding below 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, gcd, lgamma, log, sqrt
from statistics import NormalDist
from typing import Final, Literal

import msgspec

#: A difference with a smaller corrected p-value is no noise.
LEVEL: Final = 0.05
#: An exact count may take so many bit operations, less than a tenth of a second.
MOST_WORK: Final = 4_000_000_000

#: How a p-value was computed.
SignificanceTest = Literal["mcnemar", "randomization", "randomization-normal"]


class Significance(msgspec.Struct, frozen=True):
    """A two-sided p-value."""

    p_value: float
    method: SignificanceTest


def paired_significance(differences: Sequence[int]) -> Significance:
    """Of differences per test, as whole numbers: more passes of the first column, or fewer."""
    step = gcd(*differences) or 1
    sizes = [abs(difference) // step for difference in differences if difference]
    if set(sizes) <= {1}:
        wins = sum(1 for difference in differences if difference > 0)
        return Significance(binomial_p(wins, len(sizes)), "mcnemar")
    total = abs(sum(differences)) // step
    if len(sizes) ** 2 * sum(sizes) <= MOST_WORK:
        return Significance(_counted(sizes, total), "randomization")
    # Sums differ by 2 or more: half of that is the correction for continuity.
    z = (total - 1) / sqrt(sum(size * size for size in sizes))
    return Significance(min(1.0, 2 * NormalDist().cdf(-z)), "randomization-normal")


def binomial_p(wins: int, tosses: int) -> float:
    """The two-sided p-value of a number of wins in tosses of a fair coin."""
    fewer = min(wins, tosses - wins)
    whole = lgamma(tosses + 1) - tosses * log(2)
    tail = sum(exp(whole - lgamma(won + 1) - lgamma(tosses - won + 1)) for won in range(fewer + 1))
    return min(1.0, 2 * tail)


def _counted(sizes: Sequence[int], total: int) -> float:
    """The share of all choices of signs whose sum is at least `total` away from 0.

    The coefficient of x^s in the product of (1 + x^size) is the number of choices in which the positive sizes add up to s. A
    polynomial is one integer here: each coefficient has a field of bits that is wide enough for all choices.
    """
    field = len(sizes) // 8 + 1
    polynomial = 1
    for size in sizes:
        polynomial += polynomial << (8 * field * size)
    highest = sum(sizes)
    data = polynomial.to_bytes((highest + 1) * field, "little")
    first = (highest + total + 1) // 2
    above = sum(
        int.from_bytes(data[at * field : (at + 1) * field], "little") for at in range(first, highest + 1)
    )
    return min(1.0, 2 * above / (1 << len(sizes)))


def holm(p_values: Sequence[float], family: int = 0) -> list[float]:
    """The p-values, corrected for their number, or for that of a larger family of which these are the ones that were computed."""
    size = max(family, len(p_values))
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (size - rank) * p_values[place]))
        corrected[place] = largest
    return corrected
