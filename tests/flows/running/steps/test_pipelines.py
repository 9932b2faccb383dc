"""Pipelines: items that overlap, fields that are carried from item to item, failed items."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, node, pipeline

from headway.flows.spec import AUTO, Dependency, FlowSpec, ForEach, StateField

DONE = {"done": StateField(name="done", merge="array_append")}


def two_stages(**settings: Any) -> FlowSpec:
    after = Dependency(id="first", fields=("first_out",))
    second = node("second", after, reads=("first_out",), writes=("done",), group="p")
    return flow(
        node("first", group="p"), second, node("end", "p", Dependency(id="p", fields=("done",)), reads=("done",)),
        pipelines=pipeline("p", "first", "second", **settings), fields=DONE,
    )  # fmt: skip


def test_stages_of_different_items_overlap_and_a_failure_ends_its_item() -> None:
    run = MemoryRun(two_stages(concurrency=2), {"xs": ["A", "B", "C"]})
    assert run.advance() == ["first#0", "first#1"]
    [unit] = run.units({"first#1": Good("b")})
    assert (unit.id, unit.state, unit.item, unit.index) == ("second#1", {"first_out": "b"}, "B", 1)
    assert run.advance({"second#1": Good("bb")}) == ["first#2"]
    run.advance({"first#0": BAD, "first#2": Good("c")})
    [end] = run.units({"second#2": Good("cc")})
    assert (end.id, list(end.state["done"])) == ("end", ["bb", "cc"])
    run.advance({"end": Good()})
    reports = run.run.nodes()
    assert (run.run.status, run.state["done"]) == ("partial", ["bb", "cc"])
    assert (reports["first"].status, reports["first"].units, reports["first"].failed) == ("failed", 3, 1)
    assert (reports["second"].skipped, reports["second"].reason) == (1, "first failed")


def test_the_order_of_items_counts_not_that_of_ends() -> None:
    run = MemoryRun(two_stages(concurrency=AUTO), {"xs": [1, 2, 3]})
    run.advance()
    for n in (2, 0, 1):
        run.advance({f"first#{n}": Good(n)})
        run.advance({f"second#{n}": Good([n, n])})
    assert run.state["done"] == [0, 0, 1, 1, 2, 2]
    assert run.state["first_out"] == 2


def test_a_pipeline_fails_if_all_items_do() -> None:
    run = MemoryRun(two_stages(concurrency=AUTO), {"xs": [1, 2]})
    run.advance()
    assert run.advance({"first#0": BAD, "first#1": BAD}) == []
    assert run.run.nodes()["end"].reason == "p failed"
    assert run.run.status == "failed"


def test_a_pipeline_without_items_is_a_success() -> None:
    run = MemoryRun(two_stages(), {"xs": []})
    assert run.advance() == ["end"]
    assert (run.run.nodes()["first"].status, run.run.nodes()["first"].units) == ("success", 0)


@pytest.mark.parametrize(("inputs", "why"), [({}, "is missing"), ({"xs": 3}, "is not a list")])
def test_items_that_are_missing_or_no_list_are_an_error(inputs: dict[str, Any], why: str) -> None:
    run = MemoryRun(two_stages(), inputs)
    assert run.advance() == []
    assert run.run.nodes()["first"].reason == f"items $.xs {why}"
    assert run.run.status == "failed"


def test_a_pipeline_is_one_of_the_nodes_that_run() -> None:
    spec = flow(
        node("a", group="p"),
        node("b"),
        pipelines=pipeline("p", "a", items=(1, 2), concurrency=2),
        concurrency=1,
    )
    run = MemoryRun(spec)
    assert run.advance() == ["a#0", "a#1"]
    assert run.advance({"a#0": Good()}) == []
    assert run.advance({"a#1": Good()}) == ["b"]


def glossary(concurrency: int = 1) -> FlowSpec:
    """`translate` reads what `collect` wrote for the items before."""
    collect = node("collect", Dependency(id="translate", fields=()), writes=("terms",), group="p")
    return flow(
        node("prepare", group="p"), node("translate", "prepare", reads=("terms",), group="p"), collect,
        pipelines=pipeline("p", "prepare", "translate", "collect", concurrency=concurrency),
        fields={"terms": StateField(name="terms", merge="array_append")},
    )  # fmt: skip


def test_a_stage_that_reads_what_a_later_one_writes_gets_it_from_the_items_before() -> None:
    run = MemoryRun(glossary(concurrency=3), {"xs": "abc", "terms": ["given"]} | {"xs": ["A", "B", "C"]})
    run.advance()
    assert run.advance({"prepare#1": Good()}) == []
    assert run.advance({"prepare#0": Good(), "prepare#2": Good()}) == ["translate#0"]
    assert run.advance({"translate#0": Good()}) == ["collect#0"]
    [second] = run.units({"collect#0": Good(["t0", "t0b"])})
    assert (second.id, list(second.state["terms"])) == ("translate#1", ["given", "t0", "t0b"])
    run.advance({"translate#1": Good()})
    [third] = run.units({"collect#1": Good("t1")})
    assert list(third.state["terms"]) == ["given", "t0", "t0b", "t1"]


def test_a_failed_item_does_not_hold_up_those_that_wait_for_it() -> None:
    run = MemoryRun(glossary(concurrency=2), {"xs": [1, 2]})
    run.advance()
    run.advance({"prepare#0": Good(), "prepare#1": Good()})
    assert run.advance({"translate#0": BAD}) == ["translate#1"]


def test_fields_that_are_not_carried_are_those_from_before_the_pipeline() -> None:
    """`b` sees `x` of its own item; `a`, which does not write it, would see the one from before."""
    a = node("a", reads=("y",), writes=("x",), group="p")
    b = node("b", Dependency(id="a", fields=("x",)), reads=("x",), writes=("z",), group="p")
    spec = flow(a, b, pipelines=pipeline("p", "a", "b", items=(1, 2), concurrency=2))
    run = MemoryRun(spec, {"x": "before", "y": "y"})
    run.advance()
    [unit] = run.units({"a#1": Good("x1")})
    assert unit.state == {"x": "x1"}
    [unit] = run.units({"a#0": Good("x0")})
    assert unit.state == {"x": "x0"}


def test_a_condition_skips_a_stage_of_one_item() -> None:
    b = node("b", Dependency(id="a", fields=("a_out",)), when="$.a_out > 1", writes=("done",), group="p")
    spec = flow(
        node("a", group="p"), b, pipelines=pipeline("p", "a", "b", items=(1, 2), concurrency=2), fields=DONE
    )
    run = MemoryRun(spec)
    run.advance()
    assert run.advance({"a#0": Good(1), "a#1": Good(2)}) == ["b#1"]
    run.advance({"b#1": Good("b")})
    assert (run.run.status, run.state["done"]) == ("success", ["b"])


def test_a_resumed_pipeline_goes_on_where_it_was() -> None:
    run = MemoryRun(two_stages(concurrency=2), {"xs": list(range(6))})
    for unit in ("first#0", "first#3", "second#3", "first#1", "second#1", "first#2", "second#2"):
        run.recorded(unit, Good(unit))
    for order in (list(run.ends), list(reversed(run.ends))):
        assert sorted(run.resumed({unit: run.ends[unit] for unit in order})) == ["first#4", "second#0"]


def test_items_that_are_over_are_one_byte_a_stage() -> None:
    import tracemalloc

    spec = flow(
        node("a", group="p"), node("b", "a", group="p"),
        pipelines=pipeline("p", "a", "b", items=tuple(range(50_000)), concurrency=AUTO),
    )  # fmt: skip
    from headway.flows.running.state.run_values import HeldValues
    from headway.flows.running.steps.flow_run import FlowRun
    from headway.flows.running.steps.node_run import UnitEnd

    run, end = FlowRun(spec, {}, HeldValues()), UnitEnd()
    run.make_events(False)
    pending = run.advance()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    done = 0
    while pending:
        done += len(pending)
        pending = run.advance({unit.id: end for unit in pending})
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert (done, run.status) == (100_000, "success")
    assert grown < 300_000


def test_a_for_each_goes_over_what_a_pipeline_wrote() -> None:
    each = ForEach(source="$.done", concurrency=AUTO)
    spec = flow(
        node("a", writes=("done",), group="p"), node("b", Dependency(id="p", fields=("done",)), for_each=each),
        pipelines=pipeline("p", "a", items=tuple(range(600)), concurrency=AUTO), fields=DONE,
    )  # fmt: skip
    run = MemoryRun(spec)
    run.advance()
    units = run.units({f"a#{n}": Good([n, -n]) for n in range(600)})
    assert len(units) == 1_000
    assert [unit.item for unit in units[:6]] == [0, 0, 1, -1, 2, -2]
    assert units[-1].item == -499
