"""What earlier answers teach, in plain numbers."""

from __future__ import annotations

from random import Random

import pytest

from headway.forecast.answer_model import (
    ASSUMED,
    AnswerModel,
    Line,
    line_through,
    model_of,
    model_of_new_prompts,
    model_of_other_rows,
)
from headway.stores.records import UsageSample

LIKELY = (1.0, 1.0, 1.0)


def lessons(n: int, **fixed: int) -> list[UsageSample]:
    """Texts of four characters a token and three tokens more, answers half as long as texts, 0.2 s and 10 ms a token."""
    chance = Random(n)
    found = []
    for _ in range(n):
        chars = fixed.get("chars") or chance.randrange(40, 4000)
        output = fixed.get("output") or chars // 8
        found.append(UsageSample(chars, 0, 3 + chars // 4, output, chars // 8, 0.2 + 0.01 * output))
    return found


def test_a_line_is_fitted_with_its_residuals() -> None:
    line = line_through([1.0, 2.0, 3.0, 4.0], [3.1, 4.9, 7.1, 8.9])
    assert line.at(5.0) == pytest.approx(10.9, abs=0.1)
    assert sum(line.left) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        ([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]),
        ([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 1.0, 2.0]),
    ],
    ids=["one x", "falling", "explains nothing"],
)
def test_a_slope_that_says_nothing_is_none(xs: list[float], ys: list[float]) -> None:
    line = line_through(xs, ys)
    assert line.base == pytest.approx(2.0)
    assert line.slope == 0.0


def test_a_line_begins_above_nothing() -> None:
    line = line_through([10.0, 20.0], [1.0, 11.0])
    assert line.base == 0.0
    assert line.at(15.0) == pytest.approx(6.0), "the mean stays what it was"


def test_too_few_answers_teach_nothing() -> None:
    assert model_of(lessons(7)) is ASSUMED
    assert model_of(lessons(8)).answers == 8


def test_observed_usage_is_expected_again() -> None:
    model = model_of(lessons(200))
    assert model.input_tokens(10, 10_000, LIKELY) == pytest.approx(2530, rel=0.01)
    drawn = model.draw(1600, 0, LIKELY, Random(1).random)
    assert drawn.output_tokens == pytest.approx(200, rel=0.02)
    assert drawn.took_s == pytest.approx(2.2, rel=0.02)
    assert drawn.cached_tokens == pytest.approx(drawn.input_tokens / 2.0, rel=0.02)


def test_the_mean_of_many_draws_is_the_mean_that_was_seen() -> None:
    seen = [UsageSample(100, 0, 25, length, 0, 0.1 + chance) for length, chance in zip(range(1, 101), (0.1, 0.4, 0.9, 0.2) * 25, strict=True)]  # fmt: skip
    model, chance = model_of(seen), Random(3).random
    drawn = [model.draw(100, 0, LIKELY, chance) for _ in range(4000)]
    assert sum(one.output_tokens for one in drawn) / 4000 == pytest.approx(50.5, rel=0.03)
    assert sum(one.took_s for one in drawn) / 4000 == pytest.approx(0.5, rel=0.03)


def test_no_answer_is_longer_than_it_may_be() -> None:
    model = model_of(lessons(50, output=100))
    assert model.draw(400, 30, LIKELY, Random(1).random).output_tokens == 30.0
    assert model.draw(400, -1, LIKELY, Random(1).random).output_tokens == 0.0, "an embedding has none"


def test_doubt_shrinks_with_more_samples() -> None:
    def doubt(n: int) -> float:
        chance = Random(5)
        return model_of([UsageSample(100, 0, 25, chance.randrange(1, 200), 0, 1.0) for _ in range(n)]).doubts[
            1
        ][1]

    assert doubt(10) > doubt(100) > doubt(1000) > 1.02


def test_without_samples_the_ranges_are_wide() -> None:
    low, likely, high = (
        ASSUMED.draw(400, 100, ASSUMED.variants[mind], Random(1).random)
        for mind in ("low", "estimate", "high")
    )
    assert (low.output_tokens, likely.output_tokens, high.output_tokens) == (1.0, 25.0, 100.0)
    assert (low.input_tokens, likely.input_tokens) == (80.0, 100.0)
    assert low.took_s < likely.took_s / 2 < high.took_s / 4
    assert ASSUMED.draw(400, 0, LIKELY, Random(1).random).output_tokens == 256.0


def test_models_are_plain_records() -> None:
    assert AnswerModel(8, Line(0.0), Line(1.0), Line(1.0)).variants["low"] == (0.8, 1 / 1024, 0.35)


