"""`for_each`: iterations, their items, their tolerance, and what they append."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flows.running.steps.memory_run import BAD, Good, MemoryRun, flow, node

from headway.flows.spec import AUTO, Dependency, ForEach, MaxFailures


def test_a_unit_sees_its_reads_its_args_its_item_and_its_index() -> None:
    each = ForEach(source="$.names", concurrency=2)
    run = MemoryRun(
        flow(node("greet", for_each=each, reads=("tone",), args={"n": 1})),
        {"names": ["A", "B", "C"], "tone": "dry"},
    )
    first, second = run.units()
    assert (first.id, first.node, first.state, first.args, first.item, first.index) == (
        "greet[0]", "greet", {"tone": "dry"}, {"n": 1}, "A", 0,
    )  # fmt: skip
    assert second.item == "B"
    assert run.advance({"greet[1]": Good("b")}) == ["greet[2]"]
    run.advance({"greet[2]": Good("c"), "greet[0]": Good("a")})
    assert run.state["greet_out"] == ["a", "b", "c"]


def test_an_empty_source_is_success_with_an_empty_list() -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(source="$.xs")), node("b", "a")), {"xs": []})
    assert run.advance() == ["b"]
    assert run.state["a_out"] == []
    assert run.run.nodes()["a"].status == "success"


@pytest.mark.parametrize(
    ("inputs", "why"), [({}, "is missing"), ({"xs": 3}, "is not a list"), ({"xs": "abc"}, "is not a list")]
)
def test_a_source_that_is_missing_or_no_list_is_an_error(inputs: dict[str, Any], why: str) -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(source="$.xs")), node("b", "a")), inputs)
    assert run.advance() == []
    assert run.run.nodes()["a"].reason == f"for_each.source $.xs {why}"
    assert (run.run.nodes()["b"].status, run.run.status) == ("skipped", "failed")


def test_failures_within_the_tolerance_are_success() -> None:
    each = ForEach(source="$.xs", concurrency=AUTO, max_failures=MaxFailures(percent=50))
    run = MemoryRun(flow(node("a", for_each=each), node("b", "a")), {"xs": [1, 2]})
    run.advance()
    assert run.advance({"a[0]": BAD, "a[1]": Good("x")}) == ["b"]
    report = run.run.nodes()["a"]
    assert (report.status, report.failed, report.reason) == (
        "success",
        1,
        "1 of 2 iterations failed, which is tolerated",
    )
    assert run.state["a_out"] == ["x"]


def test_failures_outside_the_tolerance_write_nothing() -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(source="$.xs", concurrency=AUTO))), {"xs": [1, 2, 3]})
    run.advance()
    run.advance({"a[2]": BAD, "a[1]": Good("x")})
    assert run.run.status == "running"  # The others run all the same: a resume needs only those that failed.
    run.advance({"a[0]": Good()})
    assert run.run.nodes()["a"].reason == "1 of 3 iterations failed: it broke"
    assert "a_out" not in run.state


def test_the_error_that_is_shown_is_that_of_the_first_iteration_that_failed() -> None:
    from headway.flows.running.steps.node_run import UnitEnd

    run = MemoryRun(flow(node("a", for_each=ForEach(items=(1, 2, 3), concurrency=AUTO))))
    run.advance()
    run.advance(
        {"a[2]": UnitEnd(error="last"), "a[0]": UnitEnd(error="first"), "a[1]": UnitEnd(error="middle")}
    )
    assert run.run.nodes()["a"].reason.endswith(": first")


def test_a_failed_iteration_may_succeed_later_as_long_as_its_node_is_not_over() -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(items=(1, 2), concurrency=AUTO))))
    run.advance()
    run.advance({"a[0]": BAD})
    run.advance({"a[0]": Good("again")})
    run.advance({"a[1]": Good("b")})
    report = run.run.nodes()["a"]
    assert (report.status, report.succeeded, report.failed) == ("success", 2, 0)
    assert run.state["a_out"] == ["again", "b"]


def test_a_resumed_node_hands_out_what_has_not_ended() -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(items=tuple(range(6)), concurrency=2))))
    for n in (0, 2, 4):
        run.recorded(f"a[{n}]", Good(n))
    assert run.resumed() == ["a[1]", "a[3]"]
    assert run.advance({"a[3]": Good(3)}) == ["a[5]"]
    run.advance({"a[5]": Good(5), "a[1]": Good(1)})
    assert run.state["a_out"] == [0, 1, 2, 3, 4, 5]


def test_the_list_of_one_node_is_the_source_of_the_next() -> None:
    """Without the items in between that failed."""
    each = ForEach(items=tuple(range(1_000)), concurrency=AUTO, max_failures=MaxFailures(percent=50))
    second = node(
        "b", Dependency(id="a", fields=("a_out",)), for_each=ForEach(source="$.a_out", concurrency=2)
    )
    run = MemoryRun(
        flow(
            node("a", for_each=each),
            second,
            node(
                "c",
                Dependency(id="a", fields=("a_out",)),
                when="length($.a_out) == 667 && $.a_out[1] == 2 && $.a_out[-1] == 998",
            ),
        )
    )
    run.advance()
    started = run.units(
        {f"a[{n}]": BAD if n % 3 == 0 else Good(n) for n in range(1_000)} | {"a[999]": Good(998)}
    )
    assert [(unit.id, unit.item) for unit in started] == [("b[0]", 1), ("b[1]", 2), ("c", None)]
    assert [unit.item for unit in run.units({"b[0]": Good(), "b[1]": Good()})] == [4, 5]


def test_without_array_append_the_last_iteration_wins() -> None:
    from headway.flows.spec import StateField

    each = ForEach(items=(1, 2, 3), concurrency=AUTO, max_failures=MaxFailures(count=1))
    run = MemoryRun(flow(node("a", for_each=each, writes=("x",)), fields={"x": StateField(name="x")}))
    run.advance()
    run.advance({"a[2]": BAD, "a[1]": Good("one"), "a[0]": Good("zero")})
    assert run.state == {"x": "one"}


def test_several_fields_have_a_list_each() -> None:
    run = MemoryRun(flow(node("a", for_each=ForEach(items=(1, 2), concurrency=AUTO), writes=("x", "y"))))
    run.advance()
    run.advance({"a[1]": Good({"x": 1, "y": 11}), "a[0]": Good({"x": 0, "y": 10})})
    assert run.state == {"x": [0, 1], "y": [10, 11]}


def test_a_node_is_small_whatever_its_number_of_iterations() -> None:
    """One byte an iteration, and no answers."""
    import tracemalloc

    from headway.flows.running.state.run_values import HeldValues
    from headway.flows.running.steps.flow_run import FlowRun
    from headway.flows.running.steps.node_run import UnitEnd

    class Rows(HeldValues):
        def count_rows(self, node: str) -> int:
            return 100_000

        def rows(self, node: str, first: int, limit: int) -> list[Any]:
            return list(range(first, first + limit))

    data = node("data", kind="dataset", writes=("rows",))
    big = node(
        "big", Dependency(id="data", fields=("rows",)), for_each=ForEach(source="$.rows", concurrency=AUTO)
    )
    run = FlowRun(flow(data, big), {}, Rows())
    pending, end = run.advance(), UnitEnd()
    assert len(pending) == 1_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    done = 0
    while pending:
        done += len(pending)
        pending = run.advance({unit.id: end for unit in pending})
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert done == 100_000
    assert run.status == "success"
    assert grown < 200_000
