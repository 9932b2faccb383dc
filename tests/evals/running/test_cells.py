"""Cells of the matrix: their numbers, prompts, answers and grades."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.evals.running.conftest import EvalRuns, named, prompt, rows_of, settings

from headway.errors import HeadwayError
from headway.evals import spec as specs
from headway.evals.records import CellResult
from headway.evals.spec import AssertionSpec
from headway.testing import fake_provider

CONTAINS = AssertionSpec(type="contains", value="{{x}}")
CHAT = """[{% for turn in _conversation %}{"role": "user", "content": "{{turn.input}}"},
{"role": "assistant", "content": "{{turn.output}}"},{% endfor %}{"role": "user", "content": "{{x}}"}]"""


def verdicts(cells: list[CellResult]) -> set[tuple[str, str, str]]:
    return {(cell.status, cell.error, cell.reason) for cell in cells}


PASSED = {("pass", "", "all assertions passed")}


def test_every_cell_has_its_answer_and_its_grade(evals: EvalRuns) -> None:
    other = AssertionSpec(type="contains", negated=True, value="three")
    spec = evals.spec(
        prompts=(prompt("say {{x}}"), prompt("shout {{x}}")),
        providers=(named("alpha"), named("beta", "n")),
        tests=rows_of(["one", "two"], asserts=(CONTAINS, other)),
    )
    cells = evals.run(spec)
    assert [(cell.test_index, cell.prompt_index) for cell in cells] == [
        (row, column) for row in range(2) for column in range(4)
    ]
    assert [cell.prompt for cell in cells[:2]] == ["say one", "shout one"]
    assert [cell.lane for cell in cells[:4]] == ["alpha/m"] * 2 + ["beta/n"] * 2
    assert verdicts(cells) == PASSED
    assert (evals.code, evals.job.state) == (0, "complete")


def test_a_failed_assertion_is_no_failed_unit(evals: EvalRuns) -> None:
    cells = evals.run(evals.spec(tests=rows_of(["one"], asserts=(AssertionSpec(type="equals", value="no"),))))
    assert [cell.status for cell in cells] == ["fail"]
    assert (evals.code, evals.job.state) == (0, "complete")


def test_turns_of_a_conversation_see_the_turns_before_them(evals: EvalRuns) -> None:
    spec = evals.spec(
        prompts=(prompt(CHAT),),
        providers=(named("alpha"), named("beta")),
        tests=rows_of(["one", "two", "three"]),
    )
    cells = evals.run(spec)
    third = [cell.prompt for cell in cells if cell.test_index == 2]
    for text in third:
        assert text.count('"role":"user"') == 3
        assert text.index("one") < text.index("two") < text.index("three")
    assert {cell.status for cell in cells} == {"pass"}


def test_conversations_with_ids_are_apart(evals: EvalRuns) -> None:
    tests = tuple(
        specs.TestSpec(vars={"x": name}, metadata={"conversationId": name[0]}) for name in ("a1", "b1", "a2")
    )
    cells = evals.run(evals.spec(prompts=(prompt(CHAT),), tests=tests))
    assert "a1" in cells[2].prompt
    assert "b1" not in cells[2].prompt
    assert cells[1].prompt == "b1"


def test_a_stored_output_is_a_variable_of_later_tests(evals: EvalRuns) -> None:
    tests = (
        specs.TestSpec(vars={"x": "secret"}, store_output_as="first"),
        specs.TestSpec(
            vars={"x": "again: {{first}}"}, asserts=(AssertionSpec(type="contains", value="{{first}}"),)
        ),
    )
    cells = evals.run(evals.spec(tests=tests))
    assert cells[1].prompt == f"say again: {cells[0].output}"
    assert cells[1].vars["first"] == cells[0].output
    assert [cell.status for cell in cells] == ["pass", "pass"]


def test_a_failed_answer_is_an_error_and_its_later_turn_is_not_asked(evals: EvalRuns) -> None:
    with fake_provider(latency="2ms", faults=["500"]) as broken:
        text = settings(broken.openai_url).replace("[run]\n", "[run]\nmax_attempts = 1\n")
        (evals.root / "headway.toml").write_text(text)
        tests = rows_of(["one", "two"], asserts=(CONTAINS,))
        cells = evals.run(evals.spec(prompts=(prompt(CHAT),), tests=tests))
        assert [cell.status for cell in cells] == ["error", "error"]
        assert cells[0].error
        assert "0/0" in cells[1].error
        assert evals.code == 1
        assert broken.stats()["total"]["received"] == 1


def test_graders_have_lanes_of_their_own_and_their_cost_is_apart(evals: EvalRuns) -> None:
    rubric = AssertionSpec(type="llm-rubric", value="is kind to {{x}}", grader=named("beta", "judge"))
    evals.run(evals.spec(tests=rows_of(["one", "two"], asserts=(CONTAINS, rubric))))
    with evals.store() as store:
        routes = {(route.provider, route.label) for route in store.routes(evals.job.id)}
        asked = [result for result in store.results(evals.job.id, -1, 10) if "assert" in result.custom_id]
    assert routes == {("alpha", "answers"), ("beta", "graders")}
    assert [result.custom_id for result in asked] == ["0/0/assert1", "1/0/assert1"]


def test_a_grader_without_an_answer_is_an_error_of_the_cell(evals: EvalRuns) -> None:
    broken = named("beta", "judge", options={"max_tokens": -1})
    cells = evals.run(
        evals.spec(
            tests=rows_of(
                ["one"], asserts=(AssertionSpec(type="llm-rubric", value="is kind", grader=broken),)
            )
        )
    )
    assert [(cell.status, bool(cell.error)) for cell in cells] == [("error", True)]
    assert cells[0].output


def test_the_best_of_a_row_waits_for_all_its_cells(evals: EvalRuns) -> None:
    best = AssertionSpec(type="select-best", value="is shortest", grader=named("beta", "judge"))
    evals.run(
        evals.spec(providers=(named("alpha"), named("beta")), tests=rows_of(["one", "two"], asserts=(best,)))
    )
    with evals.store() as store:
        ids = [result.custom_id for result in store.results(evals.job.id, -1, 10)]
        edges = store.edges(evals.job.id, [ids.index("0/select-best")])
    assert ids == ["0/0", "0/1", "0/select-best", "1/0", "1/1", "1/select-best"]
    assert sorted(edge.before for edge in edges) == [0, 1]


def test_a_template_error_stops_before_anything_is_sent(evals: EvalRuns) -> None:
    sent = evals.sent()
    spec: Any = evals.spec(prompts=(prompt("say {{ x | nofilter }}"),), tests=rows_of(["one"]))
    with pytest.raises(HeadwayError, match="nofilter"):
        evals.run(spec)
    assert evals.sent() == sent


def test_a_grader_is_asked_by_the_api_that_its_id_names(evals: EvalRuns) -> None:
    judge = named("beta", "judge", endpoint="responses")
    rubric = AssertionSpec(type="llm-rubric", value="is kind", grader=judge)
    evals.run(evals.spec(tests=rows_of(["one"], asserts=(rubric,))))
    with evals.store() as store:
        [(_, _, _, path, body)] = store.unchanged.sent_requests(evals.job.id)
    assert path == "/v1/responses"
    assert json.loads(body).keys() == {"model", "input"}
