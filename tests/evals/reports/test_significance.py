"""Exact tests and Holm's correction, checked against published examples."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from headway.reports.evals import significance
from headway.reports.evals.significance import binomial_p, holm, paired_significance

#: Darwin's maize plants: crossed minus self-fertilized, in eighths of an inch.
DARWIN = (49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48)


def test_a_sign_test() -> None:
    """Siegel, Nonparametric Statistics (1956), page 70: 3 of 14, one-sided p = 0.029."""
    assert binomial_p(3, 14) == pytest.approx(2 * 470 / 2**14)
    assert binomial_p(11, 14) == binomial_p(3, 14)
    assert binomial_p(0, 0) == 1.0
    assert binomial_p(5, 10) == 1.0


def test_fishers_randomization_test() -> None:
    """Fisher, The Design of Experiments (1935), section 21: 863 of 32,768 sums are as large, in each direction."""
    found = paired_significance(DARWIN)
    assert found.method == "randomization"
    assert found.p_value == 2 * 863 / 2**15


def test_the_count_is_that_of_all_choices_of_signs() -> None:
    chance = random.Random(5)
    for _ in range(40):
        values = [chance.randint(-6, 6) for _ in range(chance.randint(2, 9))]
        total = abs(sum(values))
        sums = [
            sum(sign * value for sign, value in zip(signs, values, strict=True))
            for signs in itertools.product((1, -1), repeat=len(values))
        ]
        expected = sum(abs(each) >= total for each in sums) / len(sums)
        assert paired_significance(values).p_value == pytest.approx(expected, abs=1e-12)


def test_tests_that_both_win_alike_drop_out() -> None:
    found = paired_significance([1, 1, 1, 1, 1, 1, 0, 0, 0, -1])
    assert found.method == "mcnemar"
    assert found.p_value == pytest.approx(binomial_p(6, 7))
    assert paired_significance([0, 0]).p_value == 1.0


def test_many_tests_are_not_counted_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The normal approximation is near the exact value where both can be computed."""
    chance = random.Random(7)
    values = [chance.choice((-3, -2, -1, 1, 2, 3)) for _ in range(300)]
    values += [2] * 25
    exact = paired_significance(values)
    monkeypatch.setattr(significance, "MOST_WORK", 0)
    normal = paired_significance(values)
    assert (exact.method, normal.method) == ("randomization", "randomization-normal")
    assert normal.p_value == pytest.approx(exact.p_value, abs=0.005)


def test_a_hundred_thousand_tosses() -> None:
    """Against the normal approximation with continuity correction."""
    wins, tosses = 49_500, 100_000
    z = (tosses / 2 - wins - 0.5) / math.sqrt(tosses / 4)
    assert binomial_p(wins, tosses) == pytest.approx(math.erfc(z / math.sqrt(2)), rel=1e-3)


def test_holm() -> None:
    """The worked example of Wikipedia's article on the method."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01, 0.04], family=4) == pytest.approx([0.04, 0.12])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
