"""What a changed eval keeps: answers to requests that have not changed, also of graders and of later turns."""

from __future__ import annotations

from tests.evals.running.conftest import EvalRuns, named, prompt, rows_of
from tests.evals.running.test_cells import CHAT

from headway.evals.spec import AssertionSpec, EvalSpec

JUDGE = named("beta", "judge")


def graded(evals: EvalRuns, rubric: str = "is kind", threshold: float = 0.1, **fields: object) -> EvalSpec:
    asserts = (
        AssertionSpec(type="contains", value="{{x}}"),
        AssertionSpec(type="llm-rubric", value=rubric, threshold=threshold, grader=JUDGE),
    )
    return evals.spec(tests=rows_of(["one", "two"], asserts=asserts), **fields)


def newly_sent(evals: EvalRuns, spec: EvalSpec, **flags: bool) -> int:
    before = evals.sent()
    evals.run(spec, **flags)
    return evals.sent() - before


def test_the_same_eval_again_sends_nothing(evals: EvalRuns) -> None:
    assert newly_sent(evals, graded(evals)) == 4
    first = evals.cells()
    assert newly_sent(evals, graded(evals)) == 0
    assert evals.cells() == first


def test_a_changed_threshold_costs_no_request(evals: EvalRuns) -> None:
    newly_sent(evals, graded(evals))
    name = evals.job.name
    before = evals.cells()
    assert newly_sent(evals, graded(evals, threshold=0.2)) == 0
    assert evals.job.name != name
    after = evals.cells()
    assert [cell.output for cell in after] == [cell.output for cell in before]
    assert [cell.latency_ms for cell in after] == [cell.latency_ms for cell in before]
    assert all(cell.cached for cell in after)


def test_a_changed_rubric_asks_the_grader_alone(evals: EvalRuns) -> None:
    newly_sent(evals, graded(evals))
    assert newly_sent(evals, graded(evals, "is short")) == 2


def test_an_inserted_test_asks_for_itself_alone(evals: EvalRuns) -> None:
    rubric = AssertionSpec(type="llm-rubric", value="is kind", grader=JUDGE)
    newly_sent(evals, evals.spec(tests=rows_of(["one", "two"], asserts=(rubric,))))
    assert newly_sent(evals, evals.spec(tests=rows_of(["zero", "one", "two"], asserts=(rubric,)))) == 2


def test_turns_are_kept_up_to_the_first_that_changed(evals: EvalRuns) -> None:
    texts = ["one", "two", "three", "four"]
    assert newly_sent(evals, evals.spec(prompts=(prompt(CHAT),), tests=rows_of(texts))) == 4
    texts[2] = "changed"
    assert newly_sent(evals, evals.spec(prompts=(prompt(CHAT),), tests=rows_of(texts))) == 2


def test_fresh_and_without_cache_everything_is_asked_again(evals: EvalRuns) -> None:
    newly_sent(evals, graded(evals))
    assert newly_sent(evals, graded(evals), fresh=True) == 4
    assert newly_sent(evals, graded(evals, threshold=0.3, cached=False)) == 4


def test_each_repetition_keeps_an_answer_of_its_own(evals: EvalRuns) -> None:
    tests = rows_of(["one"])
    newly_sent(evals, evals.spec(tests=tests, repeat=3))
    assert newly_sent(evals, evals.spec(tests=tests, repeat=4)) == 1
