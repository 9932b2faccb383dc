"""Code of an eval: what it is given, what its value is used for, and what its failure is."""

from __future__ import annotations

from tests.evals.running.conftest import EvalRuns, named, prompt, rows_of

from headway.evals import spec as specs
from headway.evals.spec import AssertionSpec, Code


def python(source: str) -> Code:
    return Code(language="python", source=source)


def test_transforms_follow_each_other_and_assertions_see_the_last(evals: EvalRuns) -> None:
    test = specs.TestSpec(
        vars={"x": "one"},
        transform=python("output + '!' + context['vars']['x']"),
        asserts=(
            AssertionSpec(type="equals", value="ECHO: SAY ONE!one"),
            AssertionSpec(type="equals", value="17", transform=python("str(len(output))")),
            AssertionSpec(
                type="python", code=python("output.endswith('!one') and context['vars']['x'] == 'one'")
            ),
        ),
    )
    [cell] = evals.run(
        evals.spec(providers=(named("alpha", transform=python("output.upper()")),), tests=(test,))
    )
    assert (cell.status, cell.reason, cell.output) == ("pass", "all assertions passed", "ECHO: SAY ONE!one")
    with evals.store() as store:
        ids = [result.custom_id for result in store.results(evals.job.id, -1, 10)]
    assert ids == [
        "0/0", "0/0/provider-transform", "0/0/transform", "0/0/assert1.transform", "0/0/assert2",
    ]  # fmt: skip


def test_variables_are_changed_and_computed_once_a_row(evals: EvalRuns) -> None:
    test = specs.TestSpec(
        vars={"x": "one"},
        transform_vars=python("{**vars, 'y': vars['x'] * 2}"),
        asserts=(AssertionSpec(type="contains", value="{{y}}"),),
    )
    cells = evals.run(
        evals.spec(prompts=(prompt("say {{y}}"),), providers=(named("alpha"), named("beta")), tests=(test,))
    )
    assert [(cell.prompt, cell.status, cell.vars["y"]) for cell in cells] == [
        ("say oneone", "pass", "oneone")
    ] * 2
    assert evals.job.total == 3


def test_a_stored_output_is_the_transformed_one(evals: EvalRuns) -> None:
    tests = (
        specs.TestSpec(vars={"x": "one"}, transform=python("'kept'"), store_output_as="first"),
        specs.TestSpec(vars={"x": "{{first}}"}),
    )
    cells = evals.run(evals.spec(tests=tests))
    assert cells[1].prompt == "say kept"


def test_code_that_fails_is_an_error_of_its_cell_alone(evals: EvalRuns) -> None:
    broken = AssertionSpec(type="python", code=python("1 / (0 if 'one' in output else 1)"))
    cells = evals.run(evals.spec(tests=rows_of(["one", "two"], asserts=(broken,))))
    assert [cell.status for cell in cells] == ["error", "pass"]
    assert "division by zero" in cells[0].error
    assert cells[0].output
    assert evals.code == 1


def test_changed_code_is_run_again_and_answers_are_kept(evals: EvalRuns) -> None:
    first = AssertionSpec(type="python", code=python("len(output) > 3"))
    evals.run(evals.spec(tests=rows_of(["one"], asserts=(first,))))
    sent = evals.sent()
    second = AssertionSpec(type="python", code=python("len(output) > 300"))
    [cell] = evals.run(evals.spec(tests=rows_of(["one"], asserts=(second,))))
    assert evals.sent() == sent
    assert cell.status == "fail"
    assert cell.cached
