"""The state: merges, their order, conflicts, and the shape of answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flows.running.steps.memory_run import Good, MemoryRun, flow, node

from headway.flows.spec import AUTO, Dependency, ForEach, StateField

APPEND = {"x": StateField(name="x", merge="array_append")}


def ended(run: MemoryRun, answers: dict[str, Any]) -> dict[str, Any]:
    """The state after these units have ended in this order."""
    run.advance()
    for unit, answer in answers.items():
        run.advance({unit: Good(answer)})
    return run.state


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_last_wins_follows_the_order_of_the_flow_not_of_the_ends(order: tuple[str, ...]) -> None:
    run = MemoryRun(flow(node("a", writes=("x",)), node("b", writes=("x",))))
    assert ended(run, {name: name for name in order}) == {"x": "b"}


@pytest.mark.parametrize("order", [("a", "b[0]", "b[1]", "c"), ("c", "b[1]", "b[0]", "a")])
def test_array_append_has_the_order_of_the_flow_and_of_iterations(order: tuple[str, ...]) -> None:
    """A list is spliced, any other value is one element; each iteration's value is one element."""
    each = ForEach(items=(1, 2), concurrency=AUTO)
    spec = flow(
        node("a", writes=("x",)),
        node("b", writes=("x",), for_each=each),
        node("c", writes=("x",)),
        fields=APPEND,
    )
    answers = {"a": ["a1", "a2"], "b[0]": ["b0"], "b[1]": "b1", "c": "c"}
    state = ended(MemoryRun(spec), {unit: answers[unit] for unit in order})
    assert state == {"x": ["a1", "a2", ["b0"], "b1", "c"]}


def test_array_append_begins_with_what_was_given_or_else_with_the_default() -> None:
    fields = {"x": StateField(name="x", merge="array_append", has_default=True, default=[0])}
    spec = flow(node("a", writes=("x",)), fields=fields)
    assert MemoryRun(spec).state == {"x": [0]}
    assert ended(MemoryRun(spec), {"a": [1]}) == {"x": [0, 1]}
    assert ended(MemoryRun(spec, {"x": [5]}), {"a": [1]}) == {"x": [5, 1]}


def test_a_default_is_there_until_something_is_written() -> None:
    spec = flow(node("a", writes=("x",)), fields={"x": StateField(name="x", has_default=True, default=7)})
    assert MemoryRun(spec).state == {"x": 7}
    assert ended(MemoryRun(spec), {"a": 8}) == {"x": 8}


def test_a_set_once_conflict_names_both_writers() -> None:
    fields = {"x": StateField(name="x", merge="set_once")}
    run = MemoryRun(flow(node("a", writes=("x",)), fields=fields), {"x": 1})
    assert ended(run, {"a": 2}) == {"x": 1}
    assert run.run.nodes()["a"].reason == "'x' can be set once, but the input and a both write it"
    both = MemoryRun(flow(node("a", writes=("x",)), node("b", "a", writes=("x",)), fields=fields))
    assert ended(both, {"a": 1, "b": 2}) == {"x": 1}
    assert both.run.nodes()["b"].reason == "'x' can be set once, but a and b both write it"
    each = MemoryRun(
        flow(node("a", writes=("x",), for_each=ForEach(items=(1, 2), concurrency=2)), fields=fields)
    )
    assert ended(each, {"a[1]": 1, "a[0]": 2}) == {}
    assert each.run.nodes()["a"].reason == "'x' can be set once, but a[0] and a[1] both write it"


def test_a_reader_sees_what_was_written_before_it_and_not_what_comes_behind_it() -> None:
    read = Dependency(id="a", edge=True, fields=("x",))
    spec = flow(node("a", writes=("x",)), node("b", read, reads=("x",)), node("c", "b", writes=("x",)))
    run = MemoryRun(spec)
    run.advance()
    [unit] = run.units({"a": Good(1)})
    assert unit.state == {"x": 1}
    run.advance({"b": Good()})
    run.advance({"c": Good(2)})
    assert run.state["x"] == 2


def test_answers_must_have_the_shape_of_the_writes() -> None:
    run = MemoryRun(
        flow(node("a", writes=("x", "y")), node("b", writes=("z",)), node("c", writes=("p", "q")))
    )
    state = ended(run, {"a": {"x": 1, "q": 2}, "b": {"z": 5}, "c": "text"})
    reports = run.run.nodes()
    assert reports["a"].reason == "a: the answer must have exactly the keys x, y; it is without y and with q"
    assert reports["c"].reason == "c: the answer must be an object with the keys p, q"
    assert state == {"z": 5}


def test_an_object_with_another_key_is_the_value_itself() -> None:
    assert ended(MemoryRun(flow(node("a", writes=("x",)))), {"a": {"y": 1}}) == {"x": {"y": 1}}
