"""The matrix: its numbering is promptfoo's, its cells come one at a time, and a large one takes seconds."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.evals.config.written_evals import checked, read, settings, written
from tests.evals.config_runs import CONFIGS, SHARED
from tests.evals.result_cells import expected_cells

from headway.evals.config.eval_file import check_eval
from headway.evals.config.matrix import cell_count, cells, columns, row_count
from headway.evals.spec import EvalProvider, EvalSpec, PromptSpec, TestSpec

SMALL = """
    prompts: ['P1 {{x}}', 'P2 {{x}}']
    providers: [echo, openai:gpt-x]
    evaluateOptions: {repeat: 2}
    tests:
      - vars: {x: [a, b], y: [1, 2]}
      - vars: {x: c}
"""


def spec_of(prompts: int = 1, providers: int = 1, **fields: Any) -> EvalSpec:
    """An eval without a file."""
    return EvalSpec(
        path=Path("eval.yaml"),
        prompts=tuple(PromptSpec(raw=f"p{n}", label=f"group:p{n}") for n in range(prompts)),
        providers=tuple(EvalProvider(id=f"v{n}", provider="a", model="m") for n in range(providers)),
        **fields,
    )


def test_columns_are_counted_provider_by_provider_and_rows_by_repetition_and_combination(
    tmp_path: Path,
) -> None:
    spec = read(written(tmp_path, SMALL))
    found = [(one.test_index, one.repetition, one.vars["x"]) for one in cells(spec) if one.prompt_index == 0]
    assert found == [(0, 0, "a"), (1, 0, "b"), (2, 1, "a"), (3, 1, "b"), (4, 0, "c"), (5, 1, "c")]
    labels = [(one.prompt_index, one.provider, one.prompt) for one in columns(spec)]
    assert labels == [
        (0, "echo", "P1 {{x}}"), (1, "echo", "P2 {{x}}"), (2, "openai:gpt-x", "P1 {{x}}"), (3, "openai:gpt-x", "P2 {{x}}"),
    ]  # fmt: skip
    assert [one.index for one in cells(spec)] == list(range(24))
    assert (row_count(spec), cell_count(spec)) == (6, 24)


def test_a_list_of_numbers_is_one_value(tmp_path: Path) -> None:
    spec = read(written(tmp_path, SMALL))
    assert {str(one.vars.get("y")) for one in cells(spec)} == {"[1, 2]", "None"}


def test_the_last_list_changes_fastest() -> None:
    spec = spec_of(tests=(TestSpec(vars={"a": ["1", "2"], "b": ["x", "y"]}),))
    assert [(one.vars["a"], one.vars["b"]) for one in cells(spec)] == [
        ("1", "x"), ("1", "y"), ("2", "x"), ("2", "y"),
    ]  # fmt: skip


def test_a_row_counts_though_no_cell_of_it_runs() -> None:
    tests = (TestSpec(providers=("v1",)), TestSpec(providers=("other",)), TestSpec())
    spec = spec_of(providers=2, tests=tests)
    assert [(one.test_index, one.prompt_index) for one in cells(spec)] == [(0, 1), (2, 0), (2, 1)]
    assert (row_count(spec), cell_count(spec)) == (3, 3)


def test_columns_that_do_not_exist_are_not_counted() -> None:
    spec = spec_of(prompts=2, providers=2, tests=(TestSpec(),))
    first = EvalProvider(id="v0", provider="a", model="m", prompts=("group:p1",))
    spec = EvalSpec(
        path=spec.path, prompts=spec.prompts, providers=(first, spec.providers[1]), tests=spec.tests
    )
    assert [(one.prompt_index, one.provider, one.prompt) for one in cells(spec)] == [
        (0, 0, 1),
        (1, 1, 0),
        (2, 1, 1),
    ]


@pytest.mark.parametrize(
    ("reference", "count"),
    [("group:p1", 1), ("group", 2), ("group:*", 2), ("gro*", 2), ("gro", 0), ("p1", 0)],
)
def test_a_reference_is_a_label_a_group_or_a_beginning(reference: str, count: int) -> None:
    spec = spec_of(prompts=2, tests=(TestSpec(prompts=(reference,)),))
    assert cell_count(spec) == count == len(list(cells(spec)))


def test_a_test_has_repetitions_of_its_own() -> None:
    spec = spec_of(tests=(TestSpec(repeat=3), TestSpec()), repeat=2)
    assert [(one.test_index, one.repetition) for one in cells(spec)] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 0),
        (4, 1),
    ]
    assert row_count(spec) == 5


def test_cells_are_made_one_at_a_time() -> None:
    many = {f"v{n}": [str(value) for value in range(1000)] for n in range(4)}
    spec = spec_of(tests=(TestSpec(vars=many),))
    assert cell_count(spec) == 1000**4
    assert [one.index for one in islice(cells(spec), 3)] == [0, 1, 2]


def test_a_matrix_of_5000_rows_and_20_columns_takes_seconds() -> None:
    spec = spec_of(prompts=4, providers=5, tests=tuple(TestSpec(vars={"x": str(n)}) for n in range(5000)))
    started = time.process_time()
    assert sum(1 for _ in cells(spec)) == 100_000
    assert time.process_time() - started < 3.0


@pytest.mark.parametrize("name", SHARED)
def test_the_cells_of_the_shared_configurations_are_those_of_promptfoo(name: str) -> None:
    folder = CONFIGS / name
    config, environ = settings(folder), {"FAKE_URL": "http://127.0.0.1:8900"}
    found = check_eval(folder / "promptfooconfig.yaml", config=config, environ=environ)
    assert [one.message for one in found.problems] == []
    assert found.spec is not None
    keys = {f"{one.test_index}/{one.prompt_index}" for one in cells(found.spec)}
    assert keys == set(expected_cells(folder / "expected.json"))


def test_an_eval_without_cells_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL.replace("x: c}", "x: c}\n        providers: [nobody]"))
    assert checked(path).spec is None