def test_another_prompt_tells_the_speed_of_a_model_and_not_the_length_of_answers() -> None:
    essays = [UsageSample(100, 0, 25, length, 0, 0.5 + 0.01 * length) for length in range(600, 1200)]
    new = model_of_new_prompts(essays)
    assert (new.answers, new.others) == (0, 600)
    assert new.input.at(400) == pytest.approx(25.0), "the tokens of a text, as far as they were seen"
    low, likely, high = (
        new.draw(100, 0, new.variants[mind], lambda: 0.5) for mind in ("low", "estimate", "high")
    )
    assert low.output_tokens == 1.0
    assert likely.output_tokens == 256.0
    assert high.output_tokens == 4096.0
    assert likely.took_s == pytest.approx(0.5 + 2.56, rel=0.01)


def test_answers_of_one_length_say_nothing_about_the_time_of_longer_ones() -> None:
    new = model_of_new_prompts([UsageSample(100, 0, 25, 1, 0, 0.3)] * 50)
    assert new.draw(100, 0, LIKELY, lambda: 0.5).took_s > 2.0
    assert model_of_new_prompts([UsageSample(100, 0, 25, 1, 0, 0.3)] * 7) is ASSUMED


def test_doubt_includes_the_variance_of_the_planned_units() -> None:
    seen = [UsageSample(100, 0, 25, length, 0, 1.0) for length in (1, 400) * 500]
    doubts = [model_of(seen, planned).doubts[1][1] for planned in (10, 1000, 0)]
    assert doubts[0] > doubts[1] > doubts[2]


def test_the_mean_is_no_draw() -> None:
    seen = [UsageSample(100, 0, 25, length, 0, 1.0) for length in (1, 1, 1, 1, 1, 1, 1, 1, 1, 991)]
    assert model_of(seen).mean(100, 0, LIKELY).output_tokens == pytest.approx(100.0)
    assert model_of(seen).mean(100, 50, LIKELY).output_tokens == 50.0
    assert model_of(seen).mean(100, -1, LIKELY).output_tokens == 0.0


# -- answers that were cut off ------------------------------------------------------------------------------------------


def limited(n: int, max_tokens: int, output: int) -> list[UsageSample]:
    return [UsageSample(80, max_tokens, 20, output, 0, 1.0) for _ in range(n)]


def outputs(model: AnswerModel, max_tokens: int) -> tuple[float, float, float]:
    variants = model.variants
    low, likely, high = (
        model.mean(80, max_tokens, variants[name]).output_tokens for name in ("low", "estimate", "high")
    )
    return low, likely, high


def test_answers_that_were_cut_off_may_be_longer_where_they_have_more_room() -> None:
    model = model_of(limited(150, 130, 130), 150, 250)
    low, likely, high = outputs(model, 250)
    assert low <= 130.0 < likely < 250.0
    assert high == 250.0
    assert model.cut_off == 1.0
    assert model.variants["high"][2] >= 250 / 130, "and take longer"


def test_some_that_were_cut_off_open_the_range_by_as_much() -> None:
    model = model_of(limited(50, 130, 130) + limited(50, 130, 70), 100, 260)
    low, likely, high = outputs(model, 260)
    assert 85.0 < low < 100.0, "what was seen"
    assert likely == pytest.approx(122.0, rel=0.05)
    assert 150.0 <= high <= 175.0
    assert model.cut_off == 0.5


@pytest.mark.parametrize("limit", [130, 100, None])
def test_no_more_room_is_no_longer_answer(limit: int | None) -> None:
    model = model_of(limited(150, 130, 130), 150, limit)
    assert model.cut_off == 0.0
    assert outputs(model, 130)[2] <= 130.0


def test_without_any_limit_they_may_have_any_length() -> None:
    assert outputs(model_of(limited(50, 130, 130), 50, 0), 0)[2] >= 16 * 130


def test_answers_with_as_much_room_tell_more_than_those_cut_off() -> None:
    model = model_of(limited(50, 130, 130) + limited(20, 250, 180), 100, 250)
    _, likely, high = outputs(model, 250)
    assert likely == pytest.approx(180.0)
    assert high < 200.0
    assert (model.cut_off, model.answers) == (0.0, 20)


def test_the_beginning_of_a_file_that_goes_on_otherwise_tells_little() -> None:
    model = model_of_other_rows(limited(20, 2_000, 900), 280)
    low, likely, high = outputs(model, 2_000)
    assert low < 10.0
    assert likely == pytest.approx(900.0)
    assert high == 2_000.0
    assert model.other_rows
    assert model_of_other_rows(limited(7, 2_000, 900)) is ASSUMED
