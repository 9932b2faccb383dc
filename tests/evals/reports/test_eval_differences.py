"""Two evals compared: what got better, worse, changed, new and gone, and whether it is noise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.evals.reports.eval_views import cell, column, matrix, view

from headway.evals.records import CellResult, Column, EvalView
from headway.reports.evals.differences import eval_differences
from headway.reports.evals.matching import matched_columns
from headway.reports.evals.significance import binomial_p


def one_column(*cells: CellResult) -> EvalView:
    return view(cells, [column(0)])


def test_every_kind_of_change() -> None:
    first = one_column(
        cell(0, 0, "fail"), cell(1, 0), cell(2, 0, output="yes"), cell(3, 0, output="a b"), cell(4, 0, "error"), cell(5, 0)
    )  # fmt: skip
    second = one_column(
        cell(0, 0), cell(1, 0, "fail"), cell(2, 0, output="no"), cell(3, 0, output=" a b\n"), cell(4, 0), cell(6, 0)
    )  # fmt: skip
    report = eval_differences(first, second)
    assert report.changes == {
        "better": 1,
        "worse": 1,
        "changed": 1,
        "same": 1,
        "unjudged": 1,
        "new": 1,
        "gone": 1,
    }
    assert [one.kind for one in report.cells] == ["worse", "better", "changed"]
    changed = report.cells[2]
    assert (changed.first.output, changed.second.output, changed.vars) == ("yes", "no", {"x": "v2"})


def test_tests_are_matched_by_what_they_are_and_not_by_their_place() -> None:
    first = one_column(cell(0, 0, vars={"x": "a", "y": 1}), cell(1, 0, vars={"x": "b"}, description="two"))
    second = one_column(cell(0, 0, vars={"x": "b"}, description="two"), cell(1, 0, vars={"y": 1, "x": "a"}))
    assert eval_differences(first, second).changes == {"same": 2}
    other = one_column(cell(0, 0, vars={"x": "b"}, description="another"))
    assert eval_differences(first, other).changes == {"new": 1, "gone": 2}


def test_the_same_test_twice_is_matched_in_order() -> None:
    first = one_column(cell(0, 0, vars={}), cell(1, 0, "fail", vars={}))
    second = one_column(cell(0, 0, vars={}), cell(1, 0, vars={}))
    assert eval_differences(first, second).changes == {"same": 1, "better": 1}


def test_stored_outputs_do_not_make_a_test_another_one() -> None:
    config = {"tests": [{"options": {"storeOutputAs": "joke"}}, {"vars": {"x": "a"}}]}
    first = view([cell(0, 0, vars={"x": "a", "joke": "ha"})], config=config)
    second = view([cell(0, 0, vars={"x": "a", "joke": "haha"})], config=config)
    assert eval_differences(first, second).changes == {"same": 1}


def test_the_form_of_json_does_not_matter() -> None:
    first = one_column(
        cell(0, 0, output='{"a": 1, "b": [2]}'), cell(1, 0, output={"a": 1}), cell(2, 0, output="{a")
    )
    second = one_column(
        cell(0, 0, output='{"b":[2],"a":1}'), cell(1, 0, output={"a": 1}), cell(2, 0, output="{b")
    )
    assert eval_differences(first, second).changes == {"same": 2, "changed": 1}


def test_a_paired_test_says_whether_it_is_noise() -> None:
    report = eval_differences(matrix("f" * 9 + "p" * 11, "p" * 20), matrix("p" * 20, "p" * 18 + "ff"))
    first, second = (one.comparison for one in report.columns)
    assert first is not None
    assert second is not None
    assert first.p_value == pytest.approx(binomial_p(0, 9))
    assert first.corrected_p == pytest.approx(2 * binomial_p(0, 9)), "two columns are two questions"
    assert (first.winner, second.winner) == (2, None)
    assert (first.first_rate, first.second_rate) == (0.55, 1.0)


def test_repetitions_belong_to_their_test() -> None:
    def source(*passes: int) -> EvalView:
        return one_column(
            *(
                cell(3 * test + again, 0, "pass" if again < number else "fail", test=test, repetition=again, vars={"x": test})
                for test, number in enumerate(passes)
                for again in range(3)
            )
        )  # fmt: skip

    [only] = eval_differences(source(0, 1, 3), source(3, 3, 3)).columns
    assert only.changes == {"better": 5, "same": 4}
    assert only.comparison is not None
    assert (only.comparison.tests, only.comparison.second_better, only.comparison.equal) == (3, 2, 1)


def test_at_most_so_many_cells_of_a_kind_are_kept() -> None:
    first, second = matrix("p" * 8 + "f" * 8), matrix("f" * 8 + "p" * 8)
    report = eval_differences(first, second, 3)
    assert [one.kind for one in report.cells] == ["worse"] * 3 + ["better"] * 3
    assert len(eval_differences(first, second, 0).cells) == 16


OLD, NEW = "Say {{x}}", "Please say {{x}}"


@pytest.mark.parametrize(
    ("first", "second", "pairs", "gone", "new"),
    [
        (["a " + OLD, "b " + OLD], ["b " + OLD, "a " + OLD], ["a a", "b b"], "", ""),
        (["a " + OLD, "b " + OLD], ["a " + NEW, "b " + NEW], ["a a", "b b"], "", ""),
        (["a " + OLD, "a " + NEW], ["c " + NEW, "c " + OLD], ["a c", "a c"], "", ""),
        (["a " + OLD], ["z " + NEW], ["a z"], "", ""),
        (["a " + OLD, "b " + OLD], ["a " + OLD], ["a a"], "b", ""),
        (["a " + OLD], ["a " + OLD, "a " + NEW, "b " + OLD], ["a a"], "", "ab"),
        (["a " + OLD, "b " + OLD], ["c " + NEW, "d " + NEW], [], "ab", "cd"),
    ],
)
def test_columns_are_matched_where_there_is_no_choice(
    first: Sequence[str], second: Sequence[str], pairs: Sequence[str], gone: str, new: str
) -> None:
    found, rest, other_rest = matched_columns(columns(first), columns(second))
    assert [f"{one.provider} {other.provider}" for one, other in found] == pairs
    assert "".join(one.provider for one in rest) == gone
    assert "".join(one.provider for one in other_rest) == new


def columns(texts: Sequence[str]) -> list[Column]:
    return [column(index, *text.split(" ", 1)) for index, text in enumerate(texts)]
