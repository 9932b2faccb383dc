"""How many items the lists of a flow have before it runs: known ones, those of the last run, assumed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headway.flows.flow_file import load_flow
from headway.forecast.list_sizes import FIRST_ITEMS, ListSize, list_sizes

NODE = "kind: tool, impl: ./tool.py:main"
FLOW = f"""
state:
  schema:
    given: {{type: array}}
    records: {{type: array}}
    found: {{type: array}}
    letters: {{type: array}}
    touched: {{type: array}}
    done: {{type: boolean}}
    small: {{type: array, default: [1, 2]}}
graph:
  nodes:
  - {{id: rows, kind: dataset, file: ./rows.jsonl, writes: [records]}}
  - {{id: fetch, {NODE}, writes: [found]}}
  - {{id: literal, {NODE}, for_each: {{source: [a, b, c]}}, writes: [letters]}}
  - {{id: of_input, {NODE}, for_each: {{source: $.given}}}}
  - {{id: of_default, {NODE}, for_each: {{source: $.small}}}}
  - {{id: of_rows, {NODE}, for_each: {{source: $.records}}, writes: [touched]}}
  - {{id: again, {NODE}, for_each: {{source: $.touched}}}}
  - {{id: of_letters, {NODE}, for_each: {{source: $.letters}}}}
  - {{id: of_answer, {NODE}, for_each: {{source: $.found}}}}
  - {{id: stage, {NODE}}}
  - {{id: edit, {NODE}, writes: [done]}}
  - {{id: turn, {NODE}}}
  pipelines:
  - {{id: pipe, items: $.records, stages: [stage]}}
  loops:
  - {{id: until_done, body: [edit], until: $.done == true, max_iters: 7}}
  - {{id: three_times, body: [turn], max_iters: 3}}
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    (tmp_path / "tool.py").write_text("def main(given): return given\n")
    (tmp_path / "rows.jsonl").write_text("{}\n" * 40)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.yaml"


def sizes(flow: Path, last: dict[str, int] | None = None, **inputs: Any) -> dict[str, ListSize]:
    return list_sizes(load_flow(flow), inputs, {"rows": 40}, (last or {}).get)


def test_what_the_file_and_the_user_say_is_known(flow: Path) -> None:
    found = sizes(flow, given=[1, 2, 3, 4])
    assert {name: one.count for name, one in found.items() if one.known} == {
        "literal": 3,
        "of_input": 4,
        "of_default": 2,
        "of_rows": 40,
        "again": 40,
        "of_letters": 3,
        "pipe": 40,
        "three_times": 3,
    }


def test_what_answers_decide_is_that_of_the_last_run(flow: Path) -> None:
    found = sizes(flow, {"of_answer": 120, "until_done": 2, "of_rows": 9}, given=[])
    assert found["of_answer"] == ListSize(120, False, "120 items as in the last run")
    assert found["until_done"] == ListSize(2, False, "2 iterations as in the last run")
    assert found["of_rows"].count == 40


def test_without_a_last_run_a_number_is_assumed(flow: Path) -> None:
    found = sizes(flow, given=[])
    assert found["of_answer"] == ListSize(FIRST_ITEMS, False, "10 items assumed")
    assert (found["until_done"].count, found["until_done"].known) == (7, False)
