"""What a unit will take: learned from what was reported, by family, and forgotten in time."""

from __future__ import annotations

import msgspec
import pytest

from headway.core.lanes.estimate import (
    ENOUGH,
    FIRST_OUTPUT,
    FIRST_RATIO,
    FIRST_RESERVE,
    FIRST_SHARE,
    KEPT,
    LASTING_FAMILIES,
    MARGIN,
    MOST_FAMILIES,
    Estimator,
    EstimatorRecord,
)
from headway.core.model import Usage


def learned(outputs: list[float], family: str = "", estimator: Estimator | None = None) -> Estimator:
    """An estimator that has seen these outputs."""
    estimator = estimator or Estimator()
    for tokens in outputs:
        estimator.learn(400, family, Usage(input_tokens=100.0, output_tokens=tokens))
    return estimator


def expected(estimator: Estimator, family: str = "", max_tokens: float = 0.0) -> float:
    return estimator.estimate(400, max_tokens, family).output_tokens


def most(estimator: Estimator, family: str = "", max_tokens: float = 0.0) -> float:
    return estimator.estimate(400, max_tokens, family).max_output_tokens


def test_before_anything_is_reported_four_characters_are_a_token() -> None:
    estimate = Estimator().estimate(1000)
    assert estimate.input_tokens == pytest.approx(1000.0 / FIRST_RATIO)
    assert (estimate.output_tokens, estimate.max_output_tokens) == (FIRST_OUTPUT, FIRST_OUTPUT)


def test_before_anything_is_reported_a_share_of_the_maximum_is_expected() -> None:
    estimate = Estimator().estimate(1000, 2000.0)
    assert (estimate.output_tokens, estimate.max_output_tokens) == (FIRST_SHARE * 2000.0, 2000.0)


def test_the_price_is_passed_on() -> None:
    assert Estimator().estimate(1000, usd=0.25).cost_usd == 0.25


def test_the_first_report_counts_in_full() -> None:
    estimator = Estimator()
    estimator.learn(300, "", Usage(input_tokens=100.0))
    assert estimator.estimate(600).input_tokens == pytest.approx(200.0)


def test_the_ratio_converges_to_the_reported_usage() -> None:
    estimator = learned([10.0] * 50)
    for place in range(200):
        estimator.learn(1000, "", Usage(input_tokens=500.0 if place % 2 else 400.0))
    assert estimator.estimate(9000).input_tokens == pytest.approx(4000.0, rel=0.03)


@pytest.mark.parametrize("usage", [Usage(), Usage(output_tokens=5.0)])
def test_a_report_without_an_input_leaves_the_ratio_alone(usage: Usage) -> None:
    estimator = Estimator()
    estimator.learn(300, "", usage)
    assert estimator.estimate(1000).input_tokens == pytest.approx(1000.0 / FIRST_RATIO)


def test_the_median_is_expected_and_a_high_quantile_stands_in_for_the_maximum() -> None:
    estimator = learned([float(tokens) for tokens in range(1, 101)])
    assert expected(estimator) == pytest.approx(51.0)
    assert most(estimator) == pytest.approx(96.0)


def test_a_family_speaks_for_itself() -> None:
    estimator = learned([10.0] * 20, "short")
    learned([900.0] * 20, "long", estimator)
    assert expected(estimator, "short") == 10.0
    assert expected(estimator, "long") == 900.0


@pytest.mark.parametrize(("seen", "speaks"), [(ENOUGH - 1, False), (ENOUGH, True)])
def test_a_new_family_uses_the_outputs_of_the_lane_until_it_has_enough(seen: int, speaks: bool) -> None:
    estimator = learned([10.0] * 50, "old")
    learned([900.0] * seen, "new", estimator)
    assert (expected(estimator, "new") == 900.0) is speaks
    assert (expected(estimator, "new") == 10.0) is not speaks


def test_an_unseen_family_uses_the_outputs_of_the_lane() -> None:
    assert expected(learned([10.0] * 50, "old"), "unseen") == 10.0


def test_a_few_outputs_say_nothing_yet() -> None:
    assert expected(learned([10.0] * (ENOUGH - 1))) == FIRST_OUTPUT


def test_no_more_than_the_maximum_is_expected() -> None:
    estimator = learned([900.0] * 20)
    assert expected(estimator, max_tokens=500.0) == 500.0
    assert most(estimator, max_tokens=500.0) == 500.0


def test_a_larger_maximum_changes_nothing_that_is_expected() -> None:
    assert expected(learned([900.0] * 20), max_tokens=5000.0) == 900.0


def test_old_outputs_are_dropped() -> None:
    estimator = learned([900.0] * KEPT + [10.0] * KEPT)
    assert (expected(estimator), most(estimator)) == (10.0, 10.0)


def test_until_then_it_counts_by_its_share() -> None:
    estimator = learned([900.0] * KEPT + [10.0] * (KEPT // 4))
    assert (expected(estimator), most(estimator)) == (900.0, 900.0)


def test_a_family_a_row_takes_a_bounded_memory() -> None:
    estimator = Estimator()
    for row in range(3 * MOST_FAMILIES):
        learned([50.0], f"row {row}", estimator)
    learned([900.0] * 20, "late", estimator)
    assert expected(estimator, "late") == 50.0
    for row in range(3 * MOST_FAMILIES):
        learned([50.0] * (ENOUGH - 1), f"row {row}", estimator)
    assert len(estimator.export().outputs) <= MOST_FAMILIES + 1


def test_an_export_says_the_same_to_the_next_run() -> None:
    old = learned([float(tokens) for tokens in range(1, 101)], "prompt")
    learned([float(tokens) for tokens in range(1001, 1011)], "other", old)
    record = msgspec.json.decode(msgspec.json.encode(old.export()), type=EstimatorRecord)
    assert record == old.export()
    new = Estimator()
    new.recall(record)
    assert new.estimate(400).input_tokens == old.estimate(400).input_tokens
    for family in ("prompt", "other", "unseen"):
        assert expected(new, family) == pytest.approx(expected(old, family))
    for family in ("prompt", "other"):
        assert most(new, family) == pytest.approx(most(old, family), rel=0.1)


def test_a_family_of_which_little_is_known_is_not_exported() -> None:
    assert set(learned([10.0] * (ENOUGH - 1), "young").export().outputs) == set()


def test_new_outputs_soon_outweigh_an_earlier_run() -> None:
    new = Estimator()
    new.recall(learned([900.0] * KEPT, "prompt").export())
    learned([10.0] * 2 * ENOUGH, "prompt", new)
    assert expected(new, "prompt") == 10.0


def test_a_ratio_from_an_earlier_run_can_still_change() -> None:
    new = Estimator()
    new.recall(learned([10.0] * 5000).export())
    for _ in range(100):
        new.learn(200, "", Usage(input_tokens=100.0))
    assert new.estimate(200).input_tokens == pytest.approx(100.0, rel=0.02)


# -- what money is set aside for ------------------------------------------------------------------------------------


def test_a_reservation_follows_the_answers_of_its_family_only() -> None:
    estimator = Estimator()
    assert estimator.reserve("a") == FIRST_RESERVE
    for tokens in (10.0, 20.0, 30.0, 40.0) * 2:
        assert not estimator.knows("a")
        estimator.learn(100, "a", Usage(25.0, tokens))
    assert estimator.knows("a")
    assert estimator.reserve("a") == MARGIN * 40.0
    assert (estimator.knows("b"), estimator.reserve("b")) == (False, FIRST_RESERVE), (
        "another prompt is another matter"
    )


def test_a_long_answer_raises_it_at_once_and_a_rare_one_is_forgiven() -> None:
    estimator = Estimator()
    estimator.learn(100, "a", Usage(25.0, 5_000.0))
    assert estimator.reserve("a") == MARGIN * 5_000.0
    for _ in range(200):
        estimator.learn(100, "a", Usage(25.0, 100.0))
    assert estimator.reserve("a") == MARGIN * 100.0


def test_one_long_answer_of_this_run_outweighs_earlier_jobs() -> None:
    estimator = Estimator()
    estimator.add_outputs("a", [4.0] * 200)
    assert (estimator.knows("a"), estimator.proven("a"), estimator.reserve("a")) == (
        True,
        False,
        MARGIN * 4.0,
    )
    estimator.learn(100, "a", Usage(25.0, 900.0))
    assert estimator.reserve("a") == MARGIN * 900.0
    for _ in range(ENOUGH - 1):
        estimator.learn(100, "a", Usage(25.0, 4.0))
    assert (estimator.proven("a"), estimator.reserve("a")) == (True, MARGIN * 900.0)


def test_a_record_takes_along_the_families_that_were_learned_of_last() -> None:
    old = Estimator()
    old.add_outputs("first", [7.0] * ENOUGH)
    for number in range(LASTING_FAMILIES):
        for _ in range(ENOUGH):
            old.learn(100, f"f{number}", Usage(25.0, 50.0))
    new = Estimator()
    new.recall(old.export())
    assert new.knows("f0")
    assert not new.knows("first")


def test_the_input_set_aside_is_all_bytes_until_enough_were_seen() -> None:
    estimator = Estimator()
    for _ in range(ENOUGH):
        assert estimator.input_reserve("a", 400.0, exact=True) == 400.0
        estimator.learn(400, "a", Usage(100.0, 1.0), 400.0)
    assert estimator.input_reserve("a", 400.0, exact=True) == 200.0
    assert estimator.input_reserve("b", 400.0, exact=True) == 400.0
    estimator.learn(400, "a", Usage(300.0, 1.0), 400.0)
    assert estimator.input_reserve("a", 400.0, exact=True) == 400.0, "never more than it can be"


def test_the_input_of_a_file_is_estimated_from_earlier_files() -> None:
    estimator = Estimator()
    assert estimator.input_reserve("a", 2_000.0, exact=False) == 2_000.0
    assert (estimator.inputs_seen("a"), estimator.inputs_seen("b")) == (0, 0)
    estimator.learn(4_000, "a", Usage(25_000.0, 1.0), 2_000.0)
    assert estimator.input_reserve("a", 2_000.0, exact=False) == 50_000.0
    assert estimator.inputs_seen("a") == 1


def test_outputs_of_earlier_runs_that_come_late_prove_nothing_about_this_run() -> None:
    estimator = learned([100.0] * (ENOUGH - 1), "a")
    estimator.add_outputs("a", [5_000.0] * ENOUGH)
    assert estimator.knows("a")
    assert not estimator.proven("a")
    learned([100.0], "a", estimator)
    assert estimator.proven("a")
    assert estimator.reserve("a") == MARGIN * 5_000.0
